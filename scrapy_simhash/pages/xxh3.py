"""XXH3 of many short words at once, by numpy: what `xxhash.xxh3_64_intdigest` makes of each.

A call for each word, and a dictionary of the words that had theirs, take three times as long.
Functions and constants have the names of https://github.com/Cyan4973/xxHash, `xxhash.h`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import xxhash

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Hashes: TypeAlias = NDArray[np.uint64]
    Places: TypeAlias = NDArray[np.int64]

_MASK = 2**64 - 1
_LOW = np.uint64(2**32 - 1)
_OCTET = np.uint64(255)
_PRIME64_1 = np.uint64(0x9E3779B185EBCA87)
_PRIME64_2 = np.uint64(0xC2B2AE3D27D4EB4F)
_PRIME64_3 = np.uint64(0x165667B19E3779F9)
_PRIME_MX1 = np.uint64(0x165667919E3779F9)
_PRIME_MX2 = np.uint64(0x9FB21C651E98DF25)
# The beginning of the default secret, as little-endian numbers of eight bytes.
_SECRET = (
    *(0xBE4BA423396CFEB8, 0x1CAD21F72C81017C, 0xDB979083E96DD4DE, 0x1F67B3B7A4A44072),
    *(0x78E5C0CC4EE679CB, 0x2172FFCC7DD05A82, 0x8E2443F7744608B8),
)
_1, _4, _8, _15, _16, _24 = map(np.uint64, (1, 4, 8, 15, 16, 24))
_28, _29, _32, _33, _35, _37 = map(np.uint64, (28, 29, 32, 33, 35, 37))
_40, _49, _56 = map(np.uint64, (40, 49, 56))
# So that the eight bytes from the beginning of a word and up to its end are always there.
_MARGIN = b" " * 8
# So many are hashed one by one in less time.
_FEW = 64


def hash_slices(text: bytes, starts: Places, ends: Places, seed: int) -> Hashes:
    """Hash the slices of a text from `starts` to `ends`, shape (n,) each; none may be empty."""
    padded = b"".join((_MARGIN, text, _MARGIN))
    # The eight bytes from each place on.
    eights: Hashes = np.ndarray(len(padded) - 7, "<u8", padded, 0, (1,)).copy()
    kinds = _KINDS.take(ends - starts, mode="clip")
    starts, ends = starts + len(_MARGIN), ends + len(_MARGIN)
    hashes = np.empty(len(starts), np.uint64)
    for kind, make in enumerate(_FUNCTIONS):
        (of_kind,) = (kinds == kind).nonzero()
        if len(of_kind) < _FEW or make is None:
            places = zip(starts[of_kind].tolist(), ends[of_kind].tolist(), strict=True)
            made = [xxhash.xxh3_64_intdigest(padded[start:end], seed) for start, end in places]
            hashes[of_kind] = np.array(made, np.uint64)
        else:
            hashes[of_kind] = make(eights, starts[of_kind], ends[of_kind], seed)
    return hashes


def _len_1to3(eights: Hashes, starts: Places, ends: Places, seed: int) -> Hashes:
    lengths = (ends - starts).view(np.uint64)
    heads = eights.take(starts)
    middle = (heads >> (lengths >> _1) * _8) & _OCTET
    hashes: Hashes = ((heads & _OCTET) << _16) | (middle << _24) | (lengths << _8)
    hashes |= eights.take(ends - 8) >> _56
    hashes ^= np.uint64(((_SECRET[0] & 0xFFFFFFFF ^ _SECRET[0] >> 32) + seed) & _MASK)
    hashes ^= hashes >> _33
    hashes *= _PRIME64_2
    hashes ^= hashes >> _29
    hashes *= _PRIME64_3
    hashes ^= hashes >> _32
    return hashes


def _len_4to8(eights: Hashes, starts: Places, ends: Places, seed: int) -> Hashes:
    swapped = int.from_bytes((seed & 0xFFFFFFFF).to_bytes(4, "little"), "big")
    hashes = (eights.take(starts) << _32) + (eights.take(ends - 8) >> _32)
    hashes ^= np.uint64(((_SECRET[1] ^ _SECRET[2]) - (seed ^ swapped << 32)) & _MASK)
    hashes ^= ((hashes << _49) | (hashes >> _15)) ^ ((hashes << _24) | (hashes >> _40))
    hashes *= _PRIME_MX2
    hashes ^= (hashes >> _35) + (ends - starts).view(np.uint64)
    hashes *= _PRIME_MX2
    hashes ^= hashes >> _28
    return hashes


def _len_9to16(eights: Hashes, starts: Places, ends: Places, seed: int) -> Hashes:
    low = eights.take(starts) ^ np.uint64(((_SECRET[3] ^ _SECRET[4]) + seed) & _MASK)
    high = eights.take(ends - 8) ^ np.uint64(((_SECRET[5] ^ _SECRET[6]) - seed) & _MASK)
    return _avalanche(
        (ends - starts).view(np.uint64) + low.byteswap() + high + _mul128_fold64(low, high)
    )


def _len_17to32(eights: Hashes, starts: Places, ends: Places, seed: int) -> Hashes:
    hashes = (ends - starts).view(np.uint64) * _PRIME64_1
    for places, secret in ((starts, _SECRET[:2]), (ends - 16, _SECRET[2:4])):
        hashes += _mul128_fold64(
            eights.take(places) ^ np.uint64((secret[0] + seed) & _MASK),
            eights.take(places + 8) ^ np.uint64((secret[1] - seed) & _MASK),
        )
    return _avalanche(hashes)


def _mul128_fold64(first: Hashes, second: Hashes) -> Hashes:
    """Multiply to 128 bits, and take the exclusive or of both halves."""
    first_low, first_high = first & _LOW, first >> _32
    second_low, second_high = second & _LOW, second >> _32
    low = first_low * second_low
    across = first_high * second_low
    middle = (low >> _32) + (across & _LOW) + first_low * second_high
    high = (across >> _32) + (middle >> _32) + first_high * second_high
    low &= _LOW
    low |= middle << _32
    folded: Hashes = low ^ high
    return folded


def _avalanche(hashes: Hashes) -> Hashes:
    hashes ^= hashes >> _37
    hashes *= _PRIME_MX1
    hashes ^= hashes >> _32
    return hashes


# Which function, by length; the last is for what is longer.
_FUNCTIONS = (_len_1to3, _len_4to8, _len_9to16, _len_17to32, None)
_KINDS = np.repeat(np.arange(5, dtype=np.uint8), (4, 5, 8, 16, 1))
