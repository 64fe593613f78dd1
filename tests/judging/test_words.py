"""Words that stand alone, beside a brute-force oracle; and the cases of the rule."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash.judging.rule import LEAST_OF_TEMPLATE, UNKNOWN, Site, judge
from scrapy_simhash.judging.words import Page, Words, compare_words, find_gaps, read_words
from scrapy_simhash.pages.facts import Facts, Wording
from tests.helpers.pages import make_words

TOKENS = st.lists(st.sampled_from(["a", "b", "c", "7", "42"]), max_size=14)


def read(tokens: Iterable[str]) -> Words:
    return read_words(Wording(" ".join(tokens)))


def triples(tokens: list[str], *, masked: bool) -> list[tuple[str, ...]]:
    shown = ["#" if masked and token.isdecimal() else token for token in tokens]
    padded = ["<", *shown, ">"]
    return list(zip(padded, padded[1:], padded[2:], strict=False))


@pytest.mark.parametrize(("blocks", "aligned"), [(300, True), (2_600, False)])
def test_blocks_between_blocks_are_aligned_as_far_as_that_takes_no_time(
    blocks: int, *, aligned: bool
) -> None:
    """Whichever of the two pages has more."""
    few = [f"name {n} x" for n in range(blocks)]
    many = [line for n in range(blocks) for line in (f"name {n} x", f"row {n} of")]
    one, other = (read_words(Wording("\n".join(lines))) for lines in (few, many))
    for first, second in ((one, other), (other, one)):
        assert len(find_gaps(first, second)) == (blocks if aligned else 1)


@given(TOKENS, TOKENS, st.lists(TOKENS, min_size=1, max_size=4), st.integers(0, 9))
def test_alone_is_what_the_other_page_has_not_and_own_what_is_no_template_either(
    first: list[str], second: list[str], sample: list[list[str]], left_out: int
) -> None:
    first, sample = [*first, *sample[0]], (8 * sample)[:8]
    facts = Facts(b"-", 0, b"")
    pages = {n: Page(facts, read(tokens), ((), ())) for n, tokens in enumerate(sample)}
    counted = {
        masked: Counter(
            each
            for n, tokens in enumerate(sample)
            if n != left_out
            for each in set(triples(tokens, masked=masked))
        )
        for masked in (True, False)
    }
    template = Site(pages).without([left_out]).mark(read(first))
    side = compare_words(read(first), read(second), template)
    alone, own = [], []
    for place, token in enumerate(first):
        masked = not token.isdecimal()
        mine, there = triples(first, masked=masked), set(triples(second, masked=masked))
        around = mine[max(0, place - 1) : place + 2]
        if not there.intersection(around):
            alone.append(place)
            if not any(counted[masked][each] >= LEAST_OF_TEMPLATE for each in around):
                own.append(place)
    assert side.alone.nonzero()[0].tolist() == alone
    assert side.own.nonzero()[0].tolist() == own


class _Made(NamedTuple):
    """A page of blocks; those from `main` on are its main text."""

    url: str
    blocks: list[str]
    title: str = "A page"
    main: int = 0

    def make(self) -> Page:
        wording = Wording("\n".join(self.blocks), main=(self.main, len(self.blocks)))
        return Page.make(Facts(b"-", 0, b"", self.url, title=self.title), wording)


def text(seed: int, count: int = 120) -> str:
    return " ".join(make_words(seed, count))


def compare(first: _Made, second: _Made) -> bool:
    return judge(first.make(), second.make(), UNKNOWN, UNKNOWN).one


A, B = "http://a.example/item/8813", "http://a.example/item/8826"
OLD, NEW = (f"http://a.example/{release}/intro.html" for release in ("1.0", "2.0"))


def rooms(city: str) -> _Made:
    return _Made(f"http://a.example/{city}/rooms", [text(1), f"rooms in {city} here"])


@pytest.mark.parametrize(
    ("first", "second", "one"),
    [
        # Another name may say less, but nothing else.
        (_Made(A, [text(1)]), _Made(B, [text(1), "one more line"]), True),
        (_Made(A, [text(1), "colour red"]), _Made(B, [text(1), "colour blue"]), False),
        (_Made(A, [text(1), "one more line of it"]), _Made(B, [text(1)]), False),
        # Numbered folders are two names, and those that their pages name.
        (*(_Made(f"http://a.example/{n}/view", [text(1), f"{n} kg"]) for n in (7, 8)), False),
        (rooms("berlin"), rooms("hamburg"), False),
        # A new paragraph of a release is new.
        (_Made(NEW, [text(1, 600), text(2, 40)]), _Made(OLD, [text(1, 600)]), False),
        (_Made(OLD, [text(1, 600)]), _Made(NEW, [text(1, 600), text(2, 40)]), True),
        (_Made(NEW, [f"{text(1, 600)} and a little more"]), _Made(OLD, [text(1, 600)]), True),
        # A block more beside the main text is no record.
        (_Made(A, [text(3, 20), text(1)], main=1), _Made(B, [text(1)]), True),
        (_Made(A, [text(3, 20), text(1)], main=0), _Made(B, [text(1)]), False),
        # Stubs are equal word by word.
        (_Made(A, ["size large"]), _Made(B, ["size large"]), True),
        (_Made(A, ["size large"]), _Made(B, ["size small"]), False),
    ],
)
def test_what_the_rule_says(first: _Made, second: _Made, *, one: bool) -> None:
    assert compare(first, second) is one


@pytest.mark.parametrize(
    ("first", "second"),
    [
        *(("iPhone 12", "iPhone 13"), ("C", "C++"), ("operator<", "operator>")),
        *(("family man girl", "family man girl girl"), ("Rome to Paris", "Paris to Rome")),
    ],
)
def test_names_are_compared_by_words_signs_and_order(first: str, second: str) -> None:
    assert not compare(_Made(A, [text(1)], first), _Made(B, [text(1)], second))
    assert compare(_Made(A, [text(1)], first), _Made(B, [text(1)], first))
