"""Words hashed all at once: what the steps one after the other make, for every character."""

import unicodedata

import numpy as np
import pytest
import xxhash
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scrapy_simhash.pages import words
from scrapy_simhash.pages.words import HashedWords, hash_slices, hash_words
from tests.helpers.slowly import normalise_slowly, tokenise_slowly
from tests.helpers.strategies import texts

seeds = st.integers(0, 2**64 - 1) | st.sampled_from([0, 2**32 - 1, 2**32, 2**64 - 1])
# Marks, jamos, joiners, ideographs with and without marks, and what becomes several characters.
ODD = (
    "aZ1_éİßΣς ﬁ…½™ﷺ\u00b4²\u0345漢字カ々\u3007กัไม่ကျ\u1031\u0301\u3099\ufe00\U000e0100\u200c\u200d"
)
ODD += "\u1100\u1161\u11a8가・\u00ad\u200b\u2060\ufeff.,\u01f0\U0001f600\U00016d67"
# What joiners stand between: letters that connect, viramas, vowels and other marks.
ODD += "میرا\u064e\ua872क\u094d\u093c\u093e\u0d7b\u0dd9\u0dca\U00010ac5"
odd = st.text(st.sampled_from(ODD), max_size=12)
# Ideographs and Korean syllables, ten thousands of a kind, are tried here and there.
MANY = (
    range(0x3400, 0xA000),
    range(0xAC00, 0xD7A4),
    range(0x17000, 0x18D00),
    range(0x20000, 0x40000),
)
CHARACTERS = [
    chr(code)
    for code in range(0x110000)
    if unicodedata.category(chr(code)) not in {"Cn", "Co", "Cs"}
    and (code % 97 == 0 or not any(code in each for each in MANY))
]


def hash_slowly(text: str, seed: int) -> list[int]:
    tokens = tokenise_slowly(normalise_slowly(text))
    return [xxhash.xxh3_64_intdigest(token.encode(), seed) for token in tokens]


def check(text: str, seed: int = 7) -> HashedWords:
    made = hash_words(text, seed)
    # Not asserted as they are: to show how texts of 50 kB differ takes minutes.
    same = (
        made.normal.decode() == normalise_slowly(text),
        made.hashes.tolist() == hash_slowly(text, seed),
    )
    assert same == (True, True)
    return made


@settings(max_examples=200)
@given(st.one_of(texts, odd, st.lists(texts | odd).map(" ".join)), seeds)
@example("", 0)
@example(" ", 0)
@example("漢", 0)
@example("\u0301漢\u0301字 \u0301\u0301a漢a\u0301字\u0301", 0)
@example("\u0dd9\u200d\u0dca\u200cක a\u0323\u200c\u0307\u094d\u200da", 0)
def test_texts(text: str, seed: int) -> None:
    made = check(text, seed)
    # Texts are kept as they are normalised, and hashed again.
    assert check(made.normal.decode(), seed).hashes.tolist() == made.hashes.tolist()


@pytest.fixture(scope="module")
def kinds() -> dict[str, int]:
    return {each: words._describe(each) for each in CHARACTERS}


@pytest.mark.parametrize("pattern", ["a{}b ", "\u0e01{}{}\u0301 "])
def test_every_character(pattern: str, kinds: dict[str, int]) -> None:
    """Together with others of its kind: one that may join makes all be normalised at once."""
    for joins in (False, True):
        some = [each for each, kind in kinds.items() if bool(kind & words._JOINS) == joins]
        assert len(some) > 1_000
        for start in range(0, len(some), 5_000):
            check("".join(pattern.format(*2 * [each]) for each in some[start : start + 5_000]))


@given(st.binary(min_size=60, max_size=60), seeds, seeds)
def test_hashes(text: bytes, drawn: int, seed: int) -> None:
    """Of all lengths, of some so few that they are hashed one by one."""
    text *= 8
    lengths = np.append(np.tile(np.arange(1, 41), 30), [1, *range(100, 300)])
    starts = np.random.default_rng(drawn).integers(0, len(text) - lengths)
    for count in (8, len(lengths)):
        places = zip(starts[-count:].tolist(), lengths[-count:].tolist(), strict=True)
        expected = [xxhash.xxh3_64_intdigest(text[at : at + size], seed) for at, size in places]
        ends = starts + lengths
        assert hash_slices(text, starts[-count:], ends[-count:], seed).tolist() == expected
