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

from scrapy_simhash._printable import mask_password
from scrapy_simhash.errors import DamagedError
from scrapy_simhash.judging.comparison import (
    LEAST_ALIKE,
    SHELLS,
    UNKNOWN_SITES,
    Answer,
    compare,
    compare_many,
    find_nearest,
)
from scrapy_simhash.judging.documents import (
    LOST,
    NOBODY,
    Document,
    Lost,
    Marked,
    Match,
    PageFacts,
    Reader,
    Record,
    State,
    Status,
    Verdict,
    Version,
    counts,
    facts_of,
    key_of_lost,
    note_match,
    pack_row,
    read_rows,
    was_delivered,
)
from scrapy_simhash.judging.sites import Sites
from scrapy_simhash.pages.addresses import NO_LINKS, measure_new_links
from scrapy_simhash.simhash import hamming_distance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from scrapy_simhash.judging.documents import Kept
    from scrapy_simhash.judging.interface import Documents, Reading
    from scrapy_simhash.judging.rule import Rule
    from scrapy_simhash.judging.sites import Site

# Sketches compared at once; nearly all documents have fewer candidates, and the nearest come first.
_CANDIDATES_PER_PASS = 256
# A name that more documents have is not looked up: it is the site's, or that of a kind of page.
MOST_CALLED = 8
# No page may cost more than this many records and sketches, some 60 milliseconds, however many
# pages of one template there are. Ordinary pages have fewer than 20 candidates.
MOST_CANDIDATES = 512
# No crawl can have this id, so its lease is never alive.
_WITHDRAWN = "(withdrawn)"
BUCKET_TOO_FULL, SHELL = "bucket_too_full", "shell"


class _Candidate(NamedTuple):
    """A stored document near to the one that is judged, or called like it.

    Candidates sort by these fields. The distance of one that was found by `name` is -1 until its
    record is read, and only then it is known whether it `stands` for a page that its reader gets,
    and whether that reader has its items (`settled`).
    """

    distance: int
    number: int
    fingerprint: int
    name: str = ""
    stands: bool = True
    settled: bool = True


