# ruff: noqa: RUF001 - the Russian stop words are Russian
"""Feature sets that the study tried and the product does not have.

Each is a `FeatureSet`, so with this folder on the import path a crawl can use it, too:
`PYTHONPATH=benchmarks/study scrapy crawl ... -s SIMHASH_FEATURES=feature_sets.STEMMED`. Stop words
and stems need a language: it is guessed, as the one with most stop words in the text; a text with
none (Chinese, Japanese, ...) is cut as the product cuts it.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING

import jieba
import jieba.analyse
import numpy as np
import snowballstemmer

from scrapy_simhash.pages.features import (
    FeatureSet,
    count_weights,
    equal_weights,
    shingles,
    tokenise,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import NDArray

# Articles, pronouns, prepositions, conjunctions and auxiliary verbs: no subject matter.
STOP_WORDS = {
    "english": "a an and are as at be been but by can do for from had has have he if in into is it"
    " its may more my no not of on or our she so such than that the their them then there these"
    " they this to was we were what when which who will with would you your",
    "german": "aber als am an auch auf aus bei bis das dass dem den der des die dies diese dieser"
    " durch ein eine einem einen einer eines er es für hat ich ihr ihre im in ist kann mit nach"
    " nicht noch nur oder sich sie sind so über um und uns unter vom von vor war werden wenn wie"
    " wir wird zu zum zur",
    "french": "au aux avec ce ces cette dans de des du elle en est et été être eu il ils je la le"
    " les leur leurs lui mais ne nous on ont ou où par pas plus pour qu que qui sa se ses si son"
    " sont sur un une votre vos vous",
    "russian": "а без бы был была были было быть в вам вас вы где для до его ее если есть же за и"
    " из или их к как когда которые который мы на не ни но о об он она они от по при с со так то"
    " только у что чтобы эти это этого",
    "spanish": "al como con de del desde el en entre es esta este esto ha han hay la las le les lo"
    " los más me mi no nos o para pero por que se si sin sobre su sus también un una y ya",
    "italian": "a al alla anche che chi ci come con da dal dalla dei del della delle di e è gli ha"
    " hanno i il in la le lo ma mi nel nella non o per più quando questa questo se si sono su sua"
    " suo tra un una uno",
    "portuguese": "a ao aos as com como da das de do dos e é em entre esta este foi já mais mas na"
    " não nas no nos o os ou para pela pelo por que se sem ser seu sua são também um uma",
}
_STOP_SETS = {language: frozenset(words.split()) for language, words in STOP_WORDS.items()}
_DATE = re.compile(
    r"\b\d{4}-\d\d?-\d\d?(?:t[\d:]+z?)?\b|\b\d\d?[./]\d\d?[./](?:\d\d){1,2}\b|\b\d\d?:\d\d(?::\d\d)?\b"
    r"|\b(?:\d\d?(?:st|nd|rd|th|\.|er)?\s+)?"
    r"(?:january|february|march|april|june|july|august|september|october|november|december"
    r"|januar|februar|märz|mai|juni|juli|oktober|dezember"
    r"|janvier|février|mars|avril|juin|juillet|août|septembre|octobre|novembre|décembre)"
    r"\s+(?:\d\d?(?:st|nd|rd|th)?,?\s+)?\d{4}\b"
    r"|\d{4}年\d\d?月(?:\d\d?日)?"
)
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_DIGIT = re.compile(r"\d")
_SPOT_CHAIN_WORDS = 2
_CHARACTERS = 4


def guess_language(tokens: Iterable[str]) -> str:
    """Name the language that has most stop words among the tokens; "" where none has any."""
    counts = Counter(tokens)
    hits = {name: sum(counts[word] for word in words) for name, words in _STOP_SETS.items()}
    best = max(hits, key=hits.__getitem__)
    return best if hits[best] else ""


def tokenise_without_stop_words(text: str) -> list[str]:
    """Cut into words, less those that carry no subject matter."""
    tokens = tokenise(text)
    stop = _STOP_SETS.get(guess_language(tokens), frozenset())
    return [token for token in tokens if token not in stop]


def tokenise_spots(text: str) -> list[str]:
    """Make SpotSigs (Theobald et al., SIGIR 2008): a stop word and the next two other words.

    Menus and advertisements are lists of names; natural sentences have stop words. A text in a
    language without a list of them is cut into plain words.
    """
    tokens = tokenise(text)
    stop = _STOP_SETS.get(guess_language(tokens))
    if stop is None:
        return tokens
    spots: list[str] = []
    following: list[str] = []
    for token in reversed(tokens):
        if token not in stop:
            following = [token, *following[: _SPOT_CHAIN_WORDS - 1]]
        elif len(following) == _SPOT_CHAIN_WORDS:
            spots.append(" ".join((token, *following)))
    return spots


@lru_cache(maxsize=200_000)
def _stem(language: str, word: str) -> str:
    stemmed: str = _stemmer(language).stemWord(word)
    return stemmed


@lru_cache
def _stemmer(language: str) -> snowballstemmer.stemmer:
    return snowballstemmer.stemmer(language)


def tokenise_stems(text: str) -> list[str]:
    """Cut into words and take their stems."""
    tokens = tokenise(text)
    language = guess_language(tokens)
    return [_stem(language, token) for token in tokens] if language else tokens


def tokenise_windows(text: str, *windows: int) -> list[str]:
    """Cut into shingles of several lengths."""
    tokens = tokenise(text)
    return [shingle for window in windows for shingle in shingles(tokens, window)]


def tokenise_phrases(text: str) -> list[str]:
    """Cut into words, and add those pairs of neighbours that occur twice or more."""
    tokens = tokenise(text)
    pairs = list(shingles(tokens, 2))
    counts = Counter(pairs)
    return tokens + [pair for pair in pairs if counts[pair] > 1]


def tokenise_digits_masked(text: str) -> list[str]:
    """Cut into words, each digit in them a zero."""
    return [_DIGIT.sub("0", token) for token in tokenise(text)]


def tokenise_dates_masked(text: str) -> list[str]:
    """Cut into words; every date is the same word, and every other number, too."""
    return tokenise(_NUMBER.sub(" 0 ", _DATE.sub(" dddd ", text)))


def tokenise_character_windows(text: str) -> list[str]:
    """Cut into overlapping runs of four characters, spaces collapsed."""
    text = " ".join(text.split())
    return [text[end - _CHARACTERS : end] for end in range(_CHARACTERS, len(text) + 1)] or [text]


def tokenise_single_characters(text: str) -> list[str]:
    """Cut scripts without spaces into single characters, everything else into words."""
    tokens = tokenise(text)
    # The product's pairs overlap: their first characters, and the last one of a run.
    singles: list[str] = []
    for place, token in enumerate(tokens):
        if not _is_pair(token):
            singles.append(token)
            continue
        singles.append(token[0])
        follower = tokens[place + 1] if place + 1 < len(tokens) else ""
        if not (_is_pair(follower) and follower[0] == token[1]):
            singles.append(token[1])
    return singles


def _is_pair(token: str) -> bool:
    return len(token) == 2 and all("\u3040" <= character <= "\u9fff" for character in token)


def tokenise_jieba(text: str) -> list[str]:
    """Cut into the words that jieba finds; punctuation left out."""
    return [word for word in jieba.cut(text) if any(map(str.isalnum, word))]


JIEBA_IDF = jieba.analyse.default_tfidf


def weigh_by_jieba(tokens: list[str]) -> NDArray[np.float64]:
    """Weigh words by the IDF that jieba ships; unknown ones by its median, as it does itself."""
    known, median = JIEBA_IDF.idf_freq, JIEBA_IDF.median_idf
    return np.array([known.get(token, median) for token in tokens], np.float64)


def with_idf(documents: int, counts: Mapping[str, int], most: float) -> FeatureSet:
    """Make a feature set that weighs words by how rare they are in other documents.

    Args:
        documents: how many there are.
        counts: in how many of them a word occurs.
        most: the largest factor; a word in none of them has ln(documents + 1) otherwise.
    """

    def weigh_tokens(tokens: list[str]) -> NDArray[np.float64]:
        inside = np.array([counts.get(token, 0) for token in tokens], np.float64)
        idf: NDArray[np.float64] = np.log((documents + 1) / (inside + 1))
        return np.clip(idf, 0.01, most)

    return FeatureSet("words-1-idf", weigh_tokens=weigh_tokens)


def _shingled(*windows: int) -> Callable[[str], list[str]]:
    return lambda text: tokenise_windows(text, *windows)


WORDS_1_SET = FeatureSet("words-1-set", weigh=equal_weights)
WORDS_2_SET = FeatureSet("words-2-set", window=2, weigh=equal_weights)
WORDS_2_COUNTS = FeatureSet("words-2-counts", window=2, weigh=count_weights)
WORDS_3_COUNTS = FeatureSet("words-3-counts", window=3, weigh=count_weights)
WORDS_5 = FeatureSet("words-5", window=5)
WORDS_3_5_SET = FeatureSet("words-3-5-set", tokenise=_shingled(3, 5), weigh=equal_weights)
WITHOUT_STOP_WORDS = FeatureSet("without-stop-words", tokenise=tokenise_without_stop_words)
SPOTS = FeatureSet("spots", tokenise=tokenise_spots)
STEMMED = FeatureSet("stemmed", tokenise=tokenise_stems)
WORDS_1_2 = FeatureSet("words-1-2", tokenise=_shingled(1, 2))
PHRASES = FeatureSet("phrases", tokenise=tokenise_phrases)
DIGITS_MASKED = FeatureSet("digits-masked", tokenise=tokenise_digits_masked)
DATES_MASKED = FeatureSet("dates-masked", tokenise=tokenise_dates_masked)
CHARACTERS_4 = FeatureSet("characters-4", tokenise=tokenise_character_windows)
SINGLE_CHARACTERS = FeatureSet("single-characters", tokenise=tokenise_single_characters)
JIEBA = FeatureSet("jieba", tokenise=tokenise_jieba)
JIEBA_WEIGHED = FeatureSet(
    "jieba-idf", tokenise=tokenise_jieba, weigh=count_weights, weigh_tokens=weigh_by_jieba
)
