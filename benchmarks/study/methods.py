"""What bench_methods compares with: each method reduces a text, and compares what is left of two.

Imported by bench_methods, and by whatever else wants another way to tell near-duplicates.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from datasketch import MinHash
from simhash import Simhash
from trafilatura.deduplication import Simhash as TrafilaturaSimhash

from scrapy_simhash.judging.evidence import PLAIN_DISTANCE_BITS
from scrapy_simhash.pages.features import normalise, tokenise
from scrapy_simhash.simhash import hamming_distance

if TYPE_CHECKING:
    from collections.abc import Callable

Reduced = TypeVar("Reduced")

_LEAST_ALIKE = 0.8
# Of 64 bits, three or seven may differ.
_TRAFILATURA_LEAST = {"k=3": 61 / 64, "k=7": 57 / 64}
_PERMUTATIONS = 128
_WINDOW = 3


@dataclass(frozen=True)
class Method(Generic[Reduced]):
    """A way to tell near-duplicates.

    Attributes:
        name: in the table, with its parameters.
        prepare: from a text to what the method would store of it.
        alike: compares what two texts left.
    """

    name: str
    prepare: Callable[[str], Reduced]
    alike: Callable[[Reduced, Reduced], bool]


class _Simhash(Simhash):  # type: ignore[misc]  # ships no types
    # Version 2.1.2 raises OverflowError with numpy 2 at a feature that occurs more than 50 times.
    # Its other path gives the same sums.
    large_weight_cutoff = 2**31


def _make_1e0ng(text: str) -> int:
    value: int = _Simhash(text).value
    return value


def _near(first: int, second: int) -> bool:
    return hamming_distance(first, second) <= PLAIN_DISTANCE_BITS


def _similar(least: float, first: TrafilaturaSimhash, second: TrafilaturaSimhash) -> bool:
    return first.similarity(second) >= least


def _list_shingles(text: str) -> frozenset[str]:
    """List the runs of three words, in the product's words."""
    words = tokenise(normalise(text))
    ends = range(_WINDOW, max(len(words), _WINDOW) + 1)
    return frozenset(" ".join(words[end - _WINDOW : end]) for end in ends)


def _make_minhash(text: str) -> MinHash:
    minhash = MinHash(_PERMUTATIONS)
    minhash.update_batch([shingle.encode() for shingle in _list_shingles(text)])
    return minhash


def _alike_minhash(first: MinHash, second: MinHash) -> bool:
    return bool(first.jaccard(second) >= _LEAST_ALIKE)


def _alike(first: frozenset[str], second: frozenset[str]) -> bool:
    common = len(first & second)
    return common > 0 and common >= _LEAST_ALIKE * len(first | second)


def _digest(text: str) -> bytes:
    return hashlib.blake2b(" ".join(tokenise(normalise(text))).encode(), digest_size=16).digest()


METHODS: list[Method[Any]] = [
    Method("MinHash of word triples, .8 (datasketch)", _make_minhash, _alike_minhash),
    Method("exact Jaccard of word triples, .8", _list_shingles, _alike),
    Method("1e0ng/simhash, k=3", _make_1e0ng, _near),
    *(
        Method(f"trafilatura's Simhash, {name}", TrafilaturaSimhash, partial(_similar, least))
        for name, least in _TRAFILATURA_LEAST.items()
    ),
    Method("same words in the same order", _digest, bytes.__eq__),
]
