"""What bench_methods compares with: each method reduces a page, and compares what is left of two.

Imported by bench_methods. Where a method is only described in a paper, this is our reading of it.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from datasketch import MinHash, MinHashLSH
from simhash import Simhash
from trafilatura.deduplication import Simhash as TrafilaturaSimhash

from scrapy_simhash.config import PLAIN_DISTANCE_BITS
from scrapy_simhash.features import FeatureSet, count_weights, normalise, shingles, tokenise
from scrapy_simhash.simhash import hamming_distance, simhash

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from labelled import Page, Pages
    from numpy.typing import NDArray

Reduced = TypeVar("Reduced")

_LEAST_ALIKE = 0.8
# Of 64 bits, three or seven may differ.
_TRAFILATURA_LEAST = {"similarity 0.95 (k=3)": 61 / 64, "similarity 0.89 (k=7)": 57 / 64}
_PERMUTATIONS = 128
_SENTENCE_ENDS = re.compile(r"(?<=[.!?])\s+|[。！？\n]+")  # noqa: RUF001 - the ends of Chinese ones
_SENTENCES = 3
# Broder (1997), as Henzinger (SIGIR 2006) ran it: shingles of 8 tokens, 84 minima, 6 groups.
_BRODER_WINDOW, _MINIMA, _GROUPS, _LEAST_GROUPS = 8, 84, 6, 2
# Chowdhury et al. (TOIS 2002): terms that are neither very common nor very rare.
_LEAST_IDF, _MOST_IDF = 0.2, 0.8
_GRAM_WORDS, _WINNOW_WINDOW = 5, 4
_BUCKETS, _LEAST_SHARE_OF_BUCKETS = 16, 12 / 16

EXACT_MAIN = "exact checksum of the main text"
_WORDS = FeatureSet("words-1")
_SEOMOZ = FeatureSet("words-3-counts", window=3, weigh=count_weights)
_RANDOM = np.random.default_rng(1997)
_MULTIPLIERS = _RANDOM.integers(0, 2**63, _MINIMA, np.uint64) * np.uint64(2) + np.uint64(1)
_ADDENDS = _RANDOM.integers(0, 2**63, _MINIMA, np.uint64)


@dataclass(frozen=True)
class Method(Generic[Reduced]):
    """A way to tell near-duplicates.

    Attributes:
        name: in the table, with its parameters.
        prepare: from a page to what the method would store of it.
        alike: compares what two pages left.
    """

    name: str
    prepare: Callable[[Page], Reduced]
    alike: Callable[[Reduced, Reduced], bool]


def list_methods(pages: Pages) -> list[Method[Any]]:
    """List the methods; the pages are those that I-Match learns its terms from."""
    idf = learn_idf(pages)
    methods: list[Method[Any]] = [
        Method("1e0ng/simhash, its own features, k=3", _make_1e0ng, _near),
        *(
            Method(f"trafilatura's Simhash, {name}", _make_trafilatura, partial(_similar, least))
            for name, least in _TRAFILATURA_LEAST.items()
        ),
        Method("words-3 without weights, k=3 (seomoz)", _make_seomoz, _near),
        Method("MinHash 128, words-3, Jaccard 0.8 (datasketch)", make_minhash, _alike_minhash),
        Method("MinHash LSH 0.8, candidates (datasketch)", make_minhash, _share_band),
        Method("three longest sentences, any equal", hash_sentences, _any_equal),
        Method("three longest sentences, all equal", hash_sentences, _equal),
        Method("super-shingles, 2 of 6 equal (Broder)", make_super_shingles, _share_groups),
        Method("I-Match, IDF 0.2 to 0.8 of the largest", partial(match_terms, idf), _same_terms),
        Method("winnowing 5/4, Jaccard 0.8", winnow, _alike_sets),
        Method("winnowing 5/4, containment 0.8", winnow, _contained),
        Method("checksums of 16 buckets of words, 3/4 equal", sum_buckets, _share_buckets),
        Method(EXACT_MAIN, _digest_main, _equal),
        Method("exact checksum of the whole text", _digest_whole, _equal),
    ]  # fmt: skip
    return methods


class _Simhash(Simhash):  # type: ignore[misc]  # ships no types
    # Version 2.1.2 raises OverflowError with numpy 2 at a feature that occurs more than 50 times.
    # Its other path gives the same sums.
    large_weight_cutoff = 2**31


def _make_1e0ng(page: Page) -> int:
    value: int = _Simhash(page.text.main).value
    return value


def _make_seomoz(page: Page) -> int:
    return simhash(*_SEOMOZ.extract(page.text.main))


def _near(first: int, second: int) -> bool:
    return hamming_distance(first, second) <= PLAIN_DISTANCE_BITS


def _make_trafilatura(page: Page) -> TrafilaturaSimhash:
    return TrafilaturaSimhash(page.text.main)


def _similar(least: float, first: TrafilaturaSimhash, second: TrafilaturaSimhash) -> bool:
    return first.similarity(second) >= least


def make_minhash(page: Page) -> MinHash:
    """Make a MinHash of the shingles of three words."""
    minhash = MinHash(_PERMUTATIONS)
    minhash.update_batch(
        [shingle.encode() for shingle in set(shingles(tokenise(normalise(page.text.main)), 3))]
    )
    return minhash


def _alike_minhash(first: MinHash, second: MinHash) -> bool:
    return bool(first.jaccard(second) >= _LEAST_ALIKE)


_LSH = MinHashLSH(_LEAST_ALIKE, _PERMUTATIONS)


def _share_band(first: MinHash, second: MinHash) -> bool:
    """Say whether datasketch's index for 0.8 would propose the one for the other."""
    equal = first.hashvalues == second.hashvalues
    return bool(equal[: _LSH.b * _LSH.r].reshape(_LSH.b, _LSH.r).all(axis=1).any())


