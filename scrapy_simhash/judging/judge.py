"""The judgement of a store: new, near-duplicate or revisit, inside one transaction.

A record makes another page a near-duplicate only when it is *done*, or *pending* in a crawl whose
lease is alive. Any other pending record is an *orphan*: its items never came through, so it never
causes a drop; the next similar page takes over, and the page itself is judged afresh.

A page dropped for a pending one is *lost* if that one's callback fails, or its crawl dies: nobody
has the text. So such a drop is noted until its original is done, and taken back when it never will
be: a crawl of the same spider requests the page again, or it is listed.

All that is about one *reader*, a callback of a spider. A page is dropped only for what its own one
got. If there is a record that only others got, the page is a near-duplicate that is kept: as a
record of its own, which later pages for this reader match.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from scrapy_simhash.judging.comparison import (
    Compared,
    compare,
    compare_candidates,
    deserves_a_look,
    is_better_url,
)
from scrapy_simhash.judging.documents import (
    Change,
    Document,
    Match,
    Record,
    State,
    Status,
    Verdict,
)
from scrapy_simhash.judging.gate import look_at_candidates
from scrapy_simhash.judging.sites import Sites
from scrapy_simhash.pages.facts import EVERYONE, NOBODY, Facts
from scrapy_simhash.pages.links import NO_LINKS, measure_new_links
from scrapy_simhash.simhash import hamming_distance
from scrapy_simhash.tables.probing import MOST_IN_BUCKET, MOST_IN_PLAIN_BUCKET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from scrapy_simhash.judging.documents import Candidate, Kept, Reading
    from scrapy_simhash.judging.rule import Rule
    from scrapy_simhash.pages.facts import Reader

# A name that more documents have proposes none: it is the site's, or that of a kind of page; and
# a fingerprint near to more says as little.
MOST_CALLED = 8
# Of plain simhash: no page may cost more than this many records, however many are near to it.
MOST_CANDIDATES = 512
# Of equal short pages and files, which their readers keep once each.
_MOST_EQUAL = 64
BUCKET_TOO_FULL = "bucket_too_full"


class Limits(NamedTuple):
    """How far a probe of the tables goes: in bits, near fingerprints, and rows of a bucket."""

    bits: int
    most: int  # one more than are used, to know that there are more
    in_bucket: int
    or_nothing: bool = False  # of what more than these are near to, nothing is near


def limit_probe(page: Facts, rule: Rule) -> Limits:
    """Choose the limits of a page's probe; where rare triples propose, too, it may give up."""
    bits = 0 if page.stub else rule.distance
    if rule.confirm is None or not page.sketch:
        return Limits(bits, MOST_CANDIDATES + 1, MOST_IN_PLAIN_BUCKET)
    if page.stub:
        return Limits(bits, _MOST_EQUAL + 1, MOST_IN_BUCKET)
    return Limits(bits, MOST_CALLED + 1, MOST_IN_BUCKET, or_nothing=True)


