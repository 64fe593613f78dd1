"""A page to its fingerprint: values, independence of place and process, pickling."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scrapy_simhash.pages.facts import Recipe
from scrapy_simhash.pages.features import read_shingles
from scrapy_simhash.pages.fingerprint import fingerprint_page, fingerprint_text
from scrapy_simhash.pages.turbohtml_reader import PageText
from scrapy_simhash.simhash import hamming_distance
from tests.helpers.handmade import PARAGRAPHS, article, page
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
    assert hamming_distance(plain.facts.fingerprint, seeded.facts.fingerprint) > 10
    assert hamming_distance(plain.whole_fingerprint, seeded.whole_fingerprint) > 10
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
    cut, alone = (
        fingerprint_text(
            PageText(drawn[1], whole, "Title", read_embedded=lambda: "data", main_lines=lines),
            Recipe(window),
            seed,
        )
        for lines in ((before, before + main), (0, 0))
    )
    assert cut.whole_fingerprint == alone.whole_fingerprint
    for field in ("fingerprint", "text_digest", "features", "words", "whole_words", "sketch"):
        assert getattr(cut.facts, field) == getattr(alone.facts, field)


@pytest.mark.parametrize(
    ("min_features", "digested"), [(None, True), (1, False), (3, False), (4, True), (32, True)]
)
def test_only_a_page_with_too_few_features_gets_the_digests_of_a_stub(
    min_features: int | None, digested: bool
) -> None:
    text = PageText("one two three", "one two three and a menu", read_embedded=lambda: "data")
    made = fingerprint_text(text, Recipe(), 7, "", min_features)
    assert made.facts.features == 3
    assert (bool(made.stub), bool(made.facts.hidden)) == (digested, digested)
