"""Choose the pairs of a store to label, and their order.

Pairs are sampled by their exact distance, as in the paper (section 4.1), and in random order at
each distance. So the labels at a distance stand for all pairs there, however few they are.
"""

from __future__ import annotations

import time
from collections import Counter
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from scrapy_simhash._progress import show_progress
from scrapy_simhash.config import SECONDS_A_DAY
from scrapy_simhash.judging.comparison import find_nearest
from scrapy_simhash.simhash import hamming_distance

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from scrapy_simhash.judging.documents import StoredDocument
    from scrapy_simhash.stores.store import Store

    # A self-join, see `batch.joins.find_all`: pairs within a distance, shape (pairs, 2).
    Join: TypeAlias = Callable[..., NDArray[np.uint64]]


# The largest distance in the paper (section 4.1).
MOST_BITS = 10
# More pairs at a distance than anyone labels.
_MOST_DRAWN = 1_000
# Each takes 80 bytes during the search. If a store has more pairs, only a random part of its
# documents is searched.
_MOST_PAIRS = 2_000_000
_DOCUMENTS_TRIED = 1_000
# Of the turns, for pairs that are too far from each other for the tables of a store.
_SHARE_BEYOND = 0.1


class Survey(NamedTuple):
    """The pairs of a store within 10 bits."""

    documents: int
    share: float  # of all pairs that was searched; 1.0 unless there are millions
    sizes: dict[int, float]  # how many pairs the store has, by distance in bits
    pairs: dict[int, list[tuple[int, int]]]  # at most a thousand of them, in random order

    def order(
        self,
        labelled: Iterable[int],
        known: Container[tuple[int, int]],
        reach_bits: int = MOST_BITS,
    ) -> list[tuple[int, int]]:
        """Order the pairs without a label (not in `known`); the distances take turns."""
        # Nine in ten turns go to distances that the store's tables reach: no recommendation drops a
        # pair beyond them. Half of these turns, and of the rest, are spread equally over the
        # distances, the other half goes by how many pairs the store has at each: no label stands
        # for more than twice the mean of all labels on its side.
        taken = Counter(labelled)  # labelled pairs count as turns
        within = {bits for bits in self.pairs if bits <= reach_bits}
        turns = []
        for side, share in (within, 1 - _SHARE_BEYOND), (self.pairs.keys() - within, _SHARE_BEYOND):
            total = sum(self.sizes[bits] for bits in side)
            for bits in side:
                rate = share * (1 / len(side) + self.sizes[bits] / total)
                left = [pair for pair in self.pairs[bits] if pair not in known]
                turns += [((taken[bits] + n) / rate, bits, pair) for n, pair in enumerate(left, 1)]
        return [pair for _, _, pair in sorted(turns)]


class Surveyed(NamedTuple):
    """What pairs a document with others."""

    document: int
    state: str
    original: int
    stub: bool
    scope: str
    fingerprints: tuple[int, ...]


_get_surveyed = attrgetter(*Surveyed._fields)


def survey(store: Store, join: Join, seed: int, expire_days: float | None = None) -> Survey:
    """Find the pairs of a store, and draw some, repeatably; reads every record.

    Leaves out documents that were last fetched more than `expire_days` ago: they cause no drops.
    """
    oldest = -inf if expire_days is None else time.time() - expire_days * SECONDS_A_DAY
    documents: list[Surveyed] = []

    def take(document: StoredDocument) -> None:
        if document.time >= oldest:
            documents.append(Surveyed(*_get_surveyed(document)))

    store.visit(take)
    with show_progress("tables") as show:
        rows, share = find_pairs(documents, join, seed, show)
    return draw_pairs(len(documents), rows, share, seed)


def draw_pairs(documents: int, rows: NDArray[np.int64], share: float, seed: int) -> Survey:
    """Draw at most a thousand pairs at each distance; the same ones with the same seed."""
    mixed = rows[np.random.default_rng(seed).permutation(len(rows))]
    drawn, sizes = {}, {}
    for bits in np.unique(rows[:, 2]).tolist():
        there = mixed[mixed[:, 2] == bits]
        sizes[bits] = len(there) / share
        drawn[bits] = [(first, second) for first, second, _ in there[:_MOST_DRAWN].tolist()]
    return Survey(documents, share, sizes, drawn)


