"""Text to simhash and sketch: normalise, tokenise, hash, shingle, weigh, sum up.

Shingles are made of the tokens' hashes, by numpy for all positions at once, instead of from the
text of each shingle.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import repeat
from operator import add
from typing import TYPE_CHECKING, NamedTuple
from unicodedata import normalize

import numpy as np
import regex
import xxhash

from scrapy_simhash.pages.facts import FINGERPRINT_BITS, SKETCH_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

# Scripts that put no spaces between words: Thai, Lao, Tibetan, Myanmar, Khmer, Kana and Han.
_UNSPACED = "\u0e00-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"
_UNSPACED += "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_ANY_UNSPACED = re.compile(f"[{_UNSPACED}]")
# A mark belongs to the character before it: a variation selector to its ideograph.
_RUNS = regex.compile(rf"[{_UNSPACED}][{_UNSPACED}\p{{M}}]*|[^{_UNSPACED}]+")
# \w of `regex` takes in combining marks and joiners; that of `re` leaves them out, and with them
# the vowels of the Indic scripts.
_WORD_CHARACTER = regex.compile(r"\w")
# Soft hyphen, zero-width space, word joiner and byte order mark: where a line may end, or not.
_INVISIBLE = "\u00ad\u200b\u2060\ufeff"
# Joiners spell words only in the contexts A1, A2 and B of https://unicode.org/reports/tr31/ (2.3).
# The bound is that of the stream-safe format (UAX 15), and spares a search that grows squarely.
_CONJUNCT = r"(?<=\p{L}\p{Mn}{0,30}\p{ccc=9}[\p{Mn}--\p{ccc=0}]{0,30})"
_JOINERS = regex.compile(
    r"(?V1)((?<=[\p{jt=D}\p{jt=L}]\p{jt=T}*)\u200c(?=\p{jt=T}*[\p{jt=D}\p{jt=R}])"
    rf"|{_CONJUNCT}\u200c(?=[\p{{Mn}}--\p{{ccc=0}}]*\p{{L}})"
    rf"|{_CONJUNCT}\u200d(?!\p{{InSC=Vowel_Dependent}}))|[\u200c\u200d]"
)
# One character with the marks that combine with it.
_CHARACTERS = regex.compile(r"\P{M}\p{M}*|\p{M}+")
_ASCII_SEPARATORS_TO_SPACES = bytes(
    octet if chr(octet).isalnum() or octet == ord("_") else ord(" ") for octet in range(256)
)
# What each character is, by its code point; 0 until one was met.
_KINDS = np.zeros(0x110000, np.uint8)
_OF_WORD, _SEPARATOR, _PAIRED = 1, 2, 3
_SPACE = np.uint32(ord(" "))
# Stands for the end of a line among words; a normalised text has no capitals.
_LINE = "L"
_WEIGHT_UNIT = 1_000
# Odd multipliers of SplitMix64 and MurmurHash3's finaliser: https://prng.di.unimi.it/splitmix64.c
_FOLD = np.uint64(0xBF58476D1CE4E5B9)
_FINAL = np.uint64(0xFF51AFD7ED558CCD)
_HALF = np.uint64(32)
_THIRD = np.uint64(29)


class HashedText(NamedTuple):
    """The words of a text, in its order."""

    normal: str  # the normalised text
    tokens: list[str]
    hashes: NDArray[np.uint64]  # 64-bit hash of each token


def hash_shingles(tokens: NDArray[np.uint64], window: int) -> NDArray[np.uint64]:
    """Hash the shingle of `window` tokens at each place; a shorter text is one shingle.

    Args:
        tokens: 64-bit hash of each token of a text, shape (n,).
        window: 1 or more.

    Returns:
        64-bit hashes in the order of the text, shape (n - window + 1,).
    """
    window = min(window, len(tokens))
    if window <= 1:
        return tokens
    ends = len(tokens) - window + 1
    folded = tokens[:ends]
    for start in range(1, window):
        folded = (folded ^ (folded >> _THIRD)) * _FOLD + tokens[start : start + ends]
    folded = (folded ^ (folded >> _HALF)) * _FINAL
    mixed: NDArray[np.uint64] = folded ^ (folded >> _HALF)
    return mixed


def normalise(text: str) -> str:
    """Fold compatibility forms and case, and leave out what nobody sees: one word, one spelling."""
    if text.isascii():
        return text.lower()
    for character in _INVISIBLE:
        text = text.replace(character, "")
    # Case folding can leave a form that composes again, hence NFKC last.
    text = normalize("NFKC", normalize("NFKC", text).casefold())
    if "\u200c" in text or "\u200d" in text:
        text = normalize("NFKC", _JOINERS.sub(r"\1", text))
    return text


def tokenise(text: str) -> list[str]:
    """Cut normalised text into words; scripts without spaces into pairs of characters.

    Words are letters, digits, underscores and the marks that combine with them (without marks
    the Indic scripts lose their vowels). Pairs overlap, as Lucene's CJKBigramFilter makes them.

    >>> tokenise("red apples 東京都")
    ['red', 'apples', '東京', '京都']
    """
    if text.isascii():
        return text.encode().translate(_ASCII_SEPARATORS_TO_SPACES).decode().split()
    codes = np.frombuffer(text.encode("utf-32-le"), "<u4")
    kinds = _KINDS[codes]
    if not kinds.all():
        for code in set(codes[kinds == 0].tolist()):
            kind = _PAIRED if _ANY_UNSPACED.match(chr(code)) else _OF_WORD
            _KINDS[code] = kind if _WORD_CHARACTER.match(chr(code)) else _SEPARATOR
        kinds = _KINDS[codes]
    # A third of the time of a regular expression that finds words.
    words = np.where(kinds == _SEPARATOR, _SPACE, codes).tobytes().decode("utf-32-le").split()
    if not (kinds == _PAIRED).any():
        return words
    tokens: list[str] = []
    for word in words:
        for run in _RUNS.findall(word) if _ANY_UNSPACED.search(word) else [word]:
            # Marks are not alphanumeric: without any, each code point is a character.
            characters = run if run.isalnum() else _CHARACTERS.findall(run)
            if len(characters) > 1 and _ANY_UNSPACED.match(run):
                tokens += map(add, characters, characters[1:])
            else:
                tokens.append(run)
    return tokens


def locate(text: str, tokens: Iterable[str]) -> Iterator[tuple[int, int]]:
    """Find where each token that `tokenise` made of a text begins and ends, in characters."""
    start = end = 0
    for token in tokens:
        is_pair = _ANY_UNSPACED.match(token) and not _CHARACTERS.fullmatch(token)
        start = text.index(token, start + 1 if is_pair and end else end)
        end = start + len(token)
        yield start, end


def read_words(text: str, seed: int = 0) -> HashedText:
    """Cut a text, any Unicode without lone surrogates, into words and hash these."""
    normal = normalise(text)
    return _hash(normal, tokenise(normal), seed)


def _hash(normal: str, tokens: list[str], seed: int) -> HashedText:
    # Looking words up among those of other pages takes twice as long.
    hashes = map(xxhash.xxh3_64_intdigest, map(str.encode, tokens), repeat(seed))
    return HashedText(normal, tokens, np.fromiter(hashes, np.uint64, len(tokens)))


@lru_cache(maxsize=1)  # of a page that is read, and then compared
def cut_lines(normal: str) -> tuple[list[str], NDArray[np.int32]]:
    """Cut a text into words, as `tokenise` does, each with the number of its line, ascending."""
    # A text that somebody else made may have capitals.
    tokens = tokenise(normal.replace(_LINE, "l").replace("\n", f" {_LINE} ") + f" {_LINE}")
    words, sizes, start = list[str](), list[int](), 0
    while start < len(tokens):
        end = tokens.index(_LINE, start)
        words += tokens[start:end]
        sizes.append(end - start)
        start = end + 1
    return words, np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)


def read_both(text: str, main_lines: tuple[int, int], seed: int) -> tuple[HashedText, HashedText]:
    """Read main and whole text; words of both are cut and hashed once.

    Args:
        text: the whole one.
        main_lines: which of its lines the main one is: the first, and the one behind the last;
            (0, 0) if it is all of them.
        seed: of the hashes.
    """
    normal = normalise(text)
    tokens, lines = cut_lines(normal)
    whole = _hash(normal, tokens, seed)
    first, end = main_lines
    if first == end:
        return whole, whole
    words = slice(*lines.searchsorted(main_lines).tolist())
    main = "\n".join(normal.split("\n")[first:end])
    return HashedText(main, tokens[words], whole.hashes[words]), whole


def weigh_features(
    words: NDArray[np.uint64], window: int = 1
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Make the weighted features of a text: its distinct shingles, each by how often it occurs.

    Args:
        words: 64-bit hashes, in the order of the text.
        window: words in a shingle, 1 or more.

    Returns:
        Hashes, ascending, and weights, thousandths of 1 + ln(count): a word that occurs ten times
        counts 3.3 times. Never by position: a paragraph added at the top must not move the
        fingerprint more than one at the end.
    """
    hashes, counts = np.unique(hash_shingles(words, window), return_counts=True)
    # Whole weights keep the simhash exact.
    return hashes, np.rint(_WEIGHT_UNIT * (1 + np.log(counts))).astype(np.int64)


def sort_distinct(fingerprints: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Sort fingerprints and leave out repeated ones; shape (n,) in, (n,) or shorter out."""
    # Without counts `np.unique` takes a hundred times as long: it makes a table of hashes.
    return np.unique(fingerprints, return_counts=True)[0]


# Paper, section 2: Charikar's simhash as Manku, Jain and Das Sarma use it.
#
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


# The sketch of a document: a few of its shingles, by which others with the same ones are found.
#
# One-permutation hashing (Li, Owen, Zhang, NIPS 2012): a shingle's hash chooses one of 256 bins,
# and the smallest one in a bin represents it. The sketch keeps 24 bits of its hash, and the bin is
# another 8, which makes a shingle rare enough to be looked up among those of all documents
# (`stores.keys`): of a million documents, one in fifty has one of another by chance.
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