@dataclass
class Matcher:
    """Finds matches inside one transaction; `alive` tells whether a crawl is still running."""

    documents: Reading
    rule: Rule
    alive: Callable[[str], bool]
    # Lasts from one matcher to the next.
    sites: Sites = field(default_factory=Sites)

    def find_match(
        self, document: Document, own: int = 0
    ) -> tuple[Match | None, Match | None, bool]:
        """Find the record that counts and is most alike; of equals the nearest, then the oldest."""
        # Of more than 256 candidates the nearest come first, and the first that agree decide,
        # those that the document's reader got before all others. The document's own record, of the
        # number `own`, must not count. Returns the match; or else the record that would have been
        # it, had it been confirmed; and whether every document that could be one was compared.
        candidates, complete = self._find_candidates(document)
        parted: list[_Compared] = []
        others: list[_Compared] = []
        for compared in self._ask_in_passes(document, candidates, own):
            alike = [each for each in compared if each.answer.duplicate]
            if matches := [each for each in alike if each.candidate.stands]:
                return _make_match(document, min(matches, key=_rank)), None, complete
            others += alike
            parted = sorted((*parted, *filter(_deserves_a_look, compared)), key=_rank_parted)[:1]
        if others:
            other = min(others, key=_rank)
            same_callback = structs.replace(document, across_spiders=True)
            kept: Kept = (
                "other_spider" if self._is_for(same_callback, other.record) else "other_callback"
            )
            return _make_match(document, other, kept), None, complete
        return None, _make_match(document, parted[0]) if parted else None, complete

    def _is_for(self, page: Document, record: Record | None) -> bool:
        """Whether a page may be dropped for a record; one that was bulk-loaded stands for all."""
        across = page.across_spiders
        return record is None or counts(record, self.alive, page.reader, across_spiders=across)

    def is_alike(self, page: PageFacts, record: Record) -> bool:
        """Whether a record matches, whatever its scope, and whether or not it counts."""
        facts = structs.replace(record, scope=page.scope)
        return compare(page, facts, self.rule).duplicate

    def _ask_in_passes(
        self, page: Document, candidates: Sequence[_Candidate], own: int
    ) -> Iterator[list[_Compared]]:
        """Compare the nearest candidates; if there are more than those, the ones after them."""
        nearest, reader, across = candidates[:MOST_CANDIDATES], page.reader, page.across_spiders
        for start in range(0, len(nearest), _CANDIDATES_PER_PASS):
            found: list[tuple[_Candidate, Record | None]] = []
            for candidate in nearest[start : start + _CANDIDATES_PER_PASS]:
                record = self.documents.get(candidate.number) if candidate.number else None
                if record is None:
                    if not candidate.number:
                        found.append((candidate, record))
                elif counts(record, self.alive) and record.time >= page.not_before:
                    settled = was_delivered(record, reader, across_spiders=across)
                    stands = settled or counts(record, self.alive, reader, across_spiders=across)
                    located = _locate(candidate, page, record)
                    found.append((located._replace(stands=stands, settled=settled), record))
            yield self._ask(page, found, own)

    def _find_candidates(self, page: PageFacts) -> tuple[list[_Candidate], bool]:
        """Find the documents called alike, and those within the distance, nearest first."""
        # Also returns whether these are all: there may be more fingerprints than are used (those
        # of other scopes count, too), or buckets may be too full.
        complete = True
        nearest: dict[int, _Candidate] = {}
        distance = 0 if page.stub else self.rule.distance
        for fingerprint in set(page.fingerprints):
            looked_at = 0
            # One more than is used, to know that there are more.
            probe = self.documents.near(fingerprint, distance, MOST_CANDIDATES + 1, bounded=True)
            if len(probe.near) > MOST_CANDIDATES or probe.complete_bits < distance:
                complete = False
            for bits, found in probe.near:
                if looked_at > MOST_CANDIDATES:
                    complete = False
                    break
                for number in self.documents.numbers(found, page.scope, MOST_CANDIDATES + 1):
                    looked_at += 1
                    candidate = _Candidate(bits, number, found)
                    nearest[number] = min(candidate, nearest.get(number, candidate))
        if self.rule.confirm is not None:
            for name, numbers in self.documents.list_called(page):
                if len(numbers) <= MOST_CALLED:
                    for number in numbers:
                        nearest.setdefault(number, _Candidate(-1, number, 0, name))
        return sorted(nearest.values()), complete and len(nearest) <= MOST_CANDIDATES

    def _ask(
        self, page: PageFacts, found: Sequence[tuple[_Candidate, Record | None]], own: int
    ) -> list[_Compared]:
        """Compare candidates; a bulk-loaded one has no record."""
        pages = [record or _bulk_loaded(candidate, page.scope) for candidate, record in found]
        candidates = [candidate for candidate, _ in found]
        sites = [
            self._find_sites(page, other, {own, candidate.number})
            for candidate, other in zip(candidates, pages, strict=True)
        ]
        distances = [candidate.distance for candidate in candidates]
        names = [candidate.name for candidate in candidates]
        answers = compare_many(page, pages, self.rule, distances, sites, names)
        return [
            _Compared(candidate, record, answer)
            for (candidate, record), answer in zip(found, answers, strict=True)
        ]

    def _find_sites(self, page: PageFacts, other: PageFacts, two: set[int]) -> tuple[Site, Site]:
        """Find the sites of two pages, as all but these two documents tell them."""
        if not page.sketch or not other.sketch:
            return UNKNOWN_SITES
        return self.sites.find(self.documents, (page.url, other.url), two)


def _locate(candidate: _Candidate, page: PageFacts, record: Record) -> _Candidate:
    """Count how far away a candidate is that was found by its name."""
    if not candidate.name:
        return candidate
    mine, theirs = find_nearest(page.fingerprints, record.fingerprints)
    return candidate._replace(distance=hamming_distance(mine, theirs), fingerprint=theirs)


def _bulk_loaded(candidate: _Candidate, scope: str) -> PageFacts:
    """Make what is known of a bulk-loaded fingerprint, which is in every scope."""
    return PageFacts(b"", (candidate.fingerprint,), b"", scope=scope)


class _Compared(NamedTuple):
    """A candidate that was compared; a bulk-loaded one has no record."""

    candidate: _Candidate
    record: Record | None
    answer: Answer