@dataclass
class Judge:
    """Judges documents inside one transaction one after the other, each against all before it."""

    documents: Reading
    rule: Rule
    alive: Callable[[str], bool]  # tells whether a crawl is still running
    sites: Sites = field(default_factory=Sites)  # lasts from one judge to the next

    def find_match(
        self, document: Document, own: int = 0
    ) -> tuple[Match | None, Match | None, bool]:
        """Find the record that counts and is most alike; of equals the nearest, then the oldest."""
        # The document's own record, of the number `own`, must not count. Returns the match; or else
        # the record that would have been it, had it been confirmed; and whether every document that
        # could be one was compared.
        candidates, complete = self.documents.gather(document, self.rule, own)
        chosen = list(self._choose(document, candidates))
        sketched = {
            candidate.number: record.facts
            for candidate, record in chosen
            if record and record.facts.sketch and document.facts.sketch
        }
        sites = self.sites.find(self.documents, document.facts, sketched, own)
        compared = compare_candidates(document.facts, chosen, sites, self.rule)
        if self.rule.confirm is not None and document.wording:
            compared.sort(key=lambda each: (not each.candidate.stands, *_rank(each)))
            compared = look_at_candidates(document, compared, self.documents, self.sites)
        alike = sorted((each for each in compared if each.answer.duplicate), key=_rank)
        # Those that its reader got come first.
        if match := next((each for each in alike if each.candidate.stands), None):
            return _make_match(document, match), None, complete
        if alike:
            record = alike[0].record
            same_callback = record is None or counts(
                record, self.alive, document.facts.reader, across_spiders=True
            )
            kept: Kept = "other_spider" if same_callback else "other_callback"
            return _make_match(document, alike[0], kept), None, complete
        parted = (
            each
            for each in compared
            if deserves_a_look(each.candidate, each.answer.similarity, self.rule)
        )
        nearest = min(parted, key=_rank, default=None)
        return None, _make_match(document, nearest) if nearest else None, complete

    def _choose(
        self, page: Document, candidates: Iterable[tuple[Candidate, Record | None]]
    ) -> Iterator[tuple[Candidate, Record | None]]:
        """Choose the candidates that count; a bulk-loaded one has no record."""
        facts, reader, across = page.facts, page.facts.reader, page.across_spiders
        for candidate, record in candidates:
            if record is None:
                if not candidate.number:
                    yield candidate, record
            elif counts(record, self.alive) and record.facts.time >= page.not_before:
                settled = was_delivered(record, reader, across_spiders=across)
                stands = settled or counts(record, self.alive, reader, across_spiders=across)
                located = candidate._replace(stands=stands, settled=settled)
                if candidate.distance < 0:  # it was not found by its fingerprint
                    fingerprint = record.facts.fingerprint
                    distance = hamming_distance(facts.fingerprint, fingerprint)
                    located = located._replace(distance=distance, fingerprint=fingerprint)
                yield located, record

    def judge(self, document: Document) -> tuple[Verdict, Change]:
        """Judge a document; also returns what is to be written of it, see `Change`."""
        number, own = self._find_own(document)
        if own is not None and self._seen(own):
            return self._revisit(document, number, own)
        match, nearest, complete = self.find_match(document, number)
        if own is not None and own.spared:
            match, complete = None, True
        status: Status = "near_duplicate" if match else "new" if complete else "not_judged"
        reason = BUCKET_TOO_FULL if status == "not_judged" else match.kept if match else ""
        change = Change(document, number, own, _make_record(document, own, match))
        lost = match is not None and match.pending and not match.kept
        return Verdict(status, reason, 0, match, nearest), change._replace(is_lost=lost)

    def _find_own(self, document: Document) -> tuple[int, Record | None]:
        """Find the record of the document itself, by its identity or that of a redirect."""
        # An alias leads to the same document only while the text is alike: a redirect to a login
        # page does not make that page the document, nor the other way round.
        for number, record in self.documents.find_own(document):
            page, facts = document.facts, record.facts
            if facts.identity == page.identity:
                return number, record
            facts = structs.replace(facts, scope=page.scope)
            if self._seen(record) and compare(page, facts, self.rule).duplicate:
                return number, record
        return 0, None

    def _seen(self, record: Record) -> bool:
        """Whether this document came through before, or is about to."""
        return record.delivered or counts(record, self.alive)

    def _revisit(self, document: Document, number: int, own: Record) -> tuple[Verdict, Change]:
        page, before = document.facts, own.facts
        changed = before.text_digest != page.text_digest or before.scope != page.scope
        had = counts(own, self.alive, page.reader, across_spiders=document.across_spiders)
        # The identity of the visit may be an alias, and its reader may have the page.
        facts = structs.replace(page, identity=before.identity, suspicion=before.suspicion)
        record = structs.replace(own, facts=facts)
        if changed or not had:
            record.earlier_readers = () if changed else list_readers(own)
            record.state, record.crawl = State.PENDING, document.crawl
        else:
            record.facts = structs.replace(facts, reader=before.reader)
        if changed:
            record.original, record.kept_for = 0, ""
        # The whole text changes with every advertisement: entered anew, but not "changed".
        moved = changed or _placed_by(before) != _placed_by(page)
        reason = "changed" if changed else "unchanged" if had else "undelivered"
        change = Change(document, number, own, record, is_moved=moved)
        return Verdict("revisit", reason, number), change


