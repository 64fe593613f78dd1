"""Text to weighted features: normalise, tokenise, shingle, hash, weigh.

Each step is a function of its own and can be replaced on its own: build a `FeatureSet` with
another tokeniser, window, hash or weight and name its import path in SIMHASH_FEATURES.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import regex
import xxhash

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

# Raised whenever a change below alters the fingerprint of any text.
FEATURES_VERSION = 1

# Scripts that put no spaces between words: Thai, Lao, Tibetan, Myanmar, Khmer, Kana and Han. Plain
# ranges for `re`, because this is asked of every page and `regex` takes ten times as long.
_UNSPACED = "\u0e00-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"
_UNSPACED += "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_ANY_UNSPACED = re.compile(f"[{_UNSPACED}]")
_RUNS = regex.compile(rf"(?P<unspaced>[{_UNSPACED}](?:[{_UNSPACED}]|\p{{M}})*)|[^{_UNSPACED}]+")
# \w of `regex` takes in combining marks; that of `re` leaves them out, and with them the vowels of
# the Indic scripts.
_WORDS = regex.compile(r"\w+")
# One character with the marks that combine with it.
_CHARACTERS = regex.compile(r"\P{M}\p{M}*|\p{M}+")
# Whole weights keep the simhash exact; a thousandth is finer than any weight function needs.
_WEIGHT_UNIT = 1_000


class WeightedFeatures(NamedTuple):
    """Distinct features of a text.

    Attributes:
        hashes: 64-bit hashes, shape (n,).
        weights: whole, positive weights, shape (n,).
        words: number of tokens the features were made from.
    """

    hashes: NDArray[np.uint64]
    weights: NDArray[np.int64]
    words: int


def normalise(text: str) -> str:
    """Fold compatibility forms and case, so that the same words are the same characters."""
    # Case folding can leave a form that composes again, hence NFKC last.
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def tokenise(text: str) -> list[str]:
    """Cut normalised text into words; scripts without spaces into pairs of characters.

    Overlapping pairs, as Lucene's CJKBigramFilter makes them.

    >>> tokenise("red apples 東京都")
    ['red', 'apples', '東京', '京都']
    """
    words: list[str] = _WORDS.findall(text)
    if not _ANY_UNSPACED.search(text):
        return words
    tokens: list[str] = []
    for word in words:
        for run in _RUNS.finditer(word):
            tokens += _pairs(run.group()) if run.group("unspaced") else [run.group()]
    return tokens


def _pairs(run: str) -> Iterable[str]:
    characters: list[str] = _CHARACTERS.findall(run)
    if len(characters) == 1:
        return characters
    return map("".join, pairwise(characters))


def shingles(tokens: list[str], window: int) -> Iterable[str]:
    """Slide a window over the tokens; a text shorter than the window is one shingle.

    >>> list(shingles(["a", "b", "c"], 2))
    ['a b', 'b c']
    """
    if window == 1 or not tokens:
        return tokens
    ends = range(window, max(len(tokens), window) + 1)
    return (" ".join(tokens[end - window : end]) for end in ends)


def hash_feature(feature: bytes, seed: int) -> int:
    """Hash a feature to 64 bits; the seed is the store's secret (XXH3 takes a 64-bit seed)."""
    return xxhash.xxh3_64_intdigest(feature, seed)


def log_weights(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Weigh a feature by 1 + ln(count): a word said ten times does not count ten times."""
    return 1.0 + np.log(counts)


def equal_weights(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Weigh each distinct feature the same, however often it occurs."""
    return np.ones(len(counts))


@dataclass(frozen=True)
class FeatureSet:
    """A way to make features of a text; what SIMHASH_FEATURES names.

    Attributes:
        name: stands in the recipe; change it, or `version`, when anything below changes.
        window: tokens in a shingle, 1 or more.
        tokenise: normalised text to tokens.
        hash_feature: UTF-8 bytes of a shingle and a 64-bit seed to a 64-bit hash.
        weigh: counts of the distinct shingles, shape (n,), to weights above 0, shape (n,). Never
            weigh by position: a paragraph added at the top must not move the fingerprint more
            than one at the end.
        version: of this set, a whole number.
    """

    name: str
    window: int = 2
    tokenise: Callable[[str], list[str]] = tokenise
    hash_feature: Callable[[bytes, int], int] = hash_feature
    weigh: Callable[[NDArray[np.int64]], NDArray[np.float64]] = log_weights
    version: int = FEATURES_VERSION

    def __post_init__(self) -> None:
        if self.window < 1:
            raise ValueError(f"a shingle has at least 1 token, got window={self.window!r}")

    def count(self, text: str) -> Counter[str]:
        """Count the shingles of a text: its features before they are hashed."""
        return self._count(self.tokenise(normalise(text)))

    def _count(self, tokens: list[str]) -> Counter[str]:
        return Counter(shingles(tokens, self.window))

    def extract(self, text: str, seed: int = 0) -> WeightedFeatures:
        """Make the weighted features of a text.

        Args:
            text: main text of a page, any Unicode without lone surrogates.
            seed: of the feature hash, 0 to 2**64 - 1.
        """
        tokens = self.tokenise(normalise(text))
        counts = self._count(tokens)
        hashes = (self.hash_feature(shingle.encode(), seed) for shingle in counts)
        weights = self.weigh(np.fromiter(counts.values(), np.int64, len(counts)))
        return WeightedFeatures(
            np.fromiter(hashes, np.uint64, len(counts)),
            np.maximum(1, np.rint(weights * _WEIGHT_UNIT)).astype(np.int64),
            len(tokens),
        )


FEATURE_SETS = {
    feature_set.name: feature_set
    for feature_set in (
        FeatureSet("words-1", window=1),
        FeatureSet("words-2", window=2),
        FeatureSet("words-3", window=3),
        FeatureSet("words-3-set", window=3, weigh=equal_weights),
    )
}
