"""The pairs of a store that may be near-duplicates, to draw samples from.

Every near-duplicate stands with the page it was dropped for: that is one decision. Pages that were
kept stand with each other as far as they are within 10 bits, as in the paper's Figure 1. Pairs of
two near-duplicates of one page are left out, as nobody decides about them: a hundred copies of a
page would otherwise be five thousand pairs. So are stubs, which are compared exactly, and
bulk-loaded fingerprints, which have no page to look at.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from scrapy_simhash.selfjoin import find_all
from scrapy_simhash.simhash import hamming_distance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from scrapy_simhash.stored import StoredDocument

# As far as the paper looks (section 4.1).
MOST_BITS = 10
# 80 bytes each while they are found. Of a store with more of them, a random part of the documents
# is looked at.
_MOST_PAIRS = 2_000_000
_DOCUMENTS_TRIED = 1_000


class Population(NamedTuple):
    """Pairs of documents, in ascending order.

    Attributes:
        documents: their numbers, the older one first; shape (n, 2).
        distances: bits between their nearest fingerprints; shape (n,).
        share: of all pairs, that these are a random sample of; 1.0 but for stores with millions.
    """

    documents: NDArray[np.int64]
    distances: NDArray[np.int64]
    share: float


@dataclass
class _Read:
    """What is read of a store: the fingerprints of all documents, and who is whose."""

    fingerprints: dict[int, tuple[int, ...]] = field(default_factory=dict)
    scopes: dict[int, str] = field(default_factory=dict)
    originals: dict[int, int] = field(default_factory=dict)

    def add(self, document: StoredDocument) -> None:
        if document.stub:
            return
        self.fingerprints[document.document] = document.fingerprints
        if document.state == "duplicate":
            self.originals[document.document] = document.original
        else:
            self.scopes[document.document] = document.scope


def find_pairs(
    documents: Iterable[StoredDocument],
    seed: int,
    progress: Callable[[int, int], object] | None = None,
    most: int = _MOST_PAIRS,
) -> Population:
    """Find the pairs within 10 bits; cost is that of `selfjoin.find_all`.

    Args:
        documents: all of a store.
        seed: chooses the part of the documents that is looked at, where there are too many pairs.
        progress: is told how many tables of how many are joined.
        most: pairs, about.
    """
    read = _Read()
    for document in documents:
        read.add(document)
    draw = np.random.default_rng(seed)
    kept = np.array(sorted(read.scopes), np.int64)
    share = _choose_share(read, kept, draw, most)
    recorded = _list_recorded(read)
    if share < 1:
        # Of n documents a share of q has q * q of the pairs.
        kept = kept[draw.random(kept.size) < share**0.5]
        recorded = recorded[draw.random(len(recorded)) < share]
    rows = np.concatenate([recorded, _join_kept(read, kept, progress)])
    rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
    return Population(rows[:, :2], rows[:, 2], share)


def _choose_share(
    read: _Read, kept: NDArray[np.int64], draw: np.random.Generator, most: int
) -> float:
    """Guess by some of the documents which share of the pairs is as many as can be held."""
    if kept.size <= _DOCUMENTS_TRIED:
        return 1.0
    tried = np.sort(draw.choice(kept, _DOCUMENTS_TRIED, replace=False))
    pairs = len(_join_kept(read, tried)) * (kept.size / _DOCUMENTS_TRIED) ** 2
    return min(1.0, most / max(1.0, pairs))


def _list_recorded(read: _Read) -> NDArray[np.int64]:
    """Pair near-duplicates with their originals; rows of two numbers and the distance."""
    rows = []
    for number, original in read.originals.items():
        possible = product(read.fingerprints[number], read.fingerprints.get(original, ()))
        bits = min((hamming_distance(*pair) for pair in possible), default=MOST_BITS + 1)
        if bits <= MOST_BITS:
            rows.append((min(number, original), max(number, original), bits))
    return np.array(rows, np.int64).reshape(-1, 3)


def _join_kept(
    read: _Read,
    kept: NDArray[np.int64],
    progress: Callable[[int, int], object] | None = None,
) -> NDArray[np.int64]:
    """Pair the documents that are within 10 bits by any two of their fingerprints, in one scope."""
    owners = np.array(
        [number for number in kept.tolist() for _ in read.fingerprints[number]], np.int64
    )
    made = np.array(
        [bits for number in kept.tolist() for bits in read.fingerprints[number]], np.uint64
    )
    order = np.argsort(made, kind="stable")
    owners = owners[order]
    values, starts, counts = np.unique(made[order], return_index=True, return_counts=True)
    near = find_all(values, MOST_BITS, progress=progress)
    shared = values[counts > 1]
    near = np.concatenate([near, np.stack([shared, shared], axis=1)])
    places = np.searchsorted(values, near)
    distances = np.bitwise_count(near[:, 0] ^ near[:, 1]).astype(np.int64)
    pair, first, second = _expand(starts[places], counts[places])
    low, high = np.sort([owners[first], owners[second]], axis=0)
    rows = np.stack([low, high, distances[pair]], axis=1)[low != high]
    rows = rows[np.lexsort((rows[:, 2], rows[:, 1], rows[:, 0]))]
    # Of several fingerprints the nearest count; they come first.
    fresh = np.ones(len(rows), bool)
    fresh[1:] = (rows[1:, :2] != rows[:-1, :2]).any(axis=1)
    return _keep_one_scope(read, rows[fresh])


def _expand(
    starts: NDArray[np.int64], counts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Pair each owner of a fingerprint with each owner of the other one.

    Args:
        starts: where the owners of both begin; shape (n, 2).
        counts: how many owners they have; shape (n, 2).

    Returns:
        For each pair of owners: which of the n it is from, and the places of both.
    """
    sizes = counts[:, 0] * counts[:, 1]
    pair = np.repeat(np.arange(sizes.size), sizes)
    within = np.arange(pair.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    first = starts[pair, 0] + within // counts[pair, 1]
    second = starts[pair, 1] + within % counts[pair, 1]
    return pair, first, second


def _keep_one_scope(read: _Read, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Leave out pairs of different scopes, which are never compared."""
    if len(set(read.scopes.values())) <= 1:
        return rows
    scopes = read.scopes
    same = [row for row, (low, high, _) in enumerate(rows.tolist()) if scopes[low] == scopes[high]]
    return rows[np.array(same, np.int64), :]