def hash_sentences(page: Page) -> frozenset[int]:
    """Hash the three longest sentences, of words only."""
    sentences = {
        " ".join(tokenise(sentence)) for sentence in _SENTENCE_ENDS.split(normalise(page.text.main))
    }
    longest = sorted(sentences, key=lambda sentence: (-len(sentence), sentence))[:_SENTENCES]
    return frozenset(_hash(sentence) for sentence in longest)


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def _any_equal(first: frozenset[int], second: frozenset[int]) -> bool:
    return not first.isdisjoint(second)


def _equal(first: object, second: object) -> bool:
    return first == second


def make_super_shingles(page: Page) -> tuple[bytes, ...]:
    """Take 84 minima of the shingles' hashes, and one hash of each 14 of them."""
    hashes = np.unique(_WORDS.read(page.text.main).shingle(_BRODER_WINDOW))
    minima = np.zeros(_MINIMA, np.uint64)
    for place in range(_MINIMA if len(hashes) else 0):
        mixed = hashes * _MULTIPLIERS[place] + _ADDENDS[place]
        # The low bits of a product depend on the low bits of its factors only.
        minima[place] = (mixed ^ (mixed >> np.uint64(32))).min()
    return tuple(
        hashlib.blake2b(group.tobytes(), digest_size=8).digest()
        for group in minima.reshape(_GROUPS, -1)
    )


def _share_groups(first: tuple[bytes, ...], second: tuple[bytes, ...]) -> bool:
    return sum(map(bytes.__eq__, first, second)) >= _LEAST_GROUPS


def learn_idf(pages: Pages) -> dict[str, float]:
    """Learn how rare each word is on these pages; the rarest have 1."""
    inside: Counter[str] = Counter()
    for page in pages.values():
        inside.update(set(tokenise(normalise(page.text.main))))
    idf = np.log(len(pages) / np.array(list(inside.values())))
    return dict(zip(inside, (idf / idf.max()).tolist(), strict=True))


def match_terms(idf: Mapping[str, float], page: Page) -> bytes:
    """Digest the set of words that are neither common nor rare."""
    words = set(tokenise(normalise(page.text.main)))
    kept = sorted(word for word in words if _LEAST_IDF <= idf.get(word, 1.0) <= _MOST_IDF)
    return hashlib.sha256(" ".join(kept).encode()).digest() if kept else b""


def _same_terms(first: bytes, second: bytes) -> bool:
    return first == second != b""


def winnow(page: Page) -> NDArray[np.uint64]:
    """Keep the smallest hash in each window of four runs of five words (Schleimer, SIGMOD 2003)."""
    grams = _WORDS.read(page.text.main).shingle(_GRAM_WORDS)
    window = min(_WINNOW_WINDOW, len(grams))
    if not window:
        return grams
    return np.unique(np.lib.stride_tricks.sliding_window_view(grams, window).min(axis=1))


def _alike_sets(first: NDArray[np.uint64], second: NDArray[np.uint64]) -> bool:
    common = len(np.intersect1d(first, second, assume_unique=True))
    return common > 0 and common >= _LEAST_ALIKE * (len(first) + len(second) - common)


def _contained(first: NDArray[np.uint64], second: NDArray[np.uint64]) -> bool:
    common = len(np.intersect1d(first, second, assume_unique=True))
    return common > 0 and common >= _LEAST_ALIKE * min(len(first), len(second))


def sum_buckets(page: Page) -> NDArray[np.uint64]:
    """Deal the distinct words into 16 buckets by their hashes, and sum up each bucket."""
    hashes = _WORDS.read(page.text.main).hashes
    sums = np.zeros(_BUCKETS, np.uint64)
    np.add.at(sums, (hashes >> np.uint64(60)).astype(np.int64), hashes)
    return sums


def _share_buckets(first: NDArray[np.uint64], second: NDArray[np.uint64]) -> bool:
    """Ask for three in four; buckets that are empty in both say nothing."""
    filled = (first != 0) | (second != 0)
    equal = np.count_nonzero(filled & (first == second))
    return bool(equal and equal >= _LEAST_SHARE_OF_BUCKETS * np.count_nonzero(filled))


def _digest_main(page: Page) -> bytes:
    return _digest(page.text.main)


def _digest_whole(page: Page) -> bytes:
    return _digest(page.text.whole)


def _digest(text: str) -> bytes:
    return hashlib.blake2b(" ".join(tokenise(normalise(text))).encode(), digest_size=16).digest()
