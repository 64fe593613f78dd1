"""What bench_store compares: our store, FAISS, PyPI `simhash` and numpy, and the pages they get."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from simhash import Simhash

from scrapy_simhash.judging.documents import Document
from scrapy_simhash.tables.designs import parse_design

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from scrapy_simhash.stores.store import Store

DISTANCE = 3
# FAISS hashes the four blocks of 16 bits like our four tables; no bit flips. Its radius is
# exclusive: it finds what is nearer than it.
FAISS_HASHES, FAISS_HASH_BITS, FAISS_RADIUS = 4, 16, DISTANCE + 1
QUERIES_PER_BLOCK = 2_000
SLOW_QUERIES_PER_BLOCK = 50
PAGES_BETWEEN_DUPLICATES = 10
CRAWL = "20260101T000000-bench"


@dataclass(frozen=True)
class Subject:
    """Something that finds near fingerprints.

    Attributes:
        name: in the tables printed.
        prepare: turns a fingerprint into what `search` takes; not timed.
        search: the call that is timed, for one fingerprint.
        read: turns its result into the fingerprints found; not timed.
        queries: in one block.
    """

    name: str
    prepare: Callable[[int], Any]
    search: Callable[[Any], Any]
    read: Callable[[Any], set[int]]
    queries: int = QUERIES_PER_BLOCK


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
            identity=hashlib.sha1(url.encode(), usedforsecurity=False).digest(),
            fingerprints=(fingerprint,),
            text_digest=hashlib.blake2b(url.encode(), digest_size=16).digest(),
            url=url,
            crawl=CRAWL,
            title=f"Chapter {self._count % 97}: the settings of module {self._count}",
            language="en",
            features=731,
            words=802,
            time=1.8e9 + self._count,
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


def our_subject(store: Store, design: str) -> Subject:
    """Measure `store.query`, transaction and all."""
    return Subject(
        name=ours(design),
        prepare=int,
        search=store.query,
        read=lambda matches: {match.fingerprint for match in matches},
    )


def ours(design: str) -> str:
    """Name our store with a design."""
    return f"ours, {len(parse_design(design).tables)} tables"


FAISS = "FAISS IndexBinaryMultiHash"
SIMHASH_INDEX = "PyPI simhash"
BRUTE_FORCE = "numpy brute force"
SYNC = "a bare fsync of 4 kB"


def faiss_row(fingerprint: int) -> NDArray[np.uint8]:
    """Write a fingerprint as FAISS takes it."""
    return np.array([fingerprint], np.uint64).view(np.uint8).reshape(1, 8)


def faiss_subject(index: Any, fingerprints: NDArray[np.uint64]) -> Subject:
    """Measure `range_search` of one row."""
    return Subject(
        name=FAISS,
        prepare=faiss_row,
        search=lambda row: index.range_search(row, FAISS_RADIUS),
        read=lambda result: set(fingerprints[result[2]].tolist()),
    )


def simhash_subject(index: Any) -> Subject:
    """Measure `get_near_dups`."""
    return Subject(
        name=SIMHASH_INDEX,
        prepare=Simhash,
        search=index.get_near_dups,
        read=lambda names: {int(name) for name in names},
        queries=QUERIES_PER_BLOCK // 4,
    )


def brute_subject(fingerprints: NDArray[np.uint64]) -> Subject:
    """Measure XOR and bit count over all fingerprints."""
    return Subject(
        name=BRUTE_FORCE,
        prepare=np.uint64,
        search=lambda query: np.flatnonzero(np.bitwise_count(fingerprints ^ query) <= DISTANCE),
        read=lambda rows: set(fingerprints[rows].tolist()),
        queries=SLOW_QUERIES_PER_BLOCK,
    )