def find_pairs(
    documents: Iterable[StoredDocument | Surveyed],
    join: Join,
    seed: int,
    progress: Callable[[int, int], object] | None = None,
    most: int = _MOST_PAIRS,
) -> tuple[NDArray[np.int64], float]:
    """Find the pairs within 10 bits, at the cost of the join."""
    # Returns rows of two numbers, the smaller one first, and the bits between the nearest
    # fingerprints, ascending, shape (n, 3); and which share of all pairs this random sample is:
    # 1.0 unless there are more than about `most` pairs.
    # A near-duplicate is paired only with the page it was dropped for, because that is a decision.
    # Two near-duplicates of one page are not; a hundred copies would make 5,000 such pairs.
    # Stubs are compared exactly, and bulk-loaded fingerprints have no page to look at.
    known = {each.document: each for each in documents if not each.stub}
    kept = [each for _, each in sorted(known.items()) if each.state != "duplicate"]
    recorded = _list_recorded(known)
    draw = np.random.default_rng(seed)
    share = _choose_share(kept, join, draw, most)
    if share < 1:
        # A share q of the documents has q * q of the pairs.
        kept = [kept[place] for place in np.flatnonzero(draw.random(len(kept)) < share**0.5)]
        recorded = recorded[draw.random(len(recorded)) < share]
    rows = np.concatenate([recorded, _join_kept(kept, join, progress)])
    rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
    return rows, share


def _choose_share(
    kept: Sequence[StoredDocument | Surveyed], join: Join, draw: np.random.Generator, most: int
) -> float:
    """Estimate, from some of the documents, which share of the pairs fits in memory."""
    if len(kept) <= _DOCUMENTS_TRIED:
        return 1.0
    tried = draw.choice(len(kept), _DOCUMENTS_TRIED, replace=False)
    pairs = len(_join_kept([kept[place] for place in tried], join))
    return min(1.0, most / max(1.0, pairs * (len(kept) / _DOCUMENTS_TRIED) ** 2))


def _list_recorded(known: Mapping[int, StoredDocument | Surveyed]) -> NDArray[np.int64]:
    """Pair near-duplicates with their originals; returns rows of two numbers and the distance."""
    rows = []
    for number, document in known.items():
        original = known.get(document.original)
        if document.state == "duplicate" and original is not None:
            nearest = find_nearest(document.fingerprints, original.fingerprints)
            rows.append((*sorted((number, document.original)), hamming_distance(*nearest)))
    return np.array([row for row in rows if row[2] <= MOST_BITS], np.int64).reshape(-1, 3)


def _join_kept(
    kept: Sequence[StoredDocument | Surveyed],
    join: Join,
    progress: Callable[[int, int], object] | None = None,
) -> NDArray[np.int64]:
    """Pair documents of the same scope if any two of their fingerprints are within 10 bits."""
    codes: dict[str, int] = {}
    listed = [
        (bits, each.document, codes.setdefault(each.scope, len(codes)))
        for each in kept
        for bits in each.fingerprints
    ]
    made = np.array([bits for bits, _, _ in listed], np.uint64)
    owners = np.array([owned for _, *owned in listed], np.int64).reshape(-1, 2)
    order = np.argsort(made, kind="stable")
    owners, scopes = owners[order].T
    values, starts, counts = np.unique(made[order], return_index=True, return_counts=True)
    near = join(values, MOST_BITS, progress=progress)
    shared = values[counts > 1]
    near = np.concatenate([near, np.stack([shared, shared], axis=1)])
    places = np.searchsorted(values, near)
    distances = np.bitwise_count(near[:, 0] ^ near[:, 1]).astype(np.int64)
    pair, first, second = _expand(starts[places], counts[places])
    low, high = np.sort([owners[first], owners[second]], axis=0)
    compared = (low != high) & (scopes[first] == scopes[second])
    rows = np.stack([low, high, distances[pair]], axis=1)[compared]
    rows = rows[np.lexsort((rows[:, 2], rows[:, 1], rows[:, 0]))]
    # The nearest fingerprints of a pair of documents count; they come first.
    fresh = np.ones(len(rows), bool)
    fresh[1:] = (rows[1:, :2] != rows[:-1, :2]).any(axis=1)
    nearest: NDArray[np.int64] = rows[fresh]
    return nearest


def _expand(
    starts: NDArray[np.int64], counts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Pair each owner of a fingerprint with each owner of the other one."""
    # `starts` has the index of the first owner of both fingerprints, `counts` the numbers of
    # owners, each of shape (n, 2). Returns, for each pair of owners, its row and both indexes.
    sizes = counts[:, 0] * counts[:, 1]
    pair = np.repeat(np.arange(sizes.size), sizes)
    within = np.arange(pair.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    first = starts[pair, 0] + within // counts[pair, 1]
    second = starts[pair, 1] + within % counts[pair, 1]
    return pair, first, second
