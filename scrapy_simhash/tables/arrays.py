"""Arrays of fingerprints, or of other hashes, as ordered sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def sort_distinct(fingerprints: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Sort fingerprints and leave out repeated ones; shape (n,) in, (n,) or shorter out."""
    # `np.unique` of numpy 2.3 and later hashes first, which takes much longer than a sort.
    ordered = np.sort(fingerprints)
    kept = np.ones(ordered.size, np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=kept[1:])
    return ordered if kept.all() else ordered[kept]


def contains(ordered: NDArray[np.uint64], wanted: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return True for each value among sorted ones; `np.isin` would hash or sort all of these."""
    if not ordered.size:
        return np.zeros(wanted.size, np.bool_)
    at = ordered.searchsorted(wanted)
    found: NDArray[np.bool_] = ordered.take(at, mode="clip") == wanted
    return found
