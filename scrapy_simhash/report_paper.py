"""The paper's own figures, for the fingerprints of one store (section 4.2 and Figure 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from scrapy_simhash.blocks import count_symbols

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Figure 2b of the paper.
BUCKETS = 128
_BUCKET_SHIFT = np.uint64(64 - 7)


def describe_fingerprints(fingerprints: NDArray[np.uint64]) -> dict[str, Any]:
    """Say how evenly fingerprints are spread.

    Args:
        fingerprints: sorted, each once; shape (n,).

    Returns:
        `fingerprints`, how many; `leading_ones`: of the XORs of neighbours, how many have their
        leading 1 at each position, 0 to 63 (Figure 2a); `leading_ones_expected`, of as many that
        are evenly spread; `buckets`: how many have each of the 128 values of the first 7 bits
        (Figure 2b).
    """
    count = len(fingerprints)
    buckets = np.bincount((fingerprints >> _BUCKET_SHIFT).astype(np.int64), minlength=BUCKETS)
    return {
        "fingerprints": count,
        "leading_ones": count_symbols(fingerprints)[:64].tolist(),
        "leading_ones_expected": [round(float(share), 3) for share in _expect(count)],
        "buckets": buckets.tolist(),
    }


def _expect(count: int) -> NDArray[np.float64]:
    """Give how many neighbours have their leading 1 at each position, evenly spread; shape (64,).

    Neighbours differ first at position h where a prefix of 63 - h bits goes on with both a 0 and a
    1. There are 2**(63 - h) such prefixes; a fingerprint has one of them and a 0 with p, where p is
    2**-(64 - h): 1 - 2 (1 - p)**n + (1 - 2p)**n of the prefixes go on both ways.
    """
    bits = 64 - np.arange(64.0)
    p = 2.0**-bits  # 1 - p is 1.0 for the smallest, hence the logarithms
    with np.errstate(divide="ignore"):  # all of them begin with a 0 or a 1: no prefix is neither
        neither = np.expm1(max(1, count) * np.log1p(-2 * p))
    expected: NDArray[np.float64] = 2.0 ** (bits - 1) * (
        neither - 2 * np.expm1(max(1, count) * np.log1p(-p))
    )
    return expected
