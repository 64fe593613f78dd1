"""Learn URL rules from the pages that a store judges, in the same transaction.

A candidate is born when two pairs of pages propose it: near-duplicates, a page and the one that it
calls canonical, an address and the one that it was redirected to. Then the pages of its host vote,
those of the past, too: each page is mapped to its normal form, and where another page has that form
already, the two are compared. One vote `same` counts for a form, and one for a document: all the
pages that show one login form are the same, and say nothing about their addresses.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from scrapy_simhash.judging.documents import Document
from scrapy_simhash.judging.sinks import may_vote, name_sink
from scrapy_simhash.judging.urls.acting import follow
from scrapy_simhash.judging.urls.addresses import (
    Address,
    directory_of,
    format_address,
    parse_address,
)
from scrapy_simhash.judging.urls.applying import apply_rule, may_change
from scrapy_simhash.judging.urls.ballot import Vote, count_vote, retire_loose
from scrapy_simhash.judging.urls.book import (
    VERSION,
    Entry,
    HostRow,
    Noted,
    add_rule,
    change_entry,
    document_of,
    find_form,
    form_key,
    get_host,
    host_key,
    host_of_url,
    hosts_of,
    read_form,
    read_noted,
    split_keys,
    write_form,
)
from scrapy_simhash.judging.urls.candidates import find_candidates
from scrapy_simhash.judging.urls.evidence import (
    STALE_SECONDS,
    Outcome,
    can_vote,
    compare_pages,
    group_of,
)
from scrapy_simhash.judging.urls.memory import MOST_PAGES_OF_HOST, Memory, Seen
from scrapy_simhash.judging.urls.proof import can_act
from scrapy_simhash.judging.urls.records import ACTS, Form, RuleChange, RuleState, UrlRule
from scrapy_simhash.pages.links import MOSTLY_NEW, NO_LINKS, measure_new_links

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from scrapy_simhash.judging.documents import Match, PageFacts, Record, Verdict
    from scrapy_simhash.judging.interface import Documents
    from scrapy_simhash.judging.rule import Rule

_NO_VOTE = 0
# What a form has voted, see `Form`.
_WEIGHTS: dict[Outcome | None, int] = {Outcome.GREY: 1, Outcome.SAME: 2}
# Rows of hosts that are kept unpacked.
_MOST_HOSTS = 1_024


class Fetched(NamedTuple):
    """How a page was requested.

    Attributes:
        callback: name of the callback; "" where that is not known.
        requested: URL that was requested first, where it was redirected; otherwise "".
        sampled: ids of the rules that the page checks, see `sampling`. It votes on them there, and
            they do not decide about it.
    """

    callback: str = ""
    requested: str = ""
    sampled: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UrlLearning:
    """What learning takes besides the documents of a group; plain data.

    Attributes:
        confidence: that a rule must reach to act, 0 to 1.
        fetched: how the documents were requested, by identity.
        deciding: rules that act are evidence in the grey zone of the judgement, too
            (SIMHASH_URL_RULES is `skip`).
    """

    confidence: float = 0.9
    fetched: Mapping[bytes, Fetched] = field(default_factory=dict)
    deciding: bool = True

    def is_sample(self, document: Document) -> bool:
        """Whether a document was requested to check rules."""
        return bool(self.fetched.get(document.identity, Fetched()).sampled)


class _Page(NamedTuple):
    """A page that votes.

    Attributes:
        seen: what is remembered of it.
        facts: its document or record.
        address: its address.
        form: its address as text.
        group: number of the document that it shows: its own, or that of its original.
        changed: its text is another one than before.
        match: by which the judge found that document without asking rules on addresses.
        sampled: ids of rules that it does not vote on here, see `Fetched`.
    """

    seen: Seen
    facts: PageFacts
    address: Address
    form: str
    group: int
    changed: bool = False
    match: Match | None = None
    sampled: tuple[str, ...] = ()


class _Met(NamedTuple):
    """A page that has the normal form of another one: URL, group, and how they compare.

    The outcome is None where the two have no vote. The other page is `stale` if it was fetched so
    long before that it may have been changed.
    """

    url: str
    group: int
    outcome: Outcome | None
    stale: bool = False


class Learner:
    """Learns inside the transactions of one store; keeps the last pages in memory, bounded.

    A transaction that is run again does no harm: what it wrote is gone, and what it remembered is
    checked before it is used.

    Args:
        rule: by which two documents are compared.
    """

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._memory: Memory | None = None
        self._rows: dict[str, tuple[bytes, HostRow]] = {}

    def learn(
        self, documents: Documents, document: Document, verdict: Verdict, learning: UrlLearning
    ) -> list[RuleChange]:
        """Let a page that was just judged vote; list the rules that changed their state."""
        address = parse_address(document.url)
        if address is None or not verdict.document or verdict.status == "unjudged":
            return []
        match = verdict.match
        fetched = learning.fetched.get(document.identity, Fetched())
        new_links = match.new_links if match is not None else None
        seen = Seen(verdict.document, document.url, fetched.callback, new_links)
        group = match.document if match is not None else verdict.document
        if self._memory is None:
            self._memory = _remember_newest(documents)
        self._memory.add(address.host, seen)
        if not can_vote(document):
            return []
        page = _Page(
            seen,
            document,
            address,
            format_address(address),
            group,
            changed=verdict.reason == "changed",
            match=match if match and self._rule.confirm is not None and not match.rule else None,
            sampled=fetched.sampled,
        )
        pairs = [
            (document.url, match.url if match is not None else None),
            (fetched.requested or document.requested, document.url),
        ]
        for rule in self._propose(documents, document, pairs):
            add_rule(documents, rule, document.time)
        row = self._get_host(documents, address.host)
        if not row.entries:
            return []
        changes = self._catch_up(documents, row, document.time, learning.confidence)
        row = self._get_host(documents, address.host)
        return changes + self._vote(documents, row, page, learning.confidence)

    def list_witnesses(self, documents: Documents, url: str) -> list[tuple[str, int]]:
        """List the documents to which rules that act lead from an address, or that lead there.

        Returns:
            Text of the rule, or of the first of several, and number of the document.
        """
        address = parse_address(url)
        row = self._get_host(documents, address.host) if address is not None else None
        if address is None or row is None or not row.entries:
            return []
        found: list[tuple[str, int]] = []
        noted = read_noted(documents, format_address(address)) or Noted()
        for key in split_keys(noted.rules):
            entry = row.by_key.get(key)
            if entry is not None and entry.state in ACTS:
                form = read_form(documents, key, format_address(address))
                found += [(entry.rule.text, form.document)] if form is not None else []
        ways = [(rule, rule, form) for rule, form in row.acting.list_changes(address)]
        final, rules = follow(row.acting, address)
        if len(rules) > 1:
            ways.append((rules[0], rules[-1], final))
        for first, last, form_address in ways:
            form = find_form(documents, last.id, format_address(form_address))
            found += [(first.text, form.document)] if form is not None else []
        return found

    def list_host_keys(self, group: Sequence[Document]) -> list[tuple[str, bytes]]:
        """List the rows (table, key) of the hosts of a group, to read them at once."""
        hosts = dict.fromkeys(host for each in group if (host := host_of_url(each.url)))
        return [("meta", VERSION), *(("hosts", host_key(host)) for host in hosts)]

    def list_form_keys(
        self, documents: Documents, group: Sequence[Document]
    ) -> list[tuple[str, bytes]]:
        """List the other rows that learning from a group will read, once those of hosts are."""
        return _list_form_keys(group, lambda host: self._get_host(documents, host))

    def guess_form_keys(self, group: Sequence[Document]) -> list[tuple[str, bytes]]:
        """List what `list_form_keys` will, unless a rule of the hosts has changed since then."""
        return _list_form_keys(
            group, lambda host: self._rows.get(host, (b"", HostRow(host, [])))[1]
        )

    def list_met_keys(
        self, documents: Documents, group: Sequence[Document]
    ) -> list[tuple[str, bytes]]:
        """List the rows that those of `list_form_keys` lead to: pages that others have as form."""
        keys: list[tuple[str, bytes]] = []
        for document in group:
            address = parse_address(document.url)
            if address is not None and self._get_host(documents, address.host).entries:
                form = format_address(address)
                noted = read_noted(documents, form) or Noted()
                for key in split_keys(noted.rules):
                    keys += [("forms", form_key(key, form)), ("rules", key)]
        return keys

    def _get_host(self, documents: Documents, host: str) -> HostRow:
        """Get the rules of a host; unpacked once as long as its row stays the same."""
        packed = documents.get_row("hosts", host_key(host))
        if packed is None:
            return HostRow(host, [])
        known = self._rows.get(host)
        if known is not None and known[0] == packed:
            return known[1]
        if len(self._rows) >= _MOST_HOSTS:
            self._rows.clear()
        row = get_host(documents, host)
        self._rows[host] = packed, row
        return row

    def _propose(
        self, documents: Documents, document: Document, pairs: list[tuple[str, str | None]]
    ) -> Iterator[UrlRule]:
        """List the rules that a page proposes, and that another pair of pages proposed before."""
        url, canonical = document.url, document.canonical
        if (
            canonical
            and (url, canonical) not in {(url, url), *pairs}
            and self._knows(documents, canonical)
        ):
            pairs.append((url, canonical))
        assert self._memory is not None  # noqa: S101 - the page is in it
        for first, second in pairs:
            if not first or not second:
                continue
            for rule in find_candidates(first, second, canonical):
                if rule in self._get_host(documents, rule.host).rules:
                    continue
                own, other = parse_address(first), parse_address(second)
                assert own is not None  # noqa: S101 - otherwise there were no candidates
                changed = own if own.host == rule.host else other
                assert changed is not None  # noqa: S101 - the same
                if self._memory.propose(rule, format_address(apply_rule(rule, changed))):
                    yield rule

    def _knows(self, documents: Documents, url: str) -> bool:
        """Whether an address is that of a document."""
        address = parse_address(url)
        if address is None:
            return False
        assert self._memory is not None  # noqa: S101 - the page is in it
        form = format_address(address)
        if self._get_host(documents, address.host).entries:
            noted = read_noted(documents, form)
            return noted is not None and bool(noted.document)
        return any(seen.url == url for seen in self._memory.list_pages(address.host))

    def _catch_up(
        self, documents: Documents, row: HostRow, time: float, confidence: float
    ) -> list[RuleChange]:
        """Let the pages before it vote on a rule that was just born."""
        fresh = [entry for entry in row.entries if not entry.caught_up]
        changes: list[RuleChange] = []
        if not fresh:
            return changes
        assert self._memory is not None  # noqa: S101 - it was made before the first page
        first = len(fresh) == len(row.entries)
        for entry in fresh:
            change_entry(documents, entry.rule, caught_up=True)
            hosts = hosts_of(entry.rule)
            # The last one is just about to vote.
            pages = [seen for host in hosts for seen in self._memory.list_pages(host)[:-1]]
            if documents.remote:
                self._prefetch(documents, entry.rule, pages)
            if first or len(hosts) > 1:
                for seen in pages:
                    _note_address(documents, seen)
            for seen in sorted(pages, key=attrgetter("number")):
                changes += self._vote_again(documents, entry, seen, time, confidence)
        return changes

    def _prefetch(self, documents: Documents, rule: UrlRule, pages: list[Seen]) -> None:
        """Read in three round trips what pages of the past need to vote on a rule."""
        changed = {seen: made for seen in pages if (made := _change(rule, seen.url)) is not None}
        forms = {format_address(form) for _, form in changed.values()}
        own = {seen: _format(seen.url) for seen in pages}
        rows = [("forms", form_key(b"", form)) for form in {*own.values(), *forms}]
        rows += [("forms", form_key(rule.key, form)) for form in forms]
        numbers = {seen.number for seen, form in own.items() if seen in changed or form in forms}
        documents.prefetch_rows(rows, records=numbers)
        for table, key in rows:
            packed = documents.get_row(table, key)
            if packed is not None:
                numbers.add(document_of(key, packed))
        numbers.discard(0)
        documents.prefetch_rows((), records=numbers)
        records = [(number, documents.get(number)) for number in numbers]
        groups = {group_of(number, record) for number, record in records if record is not None}
        documents.prefetch_rows([name_sink(number) for number in groups])

    def _vote_again(
        self, documents: Documents, entry: Entry, seen: Seen, time: float, confidence: float
    ) -> list[RuleChange]:
        """Let a page of the past vote on one rule, if the rule changes its address."""
        changed = _change(entry.rule, seen.url)
        if changed is None:
            return []
        address, form = changed
        record = documents.get(seen.number)
        if record is None or record.url != seen.url or not can_vote(record):
            return []
        page = _Page(seen, record, address, format_address(address), group_of(seen.number, record))
        vote = self._meet(documents, entry, page, form)
        return [] if vote is None else count_vote(documents, vote._replace(time=time), confidence)

    def _vote(
        self, documents: Documents, row: HostRow, page: _Page, confidence: float
    ) -> list[RuleChange]:
        """Let a page vote on all rules of its host."""
        changes: list[RuleChange] = []
        noted = _note_address(documents, page.seen)
        # Pages at other addresses that have this one as their normal form.
        for key in split_keys(noted.rules):
            entry = row.by_key.get(key)
            if entry is not None and entry.state is not RuleState.BANNED:
                vote = self._meet(documents, entry, page, page.address)
                changes += [] if vote is None else count_vote(documents, vote, confidence)
        for rule in row.voting.list_loose(page.address):
            changes += retire_loose(documents, rule, page.seen.url, page.facts.time)
        changing = row.voting.list_changes(page.address)
        for rule, form in changing:
            vote = self._meet(documents, row.by_key[rule.key], page, form)
            if vote is not None and rule.id not in page.sampled:
                changes += count_vote(documents, vote, confidence)
        if any(row.by_key[rule.key].state in ACTS for rule, _ in changing):
            changes += self._check_chain(documents, row, page, confidence)
        return changes

    def _meet(self, documents: Documents, entry: Entry, page: _Page, form: Address) -> Vote | None:
        """Let a page meet the one that has its normal form; the first one is noted."""
        rule, text = entry.rule, format_address(form)
        stored = read_form(documents, rule.key, text)
        other = stored
        if stored is None and form is not page.address:
            other = _find_there(documents, rule, text)
        born = stored is not None and stored.born == entry.born
        if other is None or other.document == page.seen.number:
            if stored is None or page.changed or not born:
                fresh = Form(page.seen.number, callback=page.seen.callback, born=entry.born)
                write_form(documents, rule.key, text, fresh)
            return None
        met = self._compare(documents, page, other)
        if met is None:  # deleted
            fresh = Form(page.seen.number, callback=page.seen.callback, born=entry.born)
            write_form(documents, rule.key, text, fresh)
            return None
        voted = stored.voted if stored is not None and born else _NO_VOTE
        now = max(voted, _WEIGHTS.get(met.outcome, _NO_VOTE))
        row = Form(other.document, now, other.callback, entry.born)
        if met.stale and met.outcome is not None:
            # Otherwise no page of a later crawl could ever speak against the rule; and a page that
            # expired would spare no request any more, however often it is fetched.
            row = Form(page.seen.number, now, page.seen.callback, entry.born)
        if row != stored:
            write_form(documents, rule.key, text, row, is_there=stored is not None)
        # A form votes once, unless it speaks against the rule.
        counted = now > voted or met.outcome is Outcome.DIFFERENT
        sampled = entry.state in ACTS and form is not page.address
        if met.outcome is None or not (counted or sampled):
            return None
        return Vote(
            rule,
            met.outcome,
            (page.seen.url, met.url),
            directory_of(form),
            {page.group, met.group},
            page.facts.time,
            counted,
            sampled,
        )

    def _compare(self, documents: Documents, page: _Page, other: Form) -> _Met | None:
        """Compare a page with another one; None if that was deleted."""
        known = page.match is not None and page.match.document == other.document
        record = None if known else documents.get(other.document)
        if record is not None:
            url, group = record.url, group_of(other.document, record)
        elif known and page.match is not None:
            url, group = page.match.url or "", page.group
        else:
            return None
        mine, theirs = page.seen.callback, other.callback
        if (
            (mine and theirs and mine != theirs)
            or (record is not None and not can_vote(record))
            or not all(may_vote(documents, each) for each in {page.group, group})
        ):
            return _Met(url, group, None)
        if record is None:  # the judge compared them
            outcome, share = Outcome.SAME, page.seen.new_links
        else:
            outcome, share = compare_pages(page.facts, record, self._rule), None
            if outcome is Outcome.SAME:
                share = _measure_new_links(page, record)
        elsewhere = share is not None and share >= MOSTLY_NEW
        stale = record is not None and page.facts.time - record.time > STALE_SECONDS
        return _Met(url, group, None if elsewhere else outcome, stale)

    def _check_chain(
        self, documents: Documents, row: HostRow, page: _Page, confidence: float
    ) -> list[RuleChange]:
        """Check rules that act one after the other: a page that differs speaks against all."""
        final, rules = follow(row.acting, page.address)
        if len(rules) < 2:  # noqa: PLR2004 - one rule alone was asked
            return []
        other = _find_there(documents, rules[-1], format_address(final)) or read_form(
            documents, rules[-1].key, format_address(final)
        )
        if other is None or other.document == page.seen.number:
            return []
        met = self._compare(documents, page, other)
        if met is None or met.outcome is None:
            return []
        changes = []
        for rule in rules:
            if rule.id in page.sampled:
                continue
            vote = Vote(
                rule,
                met.outcome,
                (page.seen.url, met.url),
                directory_of(final),
                {page.group, met.group},
                page.facts.time,
                counted=met.outcome is Outcome.DIFFERENT,
                sampled=True,
            )
            changes += count_vote(documents, vote, confidence)
        return changes


def _list_form_keys(
    group: Sequence[Document], get_host: Callable[[str], HostRow]
) -> list[tuple[str, bytes]]:
    """List the rows that pages read to vote on the rules of their hosts."""
    keys: dict[tuple[str, bytes], None] = {}
    for document in group:
        address = parse_address(document.url)
        row = get_host(address.host) if address is not None else None
        if address is None or row is None or not row.entries:
            continue
        keys["forms", form_key(b"", format_address(address))] = None
        for rule, changed in row.voting.list_changes(address):
            form = format_address(changed)
            keys["forms", form_key(b"", form)] = keys["forms", form_key(rule.key, form)] = None
            keys["rules", rule.key] = None
    return list(keys)


def _remember_newest(documents: Documents) -> Memory:
    """Remember the last pages of former crawls."""
    memory = Memory()
    for number, record in reversed(documents.list_newest(MOST_PAGES_OF_HOST)):
        if host := host_of_url(record.url):
            memory.add(host, Seen(number, record.url))
    return memory


def _change(rule: UrlRule, url: str) -> tuple[Address, Address] | None:
    """Apply a rule to an address: that, and its normal form; None where it changes nothing."""
    # A host with many candidates has many births, each with the last pages.
    address = parse_address(url) if may_change(rule, url) else None
    if address is None or address.host != rule.host:
        return None
    form = apply_rule(rule, address)
    return None if form is address else (address, form)


def _format(url: str) -> str:
    """Write an address as its row has it."""
    address = parse_address(url)
    return format_address(address) if address is not None else url


def _note_address(documents: Documents, seen: Seen) -> Noted:
    """Note which document is at an address; returns its row."""
    form = _format(seen.url)
    known = read_noted(documents, form)
    noted = known or Noted()
    if noted.document != seen.number or (seen.callback and noted.callback != seen.callback):
        noted.document, noted.callback = seen.number, seen.callback
        write_form(documents, b"", form, noted, is_there=known is not None)
    return noted


def _find_there(documents: Documents, rule: UrlRule, form: str) -> Form | None:
    """Find the document at an address that a rule makes; notes there that the rule leads to it."""
    if not can_act(rule):
        return None
    known = read_noted(documents, form)
    noted = known or Noted()
    if rule.key not in split_keys(noted.rules):
        noted.rules += rule.key
        write_form(documents, b"", form, noted, is_there=known is not None)
    return Form(noted.document, callback=noted.callback) if noted.document else None


def _measure_new_links(page: _Page, record: Record) -> float | None:
    """Measure which share of a page's links is not on another, not even at its place there."""
    links = page.facts.links if isinstance(page.facts, Document) else NO_LINKS
    share = measure_new_links(
        page.facts.link_sketch, links, page.seen.url, record.link_sketch, record.url
    )
    # Those of a page of the past are not known any more, but how many its original lacked.
    if links is NO_LINKS and share is not None and page.seen.new_links is not None:
        share = min(share, page.seen.new_links)
    return share
