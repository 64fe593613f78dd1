"""The sketch of a document: what is left of its shingles to estimate how alike two texts are.

One-permutation hashing (Li, Owen, Zhang, NIPS 2012): a shingle's hash chooses one of 512 bins; the
smallest hash in a bin stands for it, cut to 4 bits (b-bit minwise hashing, Li and König, WWW
2010). A nibble is 0 where a bin is empty and 1 to 15 otherwise, so that texts with few shingles
need no densification: two bins empty in both say nothing, one empty in one says "different".
Main text and whole text have 256 bytes each. The standard error of a Jaccard similarity of 0.82
is 0.018 for long texts, and nearly none for texts with fewer shingles than bins; 256 bins of 8
bits, in the same room, err by 0.024.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

BINS = 512
_BIN_BITS = np.uint64(9)
_VALUES = 15
_DIGITS = 6
TEXT_SKETCH_BYTES = BINS // 2
SKETCH_BYTES = 2 * TEXT_SKETCH_BYTES
# Shingles of three words; one to five make no difference beyond noise (docs/study.md).
SKETCH_WINDOW = 3


class Similarity(NamedTuple):
    """Estimated Jaccard similarities of two documents, 0 to 1; arrays of them for many."""

    main: NDArray[np.float64]
    whole: NDArray[np.float64]


def sketch_text(shingles: NDArray[np.uint64]) -> bytes:
    """Sketch a text.

    Args:
        shingles: 64-bit hashes of its shingles, in any order, repeated or not; shape (n,).

    Returns:
        256 bytes.
    """
    bins = np.full(BINS, np.iinfo(np.uint64).max, np.uint64)
    np.minimum.at(bins, (shingles >> (np.uint64(64) - _BIN_BITS)).astype(np.int64), shingles)
    filled = bins != np.iinfo(np.uint64).max
    # The bits that chose the bin are the same for all in it; the lowest ones are not.
    values = np.where(filled, bins % np.uint64(_VALUES) + np.uint64(1), np.uint64(0))
    nibbles = values.astype(np.uint8)
    return (nibbles[0::2] << np.uint8(4) | nibbles[1::2]).tobytes()


def compare_sketches(sketch: bytes, others: Sequence[bytes]) -> Similarity:
    """Estimate how alike a document is to many.

    Args:
        sketch: of a document: that of its main text, then that of its whole text; 512 bytes.
        others: sketches of n documents.

    Returns:
        Two arrays of shape (n,). Texts without shingles are like nothing.
    """
    return _compare(_stack([sketch]), _stack(others))


def compare_pairs(firsts: Sequence[bytes], seconds: Sequence[bytes]) -> Similarity:
    """Estimate how alike the two documents of each pair are; n sketches of 512 bytes on each side.

    Returns:
        As `compare_sketches`.
    """
    return _compare(_stack(firsts), _stack(seconds))


def _stack(sketches: Sequence[bytes]) -> NDArray[np.uint8]:
    return np.frombuffer(b"".join(sketches), np.uint8).reshape(-1, 2, TEXT_SKETCH_BYTES)


def _compare(mine: NDArray[np.uint8], theirs: NDArray[np.uint8]) -> Similarity:
    """Compare sketches; shape (n, 2, 256) on both sides, or (1, 2, 256) on the first."""
    equal = np.zeros((len(theirs), 2))
    both = np.zeros_like(equal)
    either = np.zeros_like(equal)
    for mask in (np.uint8(0xF0), np.uint8(0x0F)):
        first, second = mine & mask, theirs & mask
        in_both = (first != 0) & (second != 0)
        both += np.count_nonzero(in_both, axis=2)
        either += np.count_nonzero(first | second, axis=2)
        equal += np.count_nonzero(in_both & (first == second), axis=2)
    # Two different minima agree in their nibble once in fifteen times.
    agreeing = np.maximum(0.0, (equal - both / _VALUES) / (1 - 1 / _VALUES))
    alike = np.divide(agreeing, either, out=np.zeros_like(equal), where=either > 0)
    # The same sketch is 1.0 and not a little less.
    alike = alike.round(_DIGITS)
    return Similarity(alike[:, 0], alike[:, 1])
