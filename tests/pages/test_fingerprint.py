"""A page to its fingerprint, and a text to its weighted features: each step, then all of them."""

import unicodedata
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scrapy_simhash.pages.facts import Recipe
from scrapy_simhash.pages.features import (
    locate,
    normalise,
    read_shingles,
    read_words,
    simhash,
    tokenise,
    weigh_features,
)
from scrapy_simhash.pages.fingerprint import fingerprint_page, fingerprint_text
from scrapy_simhash.pages.turbohtml_reader import PageText
from tests.helpers.handmade import PARAGRAPHS, article, page
from tests.helpers.needing import examples
from tests.helpers.strategies import texts

HTML = page(article())


def test_a_page_as_text_may_have_lone_surrogates() -> None:
    made = fingerprint_page(page(article("\ud800", *PARAGRAPHS)))
    assert PARAGRAPHS[5] in made.text


def test_digest_ignores_white_space_and_case_but_no_word() -> None:
    digest = fingerprint_page(HTML).facts.text_digest
    assert fingerprint_page(HTML.replace("the valley", "The \n valley")).facts.text_digest == digest
    assert fingerprint_page(HTML.replace("the valley", "a valley")).facts.text_digest != digest


def test_seeds_make_other_fingerprints_of_the_same_text() -> None:
    plain, seeded = fingerprint_page(HTML), fingerprint_page(HTML, seed=2**64 - 1)
    assert (plain.facts.fingerprint ^ seeded.facts.fingerprint).bit_count() > 10
    assert (plain.whole_fingerprint ^ seeded.whole_fingerprint).bit_count() > 10
    assert plain.stub != seeded.stub
    one, other = (read_shingles(page.facts.sketch).tolist() for page in (plain, seeded))
    assert not {*one} & {*other}
    assert plain.facts.text_digest == seeded.facts.text_digest


# What might compose or go on across a blank: marks, jamos, joiners, ideographs; digits and letters.
BORDERS = "a1_é漢字カกั\u0301\u0308\u3099\u1100\u1161\u11a8\u200d\ufe00\u0345ßİΣς\u00b4…½™ﷺ.,"
border = st.text(st.sampled_from(BORDERS), max_size=6)
parts = st.tuples(*3 * [texts | border | st.tuples(border, texts, border).map("".join)])


@given(parts, st.integers(1, 3), st.integers(0, 2**64 - 1))
@example(("e", "\u0301e", "\u0301"), 1, 0)
@example(("漢", "字漢", "字"), 1, 0)
def test_a_main_text_that_is_a_stretch_of_the_whole_text(
    drawn: tuple[str, str, str], window: int, seed: int
) -> None:
    """It is cut out of the words of the whole text, with the bits of a text by itself."""
    before, main, _ = (part.count("\n") + bool(part) for part in drawn)
    whole = "\n".join(filter(None, drawn))
    stretch, recipe = (before, before + main), Recipe(window)
    cut = fingerprint_text(PageText(drawn[1], whole, main_lines=stretch), recipe, seed)
    all_of_it = fingerprint_text(PageText(whole, whole), recipe, seed)
    alone = fingerprint_text(PageText(drawn[1], drawn[1] or whole), recipe, seed)
    assert cut.whole_fingerprint == all_of_it.whole_fingerprint
    for field in ("whole_words", "sketch"):
        assert getattr(cut.facts, field) == getattr(all_of_it.facts, field)
    for field in ("fingerprint", "text_digest", "features", "words"):
        assert getattr(cut.facts, field) == getattr(alone.facts, field)


@pytest.mark.parametrize(
    ("min_features", "digested"), [(None, True), (1, False), (3, False), (4, True), (32, True)]
)
def test_only_a_page_with_too_few_features_gets_the_digests_of_a_stub(
    min_features: int | None, digested: bool
) -> None:
    text = PageText("one two three", "one two three\nand a menu", main_lines=(0, 1))
    made = fingerprint_text(text, Recipe(), 7, "", min_features)
    assert made.facts.features == 3
    assert (bool(made.stub), bool(made.facts.hidden)) == (digested, digested)


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


def test_data_are_read_as_texts_are() -> None:
    """A store of before would else find no page again that a browser draws."""
    names = " ".join(f"Item{number} \uff21\u00dc" for number in range(200))
    one, other = (
        fingerprint_page(f"<p>Loading</p><script>x = '{data}'</script>").facts.data_fingerprint
        for data in (names, names.lower().replace("\uff41", "a"))
    )
    assert one == other != b""