def stands_for(reader: Reader, other: Reader, *, across_spiders: bool = False) -> bool:
    """Whether a page that one reader got need not be handed to another one.

    Args:
        reader: who got it.
        other: who would get a copy of it.
        across_spiders: callbacks of one name are one reader, whatever their spiders.
    """
    if NOBODY in (reader, other):
        return other == NOBODY
    same = reader.spider == other.spider or across_spiders
    return reader == EVERYONE or (same and reader.callback == other.callback)


def counts(
    record: Record,
    alive: Callable[[str], bool],
    reader: Reader = NOBODY,
    *,
    across_spiders: bool = False,
) -> bool:
    """Whether a record makes a page for a reader a near-duplicate; `alive` tells it of a crawl."""
    if was_delivered(record, reader, across_spiders=across_spiders):
        return True
    if record.state != State.PENDING or not alive(record.crawl):
        return False
    return stands_for(record.facts.reader, reader, across_spiders=across_spiders)


def was_delivered(record: Record, reader: Reader, *, across_spiders: bool = False) -> bool:
    """Whether the items of a record came through, for a page that goes to a reader."""
    if record.state == State.DUPLICATE:
        return False
    readers = list_readers(record)
    return any(stands_for(each, reader, across_spiders=across_spiders) for each in readers)


def list_readers(record: Record) -> tuple[Reader, ...]:
    """List who got the text of a record."""
    done = record.state == State.DONE
    return (*record.earlier_readers, record.facts.reader) if done else record.earlier_readers


def name_reader(reader: Reader, *, across_spiders: bool) -> str:
    """Name who gets a page, among those for whom near-duplicates are kept."""
    return "\0".join(("" if across_spiders else reader.spider, reader.callback))


def _make_record(document: Document, own: Record | None, match: Match | None) -> Record:
    """Make the record of a page that was judged, in place of its own record where it has one."""
    facts = document.facts
    if own is not None:  # as it was found first
        facts = structs.replace(facts, suspicion=own.facts.suspicion)
    record = Record(
        facts,
        State.PENDING,
        delivered=False,
        crawl=document.crawl,
        first_time=facts.time,
        spared=own is not None and own.spared,
    )
    if match is not None:
        if not match.kept:
            record.state, record.delivered = State.DUPLICATE, False
        record.original, record.distance = match.document, match.distance
        record.similarity, record.tests = match.similarity, match.tests
        record.new_links = match.new_links
        if match.kept and facts.reader != EVERYONE:
            across = document.across_spiders
            record.kept_for = name_reader(facts.reader, across_spiders=across)
    return record


def _rank(compared: Compared) -> tuple[float, Candidate]:
    """Rank candidates: the one most alike first, then the nearest, then the oldest."""
    return -(compared.answer.similarity or 0.0), compared.candidate


def _make_match(page: Document, compared: Compared, kept: Kept = "") -> Match:
    candidate, record, answer, _ = compared
    facts, other, new_links = page.facts, record.facts if record else None, None
    better_url = other is not None and is_better_url(
        facts.url, facts.canonical, other.url, other.canonical
    )
    tests, links = (answer.tests, page.links) if answer.duplicate else (answer.why, NO_LINKS)
    if other is not None and other.sketch:  # without one nobody looked at its links
        new_links = measure_new_links(
            facts.link_sketch, links, facts.url, other.link_sketch, other.url, page.requested
        )
    return Match(
        candidate.number,
        candidate.fingerprint,
        candidate.distance,
        other.url if other else None,
        answer.similarity,
        (answer.proposal, *tests),
        new_links,
        time=other.time if other else None,
        text_digest=other.text_digest if other else b"",
        pending=not (kept or candidate.settled),
        kept=kept,
        evidence=answer.evidence,
        own_words=answer.own.first.list_words() if answer.own else (),
        match_own_words=answer.own.second.list_words() if answer.own else (),
        better_url=better_url,
    )


def _placed_by(page: Facts) -> tuple[object, ...]:
    """Tell by what a document with one text is found, and what it tells of its site."""
    return page.fingerprint, page.url, page.title, page.heading, page.sketch
