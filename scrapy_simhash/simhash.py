"""Turn weighted feature hashes into a 64-bit simhash, and compute Hamming distances.

Paper, section 2: Charikar's simhash as Manku, Jain and Das Sarma use it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FINGERPRINT_BITS = 64
# Limits the bits of a pass to 1 MB (4,096 rows of 64 floats), however long the page is.
_ROWS_PER_PASS = 4_096
# Floats hold integers exactly up to here, and doubles up to a sum that no page of 4 MiB reaches, so
# sums are the same in any order, on any machine.
_LARGEST_EXACT_FLOAT_SUM = 2**24


def simhash(hashes: NDArray[np.uint64], weights: NDArray[np.int64]) -> int:
    """Make the simhash of weighted features: hashes and positive weights, as many of either.

    Component i is the sum of the weights of all features whose hash has bit i set, minus the
    weights of all others; bit i of the fingerprint is 1 if component i is positive, and 0 if it
    is zero or negative.

    >>> import numpy as np
    >>> simhash(np.array([0b0011, 0b0110], np.uint64), np.array([2, 1]))
    3
    >>> simhash(np.array([0b01, 0b10], np.uint64), np.array([1, 1]))  # every component is zero
    0
    """
    import numpy as np  # noqa: PLC0415 - commands and Scrapy's process need numbers only

    # Weights are whole, because with fractions the sign of a component near zero would depend on
    # the order of summation.
    total = int(weights.sum())
    # Floats take half the time, and a page of fewer than 5,000 words needs no more.
    kind = np.float32 if total < _LARGEST_EXACT_FLOAT_SUM else np.float64
    ones = np.zeros(FINGERPRINT_BITS)
    for start in range(0, hashes.size, _ROWS_PER_PASS):
        rows = slice(start, start + _ROWS_PER_PASS)
        bits = np.unpackbits(hashes[rows].astype(">u8").view(np.uint8))
        ones += weights[rows].astype(kind) @ bits.reshape(-1, FINGERPRINT_BITS).astype(kind)
    return int.from_bytes(np.packbits(2 * ones > total).tobytes(), "big")


def hamming_distance(first: int, second: int) -> int:
    """Count the bits in which two fingerprints differ (0 to 64).

    >>> hamming_distance(0b1011, 0b0010)
    2
    """
    return (first ^ second).bit_count()


def check_fingerprint(fingerprint: int) -> int:
    """Return a fingerprint unchanged; `ValueError` unless it is a whole number below 2**64."""
    if not isinstance(fingerprint, int) or not 0 <= fingerprint < 2**FINGERPRINT_BITS:
        raise ValueError(
            f"a fingerprint is a whole number from 0 to 2**64 - 1, got {fingerprint!r}"
        )
    return fingerprint
