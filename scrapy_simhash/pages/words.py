"""Hash the words of a text, by numpy for all characters at once.

The result is that of `features.normalise`, `features.tokenise` and XXH3 of each token, which define
what is meant and take three times as long.
"""

from __future__ import annotations

import unicodedata
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import xxhash

from scrapy_simhash.pages.features import (
    is_joined,
    is_mark,
    is_unspaced,
    is_word_character,
    normalise,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    Hashes: TypeAlias = NDArray[np.uint64]
    Places: TypeAlias = NDArray[np.int64]

# An entry of the table of characters: the code point that `normalise` makes of it; the kind of
# that; three bits higher, its own kind; a bit if it may change with its neighbours, and one if it
# becomes several characters.
_CODE_POINT = np.uint32(2**21 - 1)
_BEYOND_ASCII = np.uint32(2**21 - 2**7)
_WORD, _UNSPACED, _MARK = (np.uint32(1 << bit) for bit in (21, 22, 23))
_ITSELF_BITS = np.uint32(3)
_JOINS, _SPREADS, _KNOWN = (np.uint32(1 << bit) for bit in (27, 28, 29))
# By code point, 0 for one not met yet. Memory is used for those that are met, 4 kB for 1,024.
_characters = np.zeros(0x110000, np.uint32)
# The arrays of a piece take 70 bytes a character: so they stay in the processor's cache, and far
# below the memory that a page may take.
_MOST_AT_ONCE = 1 << 16
# Each replacement reads the whole text.
_MOST_REPLACED = 64
# What runs through a character; nothing is 0.
_A_WORD, _NO_SPACES = 1, 2
# Octets below go on with a character of UTF-8, as signed numbers.
_FIRST_OCTET = np.int8(-64)
# Vowels and final consonants of Korean compose with the letter before them.
_JAMOS = range(0x1160, 0x1200)
# Letters of some scripts of the supplementary plane do, too, in ever more of them.
_SUPPLEMENTARY = range(0x10000, 0x20000)


class HashedWords(NamedTuple):
    """The words of a text."""

    normal: bytes  # the normalised text in UTF-8
    hashes: NDArray[np.uint64]  # 64-bit hash of each word, in the order of the text
    spans: Places  # where each word begins and ends, in octets of `normal`, shape (2, n)
    borders: list[tuple[int, int]]  # for each one wanted, octets of `normal` and words before it


def hash_words(text: str, seed: int, borders: Sequence[int] = ()) -> HashedWords:
    """Hash the words of a text, any Unicode without lone surrogates.

    `borders` are places in it, in characters, ascending, with a blank or line feed on a side.
    """
    if len(text) <= _MOST_AT_ONCE:
        return _hash_piece(text, seed, borders)
    cuts = sorted({0, *borders, *_find_blanks(text), len(text)})
    pieces = [_hash_piece(text[start:end], seed) for start, end in pairwise(cuts)]
    octets = list(accumulate((len(piece.normal) for piece in pieces), initial=0))
    words = accumulate((len(piece.hashes) for piece in pieces), initial=0)
    places = dict(zip(cuts, zip(octets, words, strict=True), strict=True))
    return HashedWords(
        b"".join(piece.normal for piece in pieces),
        np.concatenate([piece.hashes for piece in pieces]),
        np.hstack([piece.spans + before for piece, before in zip(pieces, octets, strict=False)]),
        [places[border] for border in borders],
    )


def _find_blanks(text: str) -> Iterator[int]:
    """Find a blank after each so many characters."""
    place = text.find(" ", _MOST_AT_ONCE)
    while place >= 0:
        yield place
        place = text.find(" ", place + _MOST_AT_ONCE)


def _hash_piece(text: str, seed: int, borders: Sequence[int] = ()) -> HashedWords:
    characters, borders = _normalise(text, borders)
    seen = np.bitwise_or.reduce(characters)
    starts, ends = _cut(characters, seen)
    words = np.searchsorted(starts, borders).tolist()
    normal, places = _encode(characters & _CODE_POINT, is_ascii=not seen & _BEYOND_ASCII)
    if places is not None:
        starts, ends, borders = places[starts], places[ends], places[list(borders)].tolist()
    hashes = hash_slices(normal, starts, ends, seed)
    return HashedWords(
        normal, hashes, np.stack([starts, ends]), list(zip(borders, words, strict=True))
    )


def _normalise(text: str, borders: Sequence[int]) -> tuple[NDArray[np.uint32], Sequence[int]]:
    """Return the entry of each character of the normalised text, and the borders in it."""
    codes, characters = _look_up(text)
    seen = np.bitwise_or.reduce(characters)
    if not seen & (_JOINS | _SPREADS):
        return characters, borders
    # Nothing changes with what is beyond a blank.
    parts = [text[start:end] for start, end in pairwise((0, *borders, len(text)))]
    spreading = np.unique(codes[characters & _SPREADS != 0]).tolist()
    at_once = bool(seen & _JOINS) or len(spreading) > _MOST_REPLACED
    if at_once:
        parts = list(map(normalise, parts))
    else:
        for character in map(chr, spreading):
            parts = [part.replace(character, normalise(character)) for part in parts]
    codes, characters = _look_up("".join(parts))
    if at_once:
        characters = (characters >> _ITSELF_BITS) & ~_CODE_POINT | codes
    return characters, list(accumulate(map(len, parts)))[:-1]


def _look_up(text: str) -> tuple[NDArray[np.unsignedinteger], NDArray[np.uint32]]:
    """Return the code points of a text and their entries in the table of characters."""
    codes: NDArray[np.unsignedinteger]
    if text.isascii():
        codes = np.frombuffer(text.encode(), np.uint8)
    else:
        codes = np.frombuffer(text.encode("utf-32-le"), "<u4")
    characters = _characters.take(codes)
    if not characters.all():
        for code in np.unique(codes[characters == 0]).tolist():
            _characters[code] = _describe(chr(code))
        characters = _characters.take(codes)
    return codes, characters


def _describe(character: str) -> int:
    itself = _kind(character)
    known = int(_KNOWN) | itself << int(_ITSELF_BITS)
    normal = normalise(character)
    if not _stands_alone(character):
        return known | int(_JOINS) | itself | ord(character)
    if len(normal) == 1:
        return known | _kind(normal) | ord(normal)
    stays = all(_stands_alone(form) and normalise(form) == form for form in normal)
    return known | int(_SPREADS if stays else _JOINS) | itself | ord(character)


def _kind(character: str) -> int:
    return (
        int(_WORD) * is_word_character(character)
        | int(_UNSPACED) * is_unspaced(character)
        | int(_MARK) * is_mark(character)
    )


def _stands_alone(character: str) -> bool:
    """Return True if cutting a text before such a character does not change its normal form."""
    composed = unicodedata.normalize("NFKC", character)
    return all(
        _begins_alone(unicodedata.normalize("NFKD", form)[0])
        for form in (character, composed.casefold())
    )


def _begins_alone(character: str) -> bool:
    category, code = unicodedata.category(character), ord(character)
    if category[0] == "L":
        return code not in _JAMOS and code not in _SUPPLEMENTARY
    return category[0] != "M" and not is_joined(character)


def _cut(
    characters: NDArray[np.uint32], seen: np.uint32
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Find where the words of a text begin and end, in characters."""
    # What runs through each character: nothing, a word, or a script without spaces. Nothing is
    # before the first and behind the last one.
    runs = np.zeros(len(characters) + 2, np.uint8)
    inner = runs[1:-1]
    np.not_equal(characters & _WORD, 0, out=inner, casting="unsafe")
    if not seen & _UNSPACED:
        places = np.flatnonzero(runs[1:] != runs[:-1])
        return places[0::2], places[1::2]
    unspaced = characters & _UNSPACED != 0
    marks = characters & _MARK != 0
    inner += inner & unspaced
    if seen & _MARK:
        # A mark belongs to what is before it, unless it has a run of its own.
        carried = (inner == _A_WORD) & marks
        origins = np.arange(len(inner))
        origins[carried] = 0
        inner[carried] = np.maximum(_A_WORD, inner[np.maximum.accumulate(origins)[carried]])
    begins = runs[1:] != runs[:-1]
    begins[:-1] |= (inner == _NO_SPACES) & ~marks
    return _pair(np.flatnonzero(begins), runs)


def _pair(
    places: NDArray[np.int64], runs: NDArray[np.uint8]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Make words of runs, and pairs of the characters of runs without spaces."""
    # At each place begins a run, such a character, or a gap; the last one is a gap.
    kinds = runs[places + 1]
    unspaced = kinds == _NO_SPACES
    pairs, after_one = unspaced.copy(), np.zeros_like(unspaced)
    pairs[:-1] &= unspaced[1:]
    after_one[1:] = unspaced[:-1]
    ends = np.empty_like(places)
    ends[:-1] = places[1:]
    firsts = np.flatnonzero(pairs)
    ends[firsts] = places[firsts + 2]
    # A single character is a word of its own; the last one of several is in the pair before it.
    words = (kinds == _A_WORD) | pairs | unspaced & ~after_one
    return places[words], ends[words]


def _encode(codes: NDArray[np.uint32], *, is_ascii: bool) -> tuple[bytes, NDArray[np.int64] | None]:
    """Encode code points in UTF-8; where each begins and the last ends, None if at its number."""
    if is_ascii:
        return codes.astype(np.uint8).tobytes(), None
    octets = codes.astype("<u4").tobytes().decode("utf-32-le").encode()
    places = np.flatnonzero(np.frombuffer(octets, np.int8) >= _FIRST_OCTET)
    return octets, np.append(places, len(octets))


# XXH3 of many short words at once: what `xxhash.xxh3_64_intdigest` makes of each. A call for each
# word, and a dictionary of the words that had theirs, take three times as long. Functions and
# constants have the names of https://github.com/Cyan4973/xxHash, `xxhash.h`.
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
