"""The fast steps from texts to fingerprints give the bits of the slow ones, whatever the text."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from scrapy_simhash.pages.features import FEATURE_SETS, FeatureSet
from scrapy_simhash.pages.fingerprint import fingerprint_text, load_features, read_page
from scrapy_simhash.pages.text import PageText
from tests.helpers.processes import ROOT
from tests.helpers.slowly import judge_slowly
from tests.helpers.strategies import texts

seeds = st.integers(0, 2**64 - 1)
WORDS = FEATURE_SETS["words-1"]
SHIPPED = sorted((ROOT / "example_project" / "docsite").rglob("*.html*"))[::8]


def weigh_equally(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.ones(len(counts))


def reverse_text(text: str) -> list[str]:
    """Cut in a way that looks across blanks."""
    return text[::-1].split("e")


SETS = {
    **FEATURE_SETS,
    "reversed": FeatureSet("reversed", tokenise=reverse_text),
    "equal": FeatureSet("equal", 2, weigh=weigh_equally),
}


def make_page(main: str, whole: str, lines: tuple[int, int] = (0, 0)) -> PageText:
    return PageText(main, whole, "Title", read_embedded=lambda: "data", main_lines=lines)


def judge(page: PageText, features: FeatureSet, seed: int) -> dict[str, int | bytes]:
    made = fingerprint_text(page, features, seed)
    names = judge_slowly(page, features, seed)
    return {name: getattr(made if hasattr(made, name) else made.facts, name) for name in names}


def join(parts: tuple[str, str, str]) -> PageText:
    """Make a page whose main text is a stretch of its whole text, as a reader does."""
    before, main, _ = (part.count("\n") + bool(part) for part in parts)
    return make_page(parts[1], "\n".join(filter(None, parts)), (before, before + main))


@given(texts, texts, st.sampled_from(sorted(SETS)), seeds)
def test_two_texts(main: str, whole: str, name: str, seed: int) -> None:
    page = make_page(main, whole)
    assert judge(page, SETS[name], seed) == judge_slowly(page, SETS[name], seed)


# What might compose or go on across a blank: marks, jamos, joiners, ideographs; digits and letters.
BORDERS = "a1_é漢字カกั\u0301\u0308\u3099\u1100\u1161\u11a8\u200d\ufe00\u0345ßİΣς\u00b4…½™ﷺ.,"
border = st.text(st.sampled_from(BORDERS), max_size=6)
parts = st.tuples(*3 * [texts | border | st.tuples(border, texts, border).map("".join)])


@given(parts, st.sampled_from(sorted(SETS)), seeds)
@example(("e", "\u0301e", "\u0301"), "words-1", 0)
@example(("漢", "字漢", "字"), "words-1", 0)
def test_a_main_text_that_is_a_stretch_of_the_whole_text(
    drawn: tuple[str, str, str], name: str, seed: int
) -> None:
    page = join(drawn)
    made = judge(page, SETS[name], seed)
    assert made == judge_slowly(page, SETS[name], seed)
    assert made == judge(page._replace(main_lines=(0, 0)), SETS[name], seed)


@pytest.mark.parametrize(
    ("name", "count"), [("words-1", 4_094), ("words-1", 4_095), ("equal", 9_000)]
)
def test_a_word_many_times(name: str, count: int) -> None:
    """Weights are looked up for small counts only."""
    page = make_page("before", "again " * count + "and again")
    assert judge(page, SETS[name], 7) == judge_slowly(page, SETS[name], 7)


@pytest.mark.parametrize("path", SHIPPED, ids=[path.stem for path in SHIPPED])
def test_real_pages(path: Path) -> None:
    page = read_page(path.read_bytes(), "utf-8", "html2txt")
    lines = page.whole.split("\n")
    first, end = len(lines) // 3, len(lines) * 2 // 3 + 1
    stretch = page._replace(main="\n".join(lines[first:end]), main_lines=(first, end))
    for each in (page, stretch):
        assert judge(each, WORDS, 7) == judge_slowly(each, WORDS, 7)


@pytest.mark.parametrize(
    ("min_features", "digested"), [(None, True), (1, False), (3, False), (4, True), (32, True)]
)
def test_only_a_page_with_too_few_features_gets_the_digests_of_a_stub(
    min_features: int | None, digested: bool
) -> None:
    page = make_page("one two three", "one two three and a menu")
    made = fingerprint_text(page, load_features("words-1"), 7, "", min_features)
    assert made.facts.features == 3
    slowly = judge_slowly(page, WORDS, 7)
    digests = (slowly["stub"], slowly["hidden"]) if digested else (b"", b"")
    assert (made.stub, made.facts.hidden) == digests
