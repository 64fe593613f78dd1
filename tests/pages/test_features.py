"""Text to weighted features: each step on its own, then all of them together."""

import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash.pages.features import locate, normalise, read_words, tokenise, weigh_features
from scrapy_simhash.simhash import simhash
from tests.helpers.needing import examples
from tests.helpers.strategies import texts


@pytest.mark.parametrize(
    ("written", "normal"),
    [
        *(("Straße", "strasse"), ("STRASSE", "strasse"), ("ﬁnance", "finance")),
        ("\uff11\uff12\uff13 \uff21\uff22\uff23", "123 abc"),  # full-width
        *(("ΣΊΣΥΦΟΣ", "σίσυφοσ"), ("ｶﾀｶﾅ", "カタカナ"), ("e\u0301te\u0301", "été")),
        *(("\u1100\u1161", "가"), ("İ", "i\u0307")),
        ("\u210b", "h"),  # a script letter becomes a capital, which is folded then
        ("so\u00adft e\u200b\u0301t\u2060e \ufeffmark", "soft éte mark"),
        ("می\u200cگیرم", "می\u200cگیرم"),  # a joiner that Persian spells
        ("क\u094d\u200dष क\u094d\u200cष", "क\u094d\u200dष क\u094d\u200cष"),
        ("a\u200cb\u200dc \U0001f469\u200d\U0001f4bb", "abc \U0001f469\U0001f4bb"),
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
    assert normalise(normalise(text)) == normalise(text)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        *(("", []), (" \n\t.,!— ", [])),
        ("don't stop-me_now", ["don", "t", "stop", "me_now"]),
        ("version 3.11, 2026", ["version", "3", "11", "2026"]),
        *(("中文分词", ["中文", "文分", "分词"]), ("中", ["中"]), ("𠀀𠀁𠀂", ["𠀀𠀁", "𠀁𠀂"])),
        ("東京タワーです", ["東京", "京タ", "タワ", "ワー", "ーで", "です"]),
        ("人々", ["人々"]),
        ("ไม่มี", ["ไม่", "ม่มี"]),  # three letters, each with its marks
        *(("ខ្មែរ", ["ខ្មែ", "មែរ"]), ("한국어 문장", ["한국어", "문장"])),
        *(("كتاب العربية", ["كتاب", "العربية"]), ("كَتَبَ", ["كَتَبَ"])),
        *(("हिन्दी किताबें", ["हिन्दी", "किताबें"]), ("தமிழ் நூல்", ["தமிழ்", "நூல்"])),
        ("iPhone手机壳15个", ["iPhone", "手机", "机壳", "15", "个"]),
        ("red 東京 blue", ["red", "東京", "blue"]),
    ],
)
def test_tokenise(text: str, tokens: list[str]) -> None:
    assert tokenise(text) == tokens


TEXT = "The quick brown fox jumps over the lazy dog. The quick brown fox — 東京都 हिन्दी!"


@pytest.mark.parametrize(
    ("window", "expected"),
    [(1, 0x861E869211DAB3E7), (2, 0xCA5A87A4B0F74B38), (3, 0x8AF194E27DC7A16E)],
)
def test_golden_values(window: int, expected: int) -> None:
    """A change here makes every store useless: raise `features_version`, then the values."""
    assert simhash(*weigh_features(read_words(TEXT).hashes, window)) == expected


def check_places(text: str) -> None:
    tokens = tokenise(text)
    places = list(locate(text, tokens))
    assert [text[start:end] for start, end in places] == tokens
    # What is in no token separates words.
    for (_, before), (after, _) in pairwise([(0, 0), *places, (len(text), 0)]):
        assert tokenise(text[before:after]) == []


# What is easily mistaken: marks on ideographs, joiners, numbers that are no digits, code points
# without a character.
ODD = "a_漢字カ々〇กั\u1031\u0301\u3099\ufe00\U000e0100\u200c\u200d\u09f4\u0558\u00ad・² ,"


@examples(500)
@given(texts | st.text(st.sampled_from(ODD), max_size=20))
def test_no_word_is_lost(text: str) -> None:
    check_places(text)
    check_places(normalise(text))
