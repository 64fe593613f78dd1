"""Made-up fingerprints and pages, and the opponents of the store: FAISS and numpy."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

import faiss
import numpy as np

from scrapy_simhash.judging.documents import Document
from scrapy_simhash.pages.facts import Facts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from scrapy_simhash.stores.store import Store

SEED = 20_070_508
DISTANCE = 3
# FAISS hashes the four blocks of 16 bits like our four tables; no bit flips. Its radius is
# exclusive: it finds what is nearer than it.
FAISS_HASHES, FAISS_HASH_BITS, FAISS_RADIUS = 4, 16, DISTANCE + 1
PAGES_BETWEEN_DUPLICATES, PAGES_PER_FILL = 10, 10_000


@dataclass(frozen=True)
class Subject:
    """Something that finds near fingerprints.

    Attributes:
        prepare: turns a fingerprint into what `search` takes; not timed.
        search: the call that is timed, for one fingerprint.
        read: turns its result into the fingerprints found; not timed.
        queries: in one block.
    """

    prepare: Callable[[int], Any]
    search: Callable[[Any], Any]
    read: Callable[[Any], set[int]]
    queries: int = 2_000

    def find(self, query: int) -> set[int]:
        """Find the fingerprints that are near to one."""
        return self.read(self.search(self.prepare(query)))


class Pages:
    """Makes pages as a crawl has them: all fields of a record, random fingerprints.

    Args:
        stored: fingerprints of which every tenth page is a near-duplicate.
        random: where the fingerprints come from.
    """

    def __init__(self, stored: NDArray[np.uint64], random: np.random.Generator) -> None:
        self._stored = stored
        self._random = random
        self._count = 0

    def make(self, count: int) -> list[Document]:
        """Make the next pages; no two of all that are made have the same identity."""
        fingerprints = draw(self._random, count)
        copies = near(self._stored, self._random, -(-count // PAGES_BETWEEN_DUPLICATES))
        fingerprints[::PAGES_BETWEEN_DUPLICATES] = copies
        return self.make_of(fingerprints)

    def make_of(self, fingerprints: NDArray[np.uint64]) -> list[Document]:
        """Make pages with these fingerprints."""
        return [self._page(fingerprint) for fingerprint in fingerprints.tolist()]

    def _page(self, fingerprint: int) -> Document:
        self._count += 1
        url = f"https://docs.example.org/manual/chapter-{self._count % 97}/page-{self._count}.html"
        return Document(
            Facts(
                identity=hashlib.sha1(url.encode(), usedforsecurity=False).digest(),
                fingerprint=fingerprint,
                text_digest=hashlib.blake2b(url.encode(), digest_size=16).digest(),
                url=url,
                title=f"Chapter {self._count % 97}: the settings of module {self._count}",
                language="en",
                features=731,
                words=802,
                time=1.8e9 + self._count,
            )
        )


def draw(random: np.random.Generator, count: int) -> NDArray[np.uint64]:
    """Draw fingerprints evenly from all 64-bit numbers."""
    return random.integers(0, 2**64, count, np.uint64)


def near(stored: NDArray[np.uint64], random: np.random.Generator, count: int) -> NDArray[np.uint64]:
    """Draw stored fingerprints, each with up to 3 of its bits flipped."""
    found = random.choice(stored, count)
    for _ in range(DISTANCE):
        bits = np.uint64(1) << random.integers(0, 64, count, np.uint64)
        found ^= np.where(random.random(count) < 0.75, bits, np.uint64(0))
    return found


class Times:
    """Microseconds of the subjects, one for each round."""

    def __init__(self) -> None:
        self.rounds: dict[str, list[float]] = {}

    def time(self, name: str, work: Callable[[], object], count: int) -> None:
        """Add a round of work on so many queries or pages."""
        start = time.perf_counter()
        work()
        microseconds = 1e6 * (time.perf_counter() - start) / count
        self.rounds.setdefault(name, []).append(microseconds)

    def median(self, name: str) -> float:
        """Return the microseconds of the median round."""
        return median(self.rounds[name])

    def ratio(self, name: str, other: str) -> float:
        """Return how many times as long as the other one takes, in the median round."""
        pairs = zip(self.rounds[name], self.rounds[other], strict=True)
        return median(mine / theirs for mine, theirs in pairs)


def time_probes(
    subjects: dict[str, Subject], runs: int, queries: Callable[[int], NDArray[np.uint64]]
) -> Times:
    """Let the subjects take turns in answering fresh queries, one at a time."""
    times = Times()

    def search(subject: Subject, prepared: list[Any]) -> None:
        for query in prepared:
            subject.search(query)

    for _ in range(runs):
        for name, subject in subjects.items():
            prepared = [subject.prepare(query) for query in queries(subject.queries).tolist()]
            times.time(name, lambda: search(subject, prepared), subject.queries)  # noqa: B023
    return times


def fill(store: Store, pages: Pages, fingerprints: NDArray[np.uint64]) -> None:
    """Fill a store with pages of these fingerprints."""
    for start in range(0, fingerprints.size, PAGES_PER_FILL):
        store.find_and_add(pages.make_of(fingerprints[start : start + PAGES_PER_FILL]))


def add_pages(store: Store, documents: Sequence[Document], group: int) -> None:
    """Judge pages, and write each group at once."""
    for start in range(0, len(documents), group):
        store.find_and_add(documents[start : start + group], crawl="20260101T000000-bench")


def our_subject(store: Store, distance: int = DISTANCE, queries: int = 2_000) -> Subject:
    """Measure `store.query`, transaction and all."""
    return Subject(
        prepare=int,
        search=lambda query: store.query(query, distance),
        read=lambda found: {each.facts.fingerprint for _, each in found},
        queries=queries,
    )


def load_faiss(fingerprints: NDArray[np.uint64], threads: int = 1) -> Any:
    """Make an index of FAISS."""
    faiss.omp_set_num_threads(threads)
    index = faiss.IndexBinaryMultiHash(64, FAISS_HASHES, FAISS_HASH_BITS)
    index.add(fingerprints.view(np.uint8).reshape(-1, 8))
    return index


def search_faiss(index: Any, queries: NDArray[np.uint64]) -> Any:
    """Search for queries at once."""
    return index.range_search(queries.view(np.uint8).reshape(-1, 8), FAISS_RADIUS)


def faiss_subject(index: Any, fingerprints: NDArray[np.uint64]) -> Subject:
    """Measure `range_search` of one row."""
    return Subject(
        prepare=lambda query: np.array([query], np.uint64),
        search=lambda row: search_faiss(index, row),
        read=lambda result: set(fingerprints[result[2]].tolist()),
    )


def brute_subject(fingerprints: NDArray[np.uint64], distance: int = DISTANCE) -> Subject:
    """Measure XOR and bit count over all fingerprints."""
    return Subject(
        prepare=np.uint64,
        search=lambda query: np.flatnonzero(np.bitwise_count(fingerprints ^ query) <= distance),
        read=lambda rows: set(fingerprints[rows].tolist()),
        queries=20,
    )


def verify(subjects: Sequence[Subject], expected: Subject, queries: NDArray[np.uint64]) -> int:
    """Return how many pairs all subjects find; end the run if one finds others."""
    pairs = 0
    for query in queries.tolist():
        found = expected.find(query)
        pairs += len(found)
        for subject in subjects:
            if (answer := subject.find(query)) != found:
                raise SystemExit(f"{answer} is found, not {found}, near {query:016x}")
    return pairs
