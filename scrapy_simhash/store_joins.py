"""What a store knows of pairs besides their distance: near-duplicates and their originals."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from scrapy_simhash.records import Record, State
from scrapy_simhash.simhash import hamming_distance

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from scrapy_simhash.store_documents import Documents


def list_recorded_pairs(reach_bits: int, stored: Documents, _: object = None) -> NDArray[np.uint64]:
    """Pair every near-duplicate with its original by those fingerprints that are nearest.

    Args:
        reach_bits: of the store's design, for near-duplicates of bulk-loaded fingerprints, of
            which nothing but the distance is recorded.
        stored: the documents; reads every record.

    Returns:
        Shape (n, 2): a near-duplicate's fingerprint, its original's. None for originals that are
        gone.
    """
    pairs = []
    for _number, record in stored:
        if record.state == State.DUPLICATE:
            originals = _list_originals(stored, record, reach_bits)
            possible = product(record.fingerprints, originals)
            if nearest := min(possible, key=lambda pair: hamming_distance(*pair), default=None):
                pairs.append(nearest)
    return np.array(pairs, np.uint64).reshape(-1, 2)


def _list_originals(stored: Documents, record: Record, reach_bits: int) -> Iterable[int]:
    if not record.original:
        return _find_bulk_loaded(stored, record, min(record.distance, reach_bits))
    original = stored.get(record.original)
    return original.fingerprints if original else ()


def _find_bulk_loaded(stored: Documents, record: Record, distance: int) -> Iterator[int]:
    for fingerprint in record.fingerprints:
        for _, found in stored.near(fingerprint, distance).near:
            if 0 in stored.numbers(found, most=0):
                yield found
