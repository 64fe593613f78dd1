"""Text to weighted features: each step on its own, then all of them together."""

import unicodedata
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from scrapy_simhash.features import (
    FEATURE_SETS,
    FeatureSet,
    equal_weights,
    hash_feature,
    log_weights,
    normalise,
    shingles,
    tokenise,
)
from scrapy_simhash.simhash import simhash
from tests.strategies import texts


@pytest.mark.parametrize(
    ("written", "normal"),
    [
        ("Straße", "strasse"),
        ("STRASSE", "strasse"),
        ("ﬁnance", "finance"),
        ("\uff11\uff12\uff13 \uff21\uff22\uff23", "123 abc"),  # full-width
        ("ΣΊΣΥΦΟΣ", "σίσυφοσ"),
        ("ｶﾀｶﾅ", "カタカナ"),
        ("e\u0301te\u0301", "été"),
        ("\u1100\u1161", "가"),
        ("İ", "i\u0307"),
        ("\u210b", "h"),  # a script letter becomes a capital, which is folded then
        ("\u01f0", "\u01f0"),  # folding takes it apart, which is undone again
    ],
)
def test_normalise_folds_what_looks_the_same(written: str, normal: str) -> None:
    assert normalise(written) == normal


@given(texts)
def test_composed_and_decomposed_text_become_the_same(text: str) -> None:
    composed, decomposed = unicodedata.normalize("NFC", text), unicodedata.normalize("NFD", text)
    assert normalise(composed) == normalise(decomposed)
    assert unicodedata.is_normalized("NFKC", normalise(text))


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", []),
        (" \n\t.,!— ", []),
        ("don't stop-me_now", ["don", "t", "stop", "me_now"]),
        ("version 3.11, 2026", ["version", "3", "11", "2026"]),
        ("中文分词", ["中文", "文分", "分词"]),
        ("中", ["中"]),
        ("𠀀𠀁𠀂", ["𠀀𠀁", "𠀁𠀂"]),
        ("東京タワーです", ["東京", "京タ", "タワ", "ワー", "ーで", "です"]),
        ("人々", ["人々"]),
        ("ไม่มี", ["ไม่", "ม่มี"]),  # three letters, each with its marks
        ("ខ្មែរ", ["ខ្មែ", "មែរ"]),
        ("한국어 문장", ["한국어", "문장"]),
        ("كتاب العربية", ["كتاب", "العربية"]),
        ("كَتَبَ", ["كَتَبَ"]),
        ("हिन्दी किताबें", ["हिन्दी", "किताबें"]),
        ("தமிழ் நூல்", ["தமிழ்", "நூல்"]),
        ("iPhone手机壳15个", ["iPhone", "手机", "机壳", "15", "个"]),
        ("red 東京 blue", ["red", "東京", "blue"]),
    ],
)
def test_tokenise(text: str, tokens: list[str]) -> None:
    assert tokenise(text) == tokens


def test_a_mark_is_never_a_token_of_its_own_nor_lost() -> None:
    """Python's own word pattern cuts Hindi at every vowel sign."""
    word = "कि"
    assert unicodedata.category(word[1]) == "Mc"
    assert tokenise(f"{word} {word}") == [word, word]


@given(texts)
def test_tokens_hold_all_letters_and_digits(text: str) -> None:
    """Every one in spaced scripts once; the pairs of unspaced ones at least once."""
    text = normalise(text)
    kept = Counter("".join(tokenise(text)))
    wanted = Counter(letter for letter in text if letter.isalnum())
    assert wanted <= kept
    assert set(kept) <= {letter for letter in text if not letter.isspace()}


@pytest.mark.parametrize(
    ("tokens", "window", "made"),
    [
        ([], 1, []),
        ([], 3, []),
        (["a"], 1, ["a"]),
        (["a"], 3, ["a"]),
        (["a", "b"], 3, ["a b"]),
        (["a", "b", "c"], 3, ["a b c"]),
        (["a", "b", "c", "d"], 3, ["a b c", "b c d"]),
        (["a", "b", "a", "b"], 2, ["a b", "b a", "a b"]),
    ],
)
def test_shingles(tokens: list[str], window: int, made: list[str]) -> None:
    assert list(shingles(tokens, window)) == made


@given(st.lists(st.text("abc", min_size=1, max_size=2), max_size=12), st.integers(1, 15))
def test_shingles_are_all_windows(tokens: list[str], window: int) -> None:
    made = list(shingles(tokens, window))
    assert len(made) == (max(1, len(tokens) - window + 1) if tokens else 0)
    assert {token for shingle in made for token in shingle.split()} == set(tokens)


def test_a_window_has_at_least_one_token() -> None:
    with pytest.raises(ValueError, match="at least 1 token, got window=0"):
        FeatureSet("none", window=0)


