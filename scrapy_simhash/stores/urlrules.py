"""The part of a store's interface that is about URL rules."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import defaultdict, deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from scrapy_simhash.errors import DamagedError
from scrapy_simhash.judging.rows import (
    LEARNED,
    OWED,
    Owed,
    RulesVersion,
    pack_row,
    read_rows,
    read_version,
)
from scrapy_simhash.judging.rule import Rule
from scrapy_simhash.judging.sinks import list_suspicious
from scrapy_simhash.pages.addresses import split_url
from scrapy_simhash.pages.scopes import find_site
from scrapy_simhash.stores import rulebook as book
from scrapy_simhash.stores.keyvalues import ROW_TABLES, cut
from scrapy_simhash.stores.rulebook import check_sample
from scrapy_simhash.urls.applying import name_form
from scrapy_simhash.urls.learning import learn
from scrapy_simhash.urls.rules import RuleState, UrlRuleRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from scrapy_simhash.judging.comparison import Outcome
    from scrapy_simhash.judging.documents import StoredDocument
    from scrapy_simhash.stores.documents import Documents
    from scrapy_simhash.stores.owed import OwedTable
    from scrapy_simhash.stores.rulebook import RuleAction, Sample
    from scrapy_simhash.urls.learning import Learned, SameForm
    from scrapy_simhash.urls.rules import ActingRule, RuleChange, UrlRule

Result = TypeVar("Result")
# By table, its keys and rows.
UrlRows: TypeAlias = "dict[str, list[tuple[bytes, bytes]]]"
_DECIDED: dict[RuleState, RuleAction] = {RuleState.PINNED: "pin", RuleState.BANNED: "ban"}

# A transaction that moves so many requests locks the store for some milliseconds.
_REQUESTS_PER_GROUP = 1_000
# Of a site that is learned; 2.5 KB each.
_PAGES_OF_SITE = 2**15
# Some milliseconds: LMDB keeps the pages of its file that a reader sees.
_PAGES_PER_READ = 1_000


class UrlRuleStore(ABC):
    """The methods of a `Store` that concern URL rules."""

    seed: int
    owed: OwedTable
    distance: int
    confirm: float | None
    readonly: bool

    @abstractmethod
    def read(self, work: Callable[[Documents], Result]) -> Result: ...

    @abstractmethod
    def write(self, work: Callable[[Documents], Result]) -> Result: ...

    @abstractmethod
    def _require_writable(self) -> None: ...

    @abstractmethod
    def get_documents(self, documents: Sequence[int]) -> list[StoredDocument]:
        """Get documents by their numbers, without texts; leaves out those that do not exist."""

    def learn_url_rules(self) -> list[RuleChange]:
        """Learn URL rules from the stored pages, site by site; returns those that act now, or not.

        Reads all records twice, a thousand at a time, so that no transaction lasts long; of a site
        the newest 32,768 pages, some 80 MB. The rules of a site are written in one transaction.

        Raises:
            ValueError: the store was opened read-only.
        """
        self._require_writable()
        changes: list[RuleChange] = []
        last = self.read(lambda stored: stored.values.find_last())
        for known, found in self._learn({record.rule: record.state for record in self.url_rules()}):
            if found.records:
                now = time.time()
                keep = partial(book.keep_learned, learned=found.records, known=known, time=now)
                changes += self.write(keep)
            for forms in cut(found.forms, _REQUESTS_PER_GROUP):
                self.write(partial(_note_forms, forms=forms))
        learned = pack_row(LEARNED, RulesVersion(last))
        self.write(lambda stored: stored.put_row("acting", LEARNED, learned))
        return changes

    def count_url_votes(self, rules: Collection[UrlRule]) -> list[UrlRuleRecord]:
        """Count what the stored pages say of some rules, see `learn_url_rules`; writes nothing."""
        given = dict.fromkeys(rules, RuleState.LEARNING)
        learned = [found.records for _, found in self._learn(given)]
        found = {record.rule: record for records in learned for record in records}
        return [found.get(rule) or UrlRuleRecord(rule) for rule in rules]

    def _learn(
        self, known: Mapping[UrlRule, RuleState]
    ) -> Iterator[tuple[dict[UrlRule, RuleState], Learned]]:
        """Learn site by site; with the rules of each that are known."""
        walls = self.read(list_suspicious)
        sites: defaultdict[str, deque[int]] = defaultdict(partial(deque, maxlen=_PAGES_OF_SITE))
        last = self.read(lambda stored: stored.values.find_last())
        for page in self._read_pages(range(1, last + 1)):
            parts = split_url(page.url)
            if parts is not None:
                sites[find_site(parts.netloc)].append(page.document)
        by_site: defaultdict[str, dict[UrlRule, RuleState]] = defaultdict(dict)
        for rule, state in known.items():
            by_site[find_site(rule.host)][rule] = state
        for site, numbers in sites.items():
            of_site = by_site[site]
            pages = self._read_pages(numbers)
            yield of_site, learn(pages, walls, Rule(self.distance, self.confirm), of_site)

    def measure_growth(self) -> tuple[int, int]:
        """Get the numbers of the last document when rules were learned, and of the last one now."""
        return self.read(lambda stored: (read_version(stored, LEARNED), stored.values.find_last()))

    def _read_pages(self, numbers: Iterable[int]) -> Iterator[StoredDocument]:
        """Read documents by their numbers, some in each transaction."""
        for some in cut(numbers, _PAGES_PER_READ):
            try:
                yield from self.get_documents(some)
            except DamagedError:  # `check` lists it
                for number in some:
                    with suppress(DamagedError):
                        yield from self.get_documents([number])

    def url_rules(self, host: str | None = None) -> list[UrlRuleRecord]:
        """List all rules with their evidence, or those of one host, by their text."""
        return self.read(lambda stored: book.list_rules(stored, host))

    def list_acting_rules(self) -> tuple[int, list[ActingRule]]:
        """List the rules that act now, with their version; two rows."""
        return self.read(lambda stored: (read_version(stored), book.list_acting(stored)))

    def change_url_rule(self, rule_id: str, action: RuleAction) -> UrlRuleRecord:
        """Change the state of a rule because a person says so.

        What a rule parked is requested again once it does not act any more.

        Args:
            rule_id: 16 hex digits.
            action: `pin` (it acts whatever its votes), `ban` (it never acts), `retire` (it does not
                act now; votes may prove it again), or `learn` (its votes decide again).

        Raises:
            ValueError: there is no such rule or action.
        """
        now = time.time()
        return self.write(lambda stored: book.change_rule(stored, rule_id, action, now))

    def add_url_rules(self, rules: Iterable[UrlRule]) -> list[UrlRuleRecord]:
        """Add rules of a file as candidates without votes; returns those that are new.

        Raises:
            ValueError: one of them is no rule; nothing was added.
        """
        rules, now = list(rules), time.time()
        return self.write(lambda stored: book.add_rules(stored, rules, now))

    def check_sample(self, sample: Sample) -> tuple[Outcome | None, list[RuleChange]]:
        """Let a page vote on the rules that would have spared its request; one transaction.

        One `different` retires them.

        Returns:
            Its vote, or None if nobody can tell, and it has none; and the rules that it changed.

        Raises:
            StoreUnavailableError: it did not vote.
        """
        rule, now = Rule(self.distance, self.confirm), time.time()
        return self.write(lambda stored: check_sample(stored, sample, rule, now))

    def sweep_url_forms(self) -> int:
        """Forget the normal forms of documents that were deleted; returns how many.

        Reads all of them and the documents' records, a thousand at a time; keeps the keys.
        """

        def find(stored: Documents, keys: Sequence[bytes]) -> list[bytes]:
            stored.prefetch_rows(("forms", key) for key in keys)
            numbers = {key: book.find_form(stored, key).document for key in keys}
            stored.prefetch_rows((), records=[number for number in numbers.values() if number])
            return [key for key, number in numbers.items() if stored.get(number) is None]

        def drop(stored: Documents, keys: Sequence[bytes]) -> int:
            spent = find(stored, keys)  # things may have changed
            for key in spent:
                stored.drop_row("forms", key)
            return len(spent)

        every = self.read(lambda stored: [key for key, _ in stored.scan_rows("forms")])
        dropped = 0
        for some in cut(every, _REQUESTS_PER_GROUP):
            if keys := self.read(partial(find, keys=some)):
                dropped += self.write(partial(drop, keys=keys))
        return dropped

    def read_url_rows(self) -> UrlRows:
        """Read all rows of the tables of URL rules, as `copy_url_rows` takes them; at once."""
        return self.read(lambda stored: {name: list(stored.scan_rows(name)) for name in ROW_TABLES})

    def copy_url_rows(self, rows: UrlRows) -> None:
        """Copy rows of a store whose documents were copied unchanged, with their numbers."""
        every = [(table, *row) for table, found in rows.items() for row in found]
        for some in cut(every, _REQUESTS_PER_GROUP):
            self.write(partial(_put_rows, some))

    def merge_url_rows(self, rows: UrlRows) -> None:
        """Take over the URL rules of another store whose documents were merged into this one.

        Its rules become candidates without votes, because its votes may be those of documents that
        this store has, too; what people decided there holds, unless they decided here. What was
        parked there is made by the next crawl: its targets have other numbers here. Walls are not
        taken over, they are recognised again.
        """
        records = [record for _, record in read_rows(UrlRuleRecord, rows["rules"])]
        self.add_url_rules(record.rule for record in records)
        states = {record.rule: record.state for record in self.url_rules()}
        for record in records:
            here = states.get(record.rule)
            action = _DECIDED.get(record.state)
            if action is not None and here is not None and here not in _DECIDED:
                self.change_url_rule(record.rule.id, action)
        self.owed.take_over(row for _, row in read_rows(Owed, rows[OWED]))


def _note_forms(stored: Documents, forms: Sequence[SameForm]) -> None:
    """Note the first page of each normal form that each reader got."""
    found: dict[bytes, book.Form] = {}
    for form, rules, pages in forms:
        for page in pages:
            noted = book.Form(page.document, tuple(sorted(rules)))
            for reader in {page.reader, *page.readers}:
                found.setdefault(name_form(form, reader), noted)
    stored.prefetch_rows(("forms", name) for name in found)
    for name, first in found.items():
        book.note_form(stored, name, first)


def _put_rows(rows: Sequence[tuple[str, bytes, bytes]], stored: Documents) -> None:
    stored.prefetch_rows((table, key) for table, key, _ in rows)
    for row in rows:
        stored.put_row(*row)
