"""The sketch of a document: a few of its shingles, by which others with the same ones are found.

One-permutation hashing (Li, Owen, Zhang, NIPS 2012): a shingle's hash chooses one of 256 bins, and
the smallest one in a bin represents it. The sketch keeps 24 bits of its hash, and the bin is
another 8, which makes a shingle rare enough to be looked up among those of all documents
(`stores.keys`): of a million documents, one in fifty has one of another by chance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scrapy_simhash.pages.recipe import SKETCH_BYTES

if TYPE_CHECKING:
    from numpy.typing import NDArray

BINS = 256
_REST_BYTES = SKETCH_BYTES // BINS
# What a bin has that no shingle chose; larger than all others.
_EMPTY = np.uint64(2**24 - 1)
# A hash begins with the eight bits of its bin, then what is kept.
_SHIFT_TO_BIN = np.uint64(56)
_SHIFT_TO_REST = np.uint64(32)
_SHIFT_OF_BIN = np.uint64(24)
_NO_HASH = np.uint64(2**64 - 1)
# Shingles of three words; one to five make no difference beyond noise.
SKETCH_WINDOW = 3


def sketch_text(shingles: NDArray[np.uint64]) -> bytes:
    """Sketch a text by the 64-bit hashes of its shingles, shape (n,), in 768 bytes."""
    # 256 numbers of three bytes, little-endian. Sorting takes longer than a minimum for each.
    smallest = np.full(BINS, _NO_HASH)
    np.minimum.at(smallest, (shingles >> _SHIFT_TO_BIN).view(np.int64), shingles)
    rests = np.minimum(smallest >> _SHIFT_TO_REST & _EMPTY, _EMPTY - np.uint64(1))
    rests[smallest == _NO_HASH] = _EMPTY
    made: bytes = rests.astype("<u4").view(np.uint8).reshape(BINS, 4)[:, :_REST_BYTES].tobytes()
    return made


def read_shingles(sketch: bytes) -> NDArray[np.uint64]:
    """Read the shingles that represent the bins of a sketch: 32 bits of each, shape (n,)."""
    octets = np.zeros((BINS, 4), np.uint8)
    octets[:, :_REST_BYTES] = np.frombuffer(sketch, np.uint8).reshape(BINS, _REST_BYTES)
    rests = octets.view("<u4")[:, 0].astype(np.uint64)
    (bins,) = (rests != _EMPTY).nonzero()
    shingles: NDArray[np.uint64] = bins.astype(np.uint64) << _SHIFT_OF_BIN | rests[bins]
    return shingles