def _rank(compared: _Compared) -> tuple[float, _Candidate]:
    """Rank candidates: the one most alike first, then the nearest, then the oldest."""
    return -(compared.answer.similarity or 0.0), compared.candidate


def _deserves_a_look(compared: _Compared) -> bool:
    """Whether a page that does not match is near, or has more in common than a part of a name."""
    return not compared.candidate.name or (compared.answer.similarity or 0.0) >= LEAST_ALIKE


def _rank_parted(compared: _Compared) -> tuple[bool, float, _Candidate]:
    """Rank candidates that do not match: a shell like this one says more than others."""
    return SHELLS not in compared.answer.tests, *_rank(compared)


def _make_match(page: Document, compared: _Compared, kept: Kept = "") -> Match:
    candidate, record, answer = compared
    new_links = None
    if record is not None and record.sketch:  # without one nobody looked at its links
        links = page.links if answer.duplicate or SHELLS in answer.tests else NO_LINKS
        new_links = measure_new_links(
            page.link_sketch, links, page.url, record.link_sketch, record.url, page.requested
        )
    return Match(
        candidate.number,
        candidate.fingerprint,
        candidate.distance,
        record.url if record else None,
        answer.similarity,
        (answer.proposal, *(answer.tests if answer.duplicate else answer.why)),
        new_links,
        pending=not (kept or candidate.settled),
        kept=kept,
        evidence=answer.evidence,
    )


@dataclass
class Judge(Matcher):
    """Judges documents one after the other, each against all before it."""

    # `writing` are the same documents in a write transaction; None to judge only.
    writing: Documents | None = None

    def judge(self, document: Document) -> Verdict:
        """Judge a document, and record it if this judge may write."""
        number, own = self._find_own(document)
        if own is not None and self._seen(own):
            return self._revisit(document, number, own)
        match, nearest, complete = self.find_match(document, number)
        if own is not None and own.spared:
            match, complete = None, True
        elif nearest is not None and SHELLS in nearest.tests:
            return Verdict("unjudged", SHELL, 0, None, nearest)
        status: Status = "near_duplicate" if match else "new" if complete else "unjudged"
        writing = self.writing
        number = self._record(writing, document, number, own, match) if writing is not None else 0
        reason = BUCKET_TOO_FULL if status == "unjudged" else match.kept if match else ""
        return Verdict(status, reason, number, match, nearest)

    def _find_own(self, document: Document) -> tuple[int, Record | None]:
        """Find the record of the document itself, by its identity or that of a redirect."""
        # An alias leads to the same document only while the text is alike: a redirect to a login
        # page does not make that page the document, nor the other way round.
        for identity in (document.identity, *document.aliases):
            number = self.documents.find_number(identity)
            record = self.documents.get(number) if number else None
            if number is None or record is None:
                continue
            if record.identity == document.identity:
                return number, record
            if self._seen(record) and self.is_alike(document, record):
                return number, record
        return 0, None

    def _seen(self, record: Record) -> bool:
        """Whether this document came through before, or is about to."""
        return record.delivered or counts(record, self.alive)

    def _revisit(self, document: Document, number: int, own: Record) -> Verdict:
        changed = own.text_digest != document.text_digest or own.scope != document.scope
        had = counts(own, self.alive, document.reader, across_spiders=document.across_spiders)
        if (writing := self.writing) is not None:
            # The whole text changes with every advertisement: entered anew, but not "changed".
            moved = changed or _placed_by(own) != _placed_by(document)
            if moved:
                writing.take_out(number, own)
            # The identity of the visit may be an alias, and its reader may have the page.
            facts = facts_of(document) | {"identity": own.identity, "reader": own.reader}
            if changed or not had:
                own.earlier_readers = () if changed else own.readers
                own.state, own.crawl = State.PENDING, document.crawl
                facts["reader"] = document.reader
            for field, value in facts.items():
                setattr(own, field, value)
            if changed:
                own.original = 0
                writing.drop_text(number)
            names = (document.identity, *document.aliases)
            if moved:
                writing.add(number, own, document.text, aliases=names)
            else:
                writing.put(number, own, document.text, names)
        reason = "changed" if changed else "unchanged" if had else "undelivered"
        return Verdict("revisit", reason, number)

    def _record(
        self,
        writing: Documents,
        document: Document,
        number: int,
        own: Record | None,
        match: Match | None,
    ) -> int:
        """Record a judgement, in place of its own record where it has one; return its number."""
        if own is not None:
            writing.take_out(number, own)
        record = Record(
            **facts_of(document),
            state=State.PENDING,
            delivered=False,
            crawl=document.crawl,
            first_time=document.time,
            spared=own is not None and own.spared,
        )
        if match is not None:
            note_match(record, match)
        number = writing.add(number, record, document.text, aliases=document.aliases)
        if match is not None and match.pending and not match.kept:
            _add_lost(writing, document, number, match.document)
        return number


