"""Huffman code of the gaps between sorted fingerprints (paper, section 3.2).

The symbols: 0 to 63, the position h of the leading 1 of the XOR of two neighbours; `EQUAL`, two
equal neighbours, whose XOR has no 1; `END`, the end of a block. Codes are canonical: they ascend
with their length and, at equal lengths, with their symbol, so an archive stores only their
lengths. `END` has the longest and last code, which is all ones.

No code is longer than `CODE_BITS`, so looking up the next `CODE_BITS` bits finds the symbol.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

EQUAL = 64
END = 65
SYMBOLS = 66
# With 10 million random fingerprints, 12 bits cost 0.015 bits a fingerprint more than 15 would, but
# the lookup table takes 4 kB instead of 32, so those of all tables fit in the L1 cache.
CODE_BITS = 12


def make_code(counts: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Find the best code lengths up to `CODE_BITS` bits; shape (66,), like the counts."""
    # 0 stands for a symbol that does not occur; `EQUAL` and `END` always have a code. This is the
    # package-merge algorithm (Larmore and Hirschberg, JACM 1990).
    occurring = {symbol: int(count) for symbol, count in enumerate(counts) if count}
    occurring[EQUAL] = max(1, occurring.get(EQUAL, 0))
    # `END` gets the longest code: it only fills the end of a block, where no entry would fit.
    occurring[END] = 0
    coins = sorted((count, (symbol,)) for symbol, count in occurring.items())
    packages: list[tuple[int, tuple[int, ...]]] = []
    for _ in range(CODE_BITS):
        merged = sorted(coins + packages, key=lambda coin: coin[0])
        packages = [
            (first[0] + second[0], first[1] + second[1])
            for first, second in zip(merged[::2], merged[1::2], strict=False)
        ]
    chosen = packages[: len(coins) - 1]
    lengths = Counter(symbol for _, symbols in chosen for symbol in symbols)
    return np.array([lengths[symbol] for symbol in range(SYMBOLS)], np.uint8)


def make_lookup(lengths: NDArray[np.uint8]) -> NDArray[np.intp]:
    """Make the table that maps the next `CODE_BITS` bits to the symbol they begin with."""
    order = _canonical_order(lengths)
    return np.repeat(order, 1 << (CODE_BITS - lengths[order].astype(np.int64)))


def assign_codes(lengths: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Give each symbol its code, left-aligned in 64 bits; shape (66,), 0 for unused symbols."""
    order = _canonical_order(lengths)
    shares = 1 << (CODE_BITS - lengths[order].astype(np.int64))
    codes = np.zeros(SYMBOLS, np.uint64)
    codes[order] = (np.cumsum(shares) - shares).astype(np.uint64) << np.uint64(64 - CODE_BITS)
    return codes


def _canonical_order(lengths: NDArray[np.uint8]) -> NDArray[np.intp]:
    (used,) = lengths.nonzero()
    return used[np.argsort(lengths[used], kind="stable")]
