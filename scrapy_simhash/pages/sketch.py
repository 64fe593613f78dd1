"""The sketch of a document: a few of its shingles, to estimate how similar two texts are.

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
_SHIFT_TO_BIN = np.uint64(55)
_NO_HASH = np.uint64(2**64 - 1)
_VALUES = 15
_DIGITS = 6
TEXT_SKETCH_BYTES = BINS // 2
SKETCH_BYTES = 2 * TEXT_SKETCH_BYTES
# Shingles of three words; one to five make no difference beyond noise (docs/study.md).
SKETCH_WINDOW = 3


class Similarity(NamedTuple):
    """Estimated Jaccard similarities, 0 to 1, of pairs of documents; shape (n,) each."""

    main: NDArray[np.float64]
    whole: NDArray[np.float64]


def sketch_text(*texts: NDArray[np.uint64]) -> bytes:
    """Sketch texts, each in 256 bytes, by the 64-bit hashes of its shingles in any order."""
    # Shape (n,) each. Sorting the shingles takes longer than a minimum for each.
    bins = np.full((len(texts), BINS), _NO_HASH)
    for row, shingles in zip(bins, texts, strict=True):
        np.minimum.at(row, (shingles >> _SHIFT_TO_BIN).astype(np.intp), shingles)
    # The bits that chose the bin are the same for all in it; the lowest ones are not.
    nibbles = (bins % np.uint64(_VALUES)).astype(np.uint8) + np.uint8(1)
    nibbles[bins == _NO_HASH] = 0
    return (nibbles[:, 0::2] << np.uint8(4) | nibbles[:, 1::2]).tobytes()


def compare_sketches(sketch: bytes, others: Sequence[bytes]) -> Similarity:
    """Estimate how similar a document is to n others; texts without shingles are to nothing."""
    # A document's sketch has 512 bytes: that of its main text, then that of its whole text.
    return _compare(_stack([sketch]), _stack(others))


def compare_pairs(firsts: Sequence[bytes], seconds: Sequence[bytes]) -> Similarity:
    """Estimate how similar the two documents of each pair are, as `compare_sketches`."""
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
