"""The sketch of a document: a few of its shingles, where they stand, and which its main text has.

One-permutation hashing (Li, Owen, Zhang, NIPS 2012): a shingle's hash chooses one of 256 bins, and
the smallest one in a bin of the whole text represents the bin. The sketch keeps 16 bits of its
hash, 7 bits of its place, and whether the main text has it, too. So one sample of 256 gives the
similarity of the whole texts and, by the shingles in a main text, that of the main texts. Another
8 bits make a shingle rare enough to be looked up among those of all documents (`stores.keys`): of
a million documents, one in fifty has one of another by chance.

The standard error of a similarity of 0.82 is 0.024 for long texts, nearly none for texts with fewer
shingles than bins, and that of main texts is larger where they are a small part of the whole ones:
0.076 at a tenth. Two different minima have the same 16 bits as often as 1 in 2**17 for each shingle
in a bin, which is 0.003 for texts of 100,000 words: estimates are not corrected for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

BINS = 256
PLACES = 128
# The value of a bin that no shingle chose; larger than all others.
EMPTY = np.uint16(0xFFFF)
_LARGEST = np.uint64(0xFFFE)
# A hash begins with the eight bits of its bin, then the value.
_SHIFT_TO_BIN = np.uint64(56)
_SHIFT_TO_VALUE = np.uint64(40)
_SHIFT_TO_REST = np.uint64(32)
_VALUE_BITS = np.uint64(0xFFFF)
_NO_HASH = np.uint64(2**64 - 1)
_VALUE = np.dtype("<u2")
_LAYOUT = np.dtype(
    [("values", _VALUE, BINS), ("places", np.uint8, BINS), ("rests", np.uint8, BINS)]
)
# Shingles of three words; one to five make no difference beyond noise (docs/study.md).
SKETCH_WINDOW = 3


class Sketches(NamedTuple):
    """The bins of n sketches, shape (n, 256) each."""

    values: NDArray[np.uint16]  # of the smallest shingle; `EMPTY` where there is none
    places: NDArray[np.uint8]  # where it first stands in the whole text, 0 to 127
    main: NDArray[np.bool_]  # whether the main text has it


def sketch_text(whole: NDArray[np.uint64], main: NDArray[np.uint64]) -> bytes:
    """Sketch a document by the 64-bit hashes of its shingles, in 1,024 bytes.

    Args:
        whole: those of the whole text in its order, shape (n,); both may be empty.
        main: those of the main text in any order; what the whole text has not does not count.
    """
    # 256 little-endian values, as many octets, place << 1 | main, and what of the hashes follows
    # the values. Sorting the shingles takes longer than a minimum for each.
    bins, bins_of_main = ((each >> _SHIFT_TO_BIN).view(np.int64) for each in (whole, main))
    smallest = np.full(BINS, _NO_HASH)
    np.minimum.at(smallest, bins, whole)
    values = np.minimum(smallest >> _SHIFT_TO_VALUE & _VALUE_BITS, _LARGEST).astype(_VALUE)
    values[smallest == _NO_HASH] = EMPTY
    octets = np.zeros(BINS, np.uint8)
    # Of a bin's repeated shingles the first one stays: it is assigned last.
    found = (smallest.take(bins) == whole).nonzero()[0][::-1]
    octets[bins.take(found)] = found * PLACES // max(1, len(whole)) << 1
    octets[bins_of_main[smallest.take(bins_of_main) == main]] |= 1
    rests = (smallest >> _SHIFT_TO_REST).astype(np.uint8)
    made: bytes = values.tobytes() + octets.tobytes() + rests.tobytes()
    return made


def read_sketches(sketches: Sequence[bytes]) -> Sketches:
    """Read n sketches, each of 1,024 bytes."""
    read = np.frombuffer(b"".join(sketches), _LAYOUT)
    places = read["places"]
    return Sketches(read["values"], places >> np.uint8(1), (places & np.uint8(1)).view(np.bool_))


def read_shingles(sketch: bytes) -> NDArray[np.uint64]:
    """Read the shingles that represent the bins of a sketch: 32 bits of each, shape (n,)."""
    read = np.frombuffer(sketch, _LAYOUT)[0]
    (bins,) = (read["values"] != EMPTY).nonzero()
    shingles: NDArray[np.uint64] = bins.astype(np.uint64) << np.uint64(24)
    shingles |= read["values"][bins].astype(np.uint64) << np.uint64(8)
    shingles |= read["rests"][bins]
    return shingles