def test_feature_hash_is_stable_and_seeded() -> None:
    assert hash_feature(b"red apples", 0) == 0x5B36C1296D3207DF
    assert hash_feature(b"red apples", 1) == 0xB493762C5AA57333
    assert hash_feature(b"red apples", 2**64 - 1) == 0xE4031682B63E73FC


TEXT = "The quick brown fox jumps over the lazy dog. The quick brown fox — 東京都 हिन्दी!"


def fingerprint(features: FeatureSet, text: str = TEXT, seed: int = 0) -> int:
    made = features.extract(text, seed)
    return simhash(made.hashes, made.weights)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("words-1", 0x861E869211DAB3E7),
        ("words-2", 0x1ABFCE4248213646),
        ("words-3", 0x5CCD88CFC08CB92D),
        ("words-3-set", 0x5CC988CF4088B92C),
    ],
)
def test_golden_values(name: str, expected: int) -> None:
    """A change here makes every store useless: raise FEATURES_VERSION, then the values."""
    assert fingerprint(FEATURE_SETS[name]) == expected


def test_feature_sets_are_found_by_their_own_names() -> None:
    assert {name: features.name for name, features in FEATURE_SETS.items()} == {
        name: name for name in FEATURE_SETS
    }


def reverse_words(text: str) -> list[str]:
    return [word[::-1] for word in text.split()]


def other_hash(feature: bytes, seed: int) -> int:
    return hash_feature(feature, seed) ^ 0xFFFF


def weigh_by_square(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    return counts.astype(np.float64) ** 2


@pytest.mark.parametrize(
    "replaced",
    [
        FeatureSet("test", tokenise=reverse_words),
        FeatureSet("test", window=5),
        FeatureSet("test", hash_feature=other_hash),
        FeatureSet("test", weigh=weigh_by_square),
    ],
    ids=["tokeniser", "window", "hash", "weight"],
)
def test_every_step_can_be_replaced_on_its_own(replaced: FeatureSet) -> None:
    assert fingerprint(replaced) != fingerprint(FeatureSet("test"))


def test_a_replaced_step_gets_what_the_documentation_says() -> None:
    seen: dict[str, object] = {}

    def tokenise_and_note(text: str) -> list[str]:
        seen["text"] = text
        return text.split()

    def hash_and_note(feature: bytes, seed: int) -> int:
        seen.setdefault("hashed", []).append((feature, seed))  # type: ignore[attr-defined]
        return len(feature)

    def weigh_and_note(counts: NDArray[np.int64]) -> NDArray[np.float64]:
        seen["counts"] = counts.tolist()
        return np.full(len(counts), 0.5)

    features = FeatureSet("test", 2, tokenise_and_note, hash_and_note, weigh_and_note)
    made = features.extract("B ß B ß", seed=9)
    assert seen == {"text": "b ss b ss", "hashed": [(b"b ss", 9), (b"ss b", 9)], "counts": [2, 1]}
    assert made.hashes.tolist() == [4, 4]
    assert made.weights.tolist() == [500, 500]
    assert made.words == 4


@given(texts, st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_seeds_change_every_hash(text: str, seed: int, other: int) -> None:
    first, second = (FEATURE_SETS["words-2"].extract(text, each) for each in (seed, other))
    assert first.words == second.words
    assert first.weights.tolist() == second.weights.tolist()
    same = set(first.hashes.tolist()) & set(second.hashes.tolist())
    assert not same or seed == other


@given(texts, st.sampled_from(sorted(FEATURE_SETS)))
def test_features_are_distinct_with_whole_positive_weights(text: str, name: str) -> None:
    made = FEATURE_SETS[name].extract(text)
    assert made.hashes.dtype == np.uint64
    assert made.weights.dtype == np.int64
    assert made.hashes.shape == made.weights.shape
    assert len(set(made.hashes.tolist())) == len(made.hashes) <= max(made.words, 1)
    assert (made.weights >= 1).all()
    assert bool(made.words) == bool(len(made.hashes))


@pytest.mark.parametrize("weight", [0.0, -3.0, 1e-9])
def test_a_weight_is_never_below_one_unit(weight: float) -> None:
    features = FeatureSet("test", 1, weigh=lambda counts: np.full(len(counts), weight))
    assert features.extract("a b").weights.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("weigh", "weights"), [(log_weights, [1000, 1693, 3303]), (equal_weights, [1000, 1000, 1000])]
)
def test_weights(
    weigh: Callable[[NDArray[np.int64]], NDArray[np.float64]], weights: list[int]
) -> None:
    """1 + ln 2 = 1.693, 1 + ln 10 = 3.303."""
    made = FeatureSet("test", 1, weigh=weigh).extract("a b b " + "c " * 10)
    assert made.weights.tolist() == weights
