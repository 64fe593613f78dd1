"""The judgement of a store: new, near-duplicate or revisit, inside one transaction.

A record makes another page a near-duplicate only when it is *done*, or *pending* in a crawl whose
lease is alive. Any other pending record is an *orphan*: its items never came through, so it never
causes a drop; the next similar page takes over, and the page itself is judged afresh.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from scrapy_simhash.config import PLAIN_DISTANCE_BITS
from scrapy_simhash.confirm import confirm
from scrapy_simhash.links import share_of_new_links
from scrapy_simhash.lost import counts, settle_drops
from scrapy_simhash.records import Record, State, Waiting
from scrapy_simhash.simhash import hamming_distance
from scrapy_simhash.stored import Document, Match, Status, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scrapy_simhash.store_documents import Documents


# No crawl can have this id, so its lease is never alive.
_WITHDRAWN = "(withdrawn)"
# Sketches compared at once; nearly all documents have fewer candidates, and the nearest come first.
_CANDIDATES_PER_PASS = 256
# No page may cost more than this many records and sketches, some 60 milliseconds, however many
# pages of one template there are. Ordinary pages have fewer than 20 candidates.
MOST_CANDIDATES = 1_024
BUCKET_TOO_FULL = "bucket_too_full"


class _Candidate(NamedTuple):
    """A stored document near to the one that is judged; in the order in which they are asked."""

    distance: int
    number: int
    fingerprint: int


class Judge:
    """Judges documents one after the other, each against all before it.

    Args:
        documents: as the transaction sees them.
        distance: bits within which documents are near-duplicates.
        least_similarity: what the sketches of a near-duplicate must reach, 0 to 1; None leaves the
            decision to the distance alone.
        alive: says whether the lease of a crawl is alive.
        readonly: judge only, write nothing.
    """

    def __init__(
        self,
        documents: Documents,
        distance: int,
        least_similarity: float | None,
        alive: Callable[[str], bool],
        *,
        readonly: bool = False,
    ) -> None:
        self._documents = documents
        self._distance = distance
        self._least_similarity = least_similarity
        self._alive = alive
        self._readonly = readonly

    def judge(self, document: Document) -> Verdict:
        """Judge a document and record it."""
        number, own = self._find_own(document)
        if own is not None and self._seen(own):
            return self._revisit(document, number, own)
        match, complete = self._find_match(document)
        if own is not None and own.spared:
            match, complete = None, True
        status: Status = "near_duplicate" if match else "new" if complete else "unjudged"
        reason = BUCKET_TOO_FULL if status == "unjudged" else ""
        if self._readonly:
            return Verdict(status, reason, 0, match)
        if own is not None:
            self._forget(number, own)
        number = number or self._documents.next_number()
        self._record(document, number, match, spared=own is not None and own.spared)
        return Verdict(status, reason, number, match)

    def mark_done(self, numbers: Sequence[int], crawl: str) -> None:
        """Mark those documents done that are pending in this crawl."""
        for number in numbers:
            record = self._documents.get(number)
            if record is not None and record.state == State.PENDING and record.crawl == crawl:
                record.state, record.delivered = State.DONE, True
                self._documents.put(number, record)
                settle_drops(self._documents, number, record)

    def withdraw(self, numbers: Sequence[int], crawl: str) -> None:
        """Make orphans of those documents that are pending in this crawl."""
        for number in numbers:
            record = self._documents.get(number)
            if record is not None and record.state == State.PENDING and record.crawl == crawl:
                record.crawl = _WITHDRAWN
                self._documents.put(number, record)

    def _find_own(self, document: Document) -> tuple[int, Record | None]:
        """Find the record of the document itself, by its identity or that of a redirect.

        An alias leads to the same document only while the text is alike: a redirect to a login
        page does not make that page the document, nor the other way round.
        """
        for identity in (document.identity, *document.aliases):
            number = self._documents.find_number(identity)
            record = self._documents.get(number) if number else None
            if number is None or record is None:
                continue
            if record.identity == document.identity:
                return number, record
            if self._seen(record) and self._alike(record, document):
                return number, record
        return 0, None

    def _alike(self, record: Record, document: Document) -> bool:
        distance = min(
            hamming_distance(stored, fetched)
            for stored in record.fingerprints
            for fetched in document.fingerprints
        )
        if distance > self._distance:
            return False
        return bool(self._confirm(document, [(_Candidate(distance, 0, 0), record)]))

    def _seen(self, record: Record) -> bool:
        """Say whether this document came through before, or is about to."""
        return record.delivered or self._counts(record)

    def _counts(self, record: Record) -> bool:
        """Say whether this record makes another document a near-duplicate."""
        return counts(record, self._alive)

    def _revisit(self, document: Document, number: int, own: Record) -> Verdict:
        changed = own.text_digest != document.text_digest or own.scope != document.scope
        # The whole text changes with every advertisement: indexed anew, but not "changed".
        moved = changed or own.fingerprints != document.fingerprints
        if not self._readonly:
            if moved:
                self._documents.unindex(number, own)
            if changed or not self._counts(own):
                own.state, own.crawl = State.PENDING, document.crawl
            _update(own, document)
            if moved:
                self._documents.keep_bulk_loaded(own.fingerprints)
                self._documents.index(number, own)
            if changed:
                self._documents.drop_text(number)
            self._documents.put(number, own, document.text)
            self._name(number, document)
        return Verdict("revisit", "changed" if changed else "unchanged", number)

    def _find_match(self, document: Document) -> tuple[Match | None, bool]:
        """Find the record that counts and is most alike; of equals the nearest, then the oldest.

        Never the document's own: that one is an orphan or a near-duplicate here, and counts not.
        Of more than 256 candidates the nearest are asked first, and the first that agree decide.

        Returns:
            The match, and whether all were asked that could be one.
        """
        candidates, complete = self._find_candidates(document)
        complete = complete and len(candidates) <= MOST_CANDIDATES
        del candidates[MOST_CANDIDATES:]
        for start in range(0, len(candidates), _CANDIDATES_PER_PASS):
            found: list[tuple[_Candidate, Record | None]] = []
            for candidate in candidates[start : start + _CANDIDATES_PER_PASS]:
                record = self._documents.get(candidate.number) if candidate.number else None
                if not candidate.number or (record is not None and self._counts(record)):
                    found.append((candidate, record))
            if matches := self._confirm(document, found):
                return min(matches, key=_by_likeness), complete
        return None, complete

    def _find_candidates(self, document: Document) -> tuple[list[_Candidate], bool]:
        """Find the documents within the distance, each once, nearest first.

        Returns:
            The candidates, and whether these are all: there may be more fingerprints than are
            asked (those of other scopes count, too), or buckets that are too full.
        """
        complete = True
        nearest: dict[int, _Candidate] = {}
        distance = 0 if document.stub else self._distance
        for fingerprint in set(document.fingerprints):
            asked = 0
            # One more than is used, to know that there are more.
            probe = self._documents.near(fingerprint, distance, MOST_CANDIDATES + 1, bounded=True)
            if len(probe.near) > MOST_CANDIDATES or probe.complete_bits < distance:
                complete = False
            for bits, found in probe.near:
                if asked > MOST_CANDIDATES:
                    complete = False
                    break
                for number in self._documents.numbers(found, document.scope, MOST_CANDIDATES + 1):
                    asked += 1
                    candidate = _Candidate(bits, number, found)
                    nearest[number] = min(candidate, nearest.get(number, candidate))
        return sorted(nearest.values()), complete

    def _confirm(
        self, document: Document, found: Sequence[tuple[_Candidate, Record | None]]
    ) -> list[Match]:
        """Keep the candidates that are near-duplicates; a bulk-loaded one has no record."""
        sketched: list[tuple[_Candidate, Record]] = []
        matches: list[Match] = []
        for candidate, record in found:
            if record is not None and self._has_sketches(document, record):
                sketched.append((candidate, record))
            elif self._is_plain_match(document, candidate, record):
                matches.append(_match(document, candidate, record))
        if not sketched:
            return matches
        assert self._least_similarity is not None  # noqa: S101 - asked in _has_sketches
        answers = confirm(document, [record for _, record in sketched], self._least_similarity)
        return matches + [
            _match(document, candidate, record, answer.similarity, answer.tests)
            for (candidate, record), answer in zip(sketched, answers, strict=True)
            if answer.confirmed
        ]

    def _has_sketches(self, document: Document, record: Record) -> bool:
        stub = document.stub or record.stub
        return bool(
            self._least_similarity is not None and document.sketch and record.sketch and not stub
        )

    def _is_plain_match(
        self, document: Document, candidate: _Candidate, record: Record | None
    ) -> bool:
        """Decide without sketches: stubs by their digest, others by their distance.

        Where there is nothing to confirm it, simhash alone decides within the paper's k.
        """
        if document.stub or (record is not None and record.stub):
            return (
                record is not None
                and document.stub == record.stub
                and document.text_digest == record.text_digest
            )
        return self._least_similarity is None or candidate.distance <= PLAIN_DISTANCE_BITS

    def _forget(self, number: int, own: Record) -> None:
        if own.state == State.DUPLICATE:
            self._documents.unlink(own.original, number)
            self._documents.drop_waiting(number)
        else:
            self._documents.unindex(number, own)

    def _record(
        self, document: Document, number: int, match: Match | None, *, spared: bool
    ) -> None:
        record = Record(
            identity=document.identity,
            state=State.DUPLICATE if match else State.PENDING,
            delivered=False,
            crawl=document.crawl,
            fingerprints=document.fingerprints,
            text_digest=document.text_digest,
            scope=document.scope,
            url=document.url,
            title=document.title,
            language=document.language,
            features=document.features,
            words=document.words,
            first_time=document.time,
            time=document.time,
            heading=document.heading,
            canonical=document.canonical,
            whole_words=document.whole_words,
            sketch=document.sketch,
            link_sketch=document.link_sketch,
            stub=document.stub,
            spared=spared,
        )
        if match:
            record.original, record.distance = match.document, match.distance
            record.similarity, record.tests = match.similarity, match.tests
            self._documents.link(match.document, number)
            if match.pending and (original := self._documents.get(match.document)):
                waiting = Waiting(match.document, original.text_digest, document.crawl)
                self._documents.put_waiting(number, waiting)
        else:
            # A stub, for one, is no near-duplicate of the bulk-loaded fingerprint that it has.
            self._documents.keep_bulk_loaded(record.fingerprints)
            self._documents.index(number, record)
        self._documents.put(number, record, document.text)
        self._documents.name(number, document.identity, overwrite=True)
        for alias in document.aliases:
            self._documents.name(number, alias)

    def _name(self, number: int, document: Document) -> None:
        for identity in (document.identity, *document.aliases):
            self._documents.name(number, identity)


def _match(
    document: Document,
    candidate: _Candidate,
    record: Record | None,
    similarity: float | None = None,
    tests: tuple[str, ...] = (),
) -> Match:
    kind = "same short page" if document.stub else f"distance {candidate.distance} bits"
    return Match(
        candidate.number,
        candidate.fingerprint,
        candidate.distance,
        record.url if record else None,
        similarity,
        (kind, *tests),
        # Without a sketch nobody looked at its links.
        share_of_new_links(document.link_sketch, [record.link_sketch])
        if record and record.sketch
        else None,
        pending=record is not None and record.state == State.PENDING,
    )


def _by_likeness(match: Match) -> tuple[float, int, int]:
    return (-(match.similarity or 0.0), match.distance, match.document)


def _update(own: Record, document: Document) -> None:
    """Take over what was fetched now; identity, crawl and state are not touched."""
    own.fingerprints, own.text_digest = document.fingerprints, document.text_digest
    own.scope, own.url, own.time = document.scope, document.url, document.time
    own.title, own.heading, own.canonical = document.title, document.heading, document.canonical
    own.language, own.features = document.language, document.features
    own.words, own.whole_words = document.words, document.whole_words
    own.sketch, own.link_sketch, own.stub = document.sketch, document.link_sketch, document.stub