def _add_lost(writing: Documents, document: Document, number: int, original: int) -> None:
    """Record that a page may have to be requested again: its original is pending."""
    found = writing.get(original)
    lost = Lost(
        url=mask_password(document.url),
        spider=document.reader.spider,
        crawl=document.crawl,
        page=original,
        text_digest=b"" if found is None else found.text_digest,
        reader=NOBODY if found is None else found.reader,
        request=document.pack_request(),
    )
    key = key_of_lost(number)
    writing.put_row(LOST, key, pack_row(key, lost))


def _placed_by(page: PageFacts) -> tuple[object, ...]:
    """Tell by what a document with one text is found, and what it tells of its site."""
    return page.fingerprints, page.url, page.title, page.heading, bool(page.sketch)


def mark_done(documents: Documents, marked: Iterable[Marked], crawl: str) -> None:
    """Note whose items came through: of pages of this crawl, with the text that was marked."""
    for mark in marked:
        number, record = number_of(mark), documents.get(number_of(mark))
        if record is None or record.state == State.DUPLICATE or not _has_text(mark, record):
            continue
        if _is_in_flight(mark, record, crawl):
            record.state, reader = State.DONE, record.reader
        # The page was fetched for another reader meanwhile, which is at work on it.
        elif isinstance(mark, Version) and _is_another(mark.reader, record):
            record.earlier_readers, reader = (*record.earlier_readers, mark.reader), mark.reader
        else:
            continue
        record.delivered = True
        record.without_items = isinstance(mark, Version) and mark.without_items
        documents.put(number, record)
        _settle_drops(documents, number, record, reader)


def withdraw(documents: Documents, marked: Iterable[Marked], crawl: str) -> None:
    """Make orphans of those documents that are pending in this crawl, with the text marked."""
    for mark in marked:
        record = documents.get(number_of(mark))
        if record is not None and _has_text(mark, record) and _is_in_flight(mark, record, crawl):
            record.crawl = _WITHDRAWN
            documents.put(number_of(mark), record)


def number_of(marked: Marked) -> int:
    """Get the number of a document that is marked."""
    return marked.document if isinstance(marked, Version) else marked


def _has_text(mark: Marked, record: Record) -> bool:
    """Whether a document has the text that was marked; another one's items are on their way."""
    return not isinstance(mark, Version) or mark.text_digest == record.text_digest


def _is_in_flight(mark: Marked, record: Record, crawl: str) -> bool:
    """Whether a document is on its way, in a crawl, to the reader that was marked."""
    if record.state != State.PENDING or record.crawl != crawl:
        return False
    return not isinstance(mark, Version) or mark.reader == record.reader


def _is_another(reader: Reader, record: Record) -> bool:
    """Whether a reader of a name is not among those that a record knows of."""
    return reader not in (NOBODY, record.reader, *record.earlier_readers)


def _settle_drops(stored: Documents, number: int, record: Record, reader: Reader) -> None:
    """Delete the rows of pages dropped for a document with its text, whose items a reader has."""
    keys = map(key_of_lost, stored.list_duplicates(number))
    for key, lost in list(read_rows(Lost, ((key, stored.get_row(LOST, key)) for key in keys))):
        if (lost.text_digest, lost.reader) == (record.text_digest, reader):
            stored.drop_row(LOST, key)


def get_sound(stored: Reading, number: int) -> Record | None:
    """Get a record, or None if it is missing or damaged, for what must not stop at damage."""
    try:
        return stored.get(number)
    except DamagedError:  # `check` lists it
        return None
