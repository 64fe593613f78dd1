"""Made-up fingerprints and pages, and the opponents of the store: FAISS, PyPI `simhash`, numpy."""

from __future__ import annotations

import hashlib
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import faiss
import numpy as np
from simhash import Simhash

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
FAISS, SIMHASH_INDEX, BRUTE_FORCE = "FAISS", "PyPI simhash", "numpy brute force"
PAGES_BETWEEN_DUPLICATES = 10
CRAWL = "20260101T000000-bench"


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


def draw_with_near(count: int) -> NDArray[np.uint64]:
    """Draw fingerprints, a tenth of them near to another one: 1 to 5 bits flipped."""
    random = np.random.default_rng([SEED, count])
    fingerprints = draw(random, count)
    copies = fingerprints[: count // 10].copy()
    for _ in range(5):
        flipped = random.integers(0, 64, copies.size, np.uint64)
        copies ^= np.left_shift(np.uint64(1), flipped) * (random.random(copies.size) < 0.6)
    fingerprints[count - copies.size :] = copies
    return fingerprints


class Times:
    """Microseconds of the subjects, one for each round."""

    def __init__(self) -> None:
        self.rounds: dict[str, list[float]] = {}

    def note(self, name: str, seconds: float, count: int) -> None:
        """Add a round."""
        self.rounds.setdefault(name, []).append(1e6 * seconds / count)

    def time(self, name: str, search: Callable[[Any], object], queries: Sequence[Any]) -> None:
        """Add a round of queries, one at a time."""
        start = time.perf_counter()
        for query in queries:
            search(query)
        self.note(name, time.perf_counter() - start, len(queries))

    def median(self, name: str) -> float:
        """Return the microseconds of the median round."""
        return statistics.median(self.rounds[name])

    def ratio(self, name: str, other: str) -> float:
        """Return how many times as long as the other one takes, in the median round."""
        pairs = zip(self.rounds[name], self.rounds[other], strict=True)
        return statistics.median(mine / theirs for mine, theirs in pairs)


def add_pages(store: Store, documents: Sequence[Document], group: int) -> None:
    """Judge pages, and write each group at once."""
    for start in range(0, len(documents), group):
        store.find_and_add(documents[start : start + group], crawl=CRAWL)


def our_subject(store: Store, distance: int = DISTANCE) -> Subject:
    """Measure `store.query`, transaction and all."""
    return Subject(
        prepare=int,
        search=lambda query: store.query(query, distance),
        read=lambda matches: {match.fingerprint for match in matches},
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


def simhash_subject(index: Any) -> Subject:
    """Measure `get_near_dups`."""
    return Subject(
        prepare=Simhash,
        search=index.get_near_dups,
        read=lambda names: {int(name) for name in names},
        queries=500,
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
        found = expected.read(expected.search(expected.prepare(query)))
        pairs += len(found)
        for subject in subjects:
            answer = subject.read(subject.search(subject.prepare(query)))
            if answer != found:
                raise SystemExit(f"{answer} is found, not {found}, near {query:016x}")
    return pairs
