"""Which stored document another one is a near-duplicate of."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from scrapy_simhash.config import PLAIN_DISTANCE_BITS
from scrapy_simhash.confirm import confirm
from scrapy_simhash.links import share_of_new_links
from scrapy_simhash.lost import counts
from scrapy_simhash.records import Record, State
from scrapy_simhash.simhash import hamming_distance
from scrapy_simhash.stored import Document, Match

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from scrapy_simhash.store_documents import Documents

# Sketches compared at once; nearly all documents have fewer candidates, and the nearest come first.
_CANDIDATES_PER_PASS = 256
# No page may cost more than this many records and sketches, some 60 milliseconds, however many
# pages of one template there are. Ordinary pages have fewer than 20 candidates.
MOST_CANDIDATES = 1_024


class _Candidate(NamedTuple):
    """A stored document near to the one that is judged; in the order in which they are asked."""

    distance: int
    number: int
    fingerprint: int


class Matcher:
    """Finds matches, inside one transaction; writes nothing.

    Args:
        documents: as the transaction sees them.
        distance: bits within which documents are near-duplicates.
        least_similarity: what the sketches of a near-duplicate must reach, 0 to 1; None leaves the
            decision to the distance alone.
        alive: says whether the lease of a crawl is alive.
    """

    def __init__(
        self,
        documents: Documents,
        distance: int,
        least_similarity: float | None,
        alive: Callable[[str], bool],
    ) -> None:
        self._documents = documents
        self._distance = distance
        self._least_similarity = least_similarity
        self._alive = alive

    def counts(self, record: Record) -> bool:
        """Say whether this record makes another document a near-duplicate."""
        return counts(record, self._alive)

    def find_match(self, document: Document) -> tuple[Match | None, bool]:
        """Find the record that counts and is most alike; of equals the nearest, then the oldest.

        Of more than 256 candidates the nearest are asked first, and the first that agree decide.

        Args:
            document: its own record must not count.

        Returns:
            The match, and whether all were asked that could be one.
        """
        candidates, complete = self._find_candidates(document)
        complete = complete and len(candidates) <= MOST_CANDIDATES
        for matches in self._match_in_passes(document, candidates, None):
            if matches:
                return min(matches, key=_by_likeness), complete
        return None, complete

    def list_matches(
        self, document: Document, admits: Callable[[int, Record], bool]
    ) -> list[Match]:
        """List all records that count and match.

        Args:
            document: to be compared.
            admits: says of number and record whether it may be compared; what was bulk-loaded has
                no record, and is left out.
        """
        candidates, _ = self._find_candidates(document)
        passes = self._match_in_passes(document, candidates, admits)
        return [match for matches in passes for match in matches]

    def is_alike(self, document: Document, record: Record) -> bool:
        """Say whether a record matches, whether or not it counts."""
        distance = min(
            hamming_distance(stored, fetched)
            for stored in record.fingerprints
            for fetched in document.fingerprints
        )
        if distance > self._distance:
            return False
        return bool(self._confirm(document, [(_Candidate(distance, 0, 0), record)]))

    def _match_in_passes(
        self,
        document: Document,
        candidates: Sequence[_Candidate],
        admits: Callable[[int, Record], bool] | None,
    ) -> Iterator[list[Match]]:
        """Match the nearest candidates; then, where there are so many, those after them."""
        asked = candidates[:MOST_CANDIDATES]
        for start in range(0, len(asked), _CANDIDATES_PER_PASS):
            found: list[tuple[_Candidate, Record | None]] = []
            for candidate in asked[start : start + _CANDIDATES_PER_PASS]:
                record = self._documents.get(candidate.number) if candidate.number else None
                if record is None:
                    if not candidate.number and admits is None:
                        found.append((candidate, record))
                elif (
                    record.time >= document.not_before
                    and self.counts(record)
                    and (admits is None or admits(candidate.number, record))
                ):
                    found.append((candidate, record))
            yield self._confirm(document, found)

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
