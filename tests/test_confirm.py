"""The rule that confirms a candidate: each branch with a case, and what it says of it."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scrapy_simhash.confirm import ARTICLES, Confirmation, confirm
from scrapy_simhash.sketch import TEXT_SKETCH_BYTES, sketch_text
from tests.strategies import texts

LEAST = 0.8
POOL = np.random.default_rng(1).integers(0, 2**64, 200_000, np.uint64, endpoint=False)
LONG = 1_000
LIST = "k l m n o p q r s t"


@dataclass(frozen=True)
class Page:
    """What the rule wants to know of a document."""

    sketch: bytes
    title: str = ""
    heading: str = ""
    canonical: str = ""
    words: int = LONG
    whole_words: int = 2 * LONG
    url: str = "http://site.example/page"


def sketch_part(alike: float, number: int) -> bytes:
    """Sketch a text of 10,000 shingles; texts 0 and 1 are so much alike."""
    if alike == 0:
        return sketch_text(POOL[:10_000] if number else POOL[-10_000:])
    common = round(2 * alike / (1 + alike) * 10_000)
    start = number * (10_000 - common)
    return sketch_text(POOL[start : start + 10_000])


def make_pair(main: float, whole: float, **fields: tuple[object, object]) -> tuple[Page, Page]:
    """Make two pages whose texts are so much alike; of each field, a value for either page."""
    first, second = (
        Page(
            sketch_part(main, number) + sketch_part(whole, number),
            **{name: values[number] for name, values in fields.items()},  # type: ignore[arg-type]
        )
        for number in (0, 1)
    )
    return first, second


def compare(pair: tuple[Page, Page], least: float = LEAST) -> Confirmation:
    """Compare two pages both ways round; the answer must be the same."""
    (answer,) = confirm(pair[0], [pair[1]], least)
    (turned,) = confirm(pair[1], [pair[0]], least)
    assert turned == answer
    assert all(test and len(test.splitlines()) == 1 for test in answer.tests)
    return answer


@pytest.mark.parametrize(
    ("main", "whole", "words", "whole_words", "confirmed", "said"),
    [
        (0.7, 0.7, 1_000, 2_000, False, "neither reaches 0.8"),
        (0.0, 0.0, 1_000, 2_000, False, "neither reaches 0.8"),
        (0.95, 0.9, 1_000, 2_000, True, "main text is alike, whole text agrees"),
        (0.95, 0.79, 10, 2_000, True, "main text is alike, whole text agrees"),
        (0.95, 0.3, 1_200, 9_000, True, "with 1,200 words, in another template"),
        (0.95, 0.3, 70, 2_000, False, "but has only 70 words, 4% of a page"),
        (0.95, 0.3, 20, 20, False, "but has only 20 words, 100% of a page"),
        (0.95, 0.3, 0, 0, False, "but has only 0 words, 0% of a page"),
        (0.3, 1.0, 1_000, 2_000, True, "whole text is the same"),
        (0.5, 0.9, 1_000, 2_000, True, "whole text is alike, main text agrees"),
        (0.3, 0.9, 1_000, 2_000, False, "whole text is alike, but main text is another"),
    ],
)
def test_texts(
    main: float, whole: float, words: int, whole_words: int, confirmed: bool, said: str
) -> None:
    pair = make_pair(main, whole, words=(words, words), whole_words=(whole_words, whole_words))
    answer = compare(pair)
    assert answer.confirmed is confirmed
    assert answer.tests[0].endswith(said)
    assert answer.similarity == pytest.approx(max(main, whole), abs=0.08)
    # Names are compared only where the texts are alike.
    assert answer.tests[1:] == (("no title or heading in common to compare",) if confirmed else ())


@pytest.mark.parametrize(("enough", "share"), ARTICLES)
def test_what_is_an_article(enough: int, share: float) -> None:
    """One word fewer, or a page a little larger, and it may be a stub of other pages, too."""
    page = math.floor(enough / share) if share else 100 * enough

    def confirmed(words: int, whole_words: int) -> bool:
        counted = {"words": (words, words), "whole_words": (whole_words, whole_words)}
        return compare(make_pair(0.95, 0.3, **counted)).confirmed

    assert confirmed(enough, page)
    assert not confirmed(enough - 1, page)
    if share:
        assert not confirmed(enough, page + 1)


def test_words_are_those_of_the_shorter_main_and_the_longer_whole_text() -> None:
    assert not compare(make_pair(0.95, 0.3, words=(100, 299), whole_words=(400, 900))).confirmed
    assert compare(make_pair(0.95, 0.3, words=(100, 299), whole_words=(400, 500))).confirmed


@pytest.mark.parametrize(
    ("least", "confirmed"), [(0.0, True), (0.6, True), (0.8, False), (1.0, False)]
)
def test_the_least_similarity_is_the_callers(least: float, confirmed: bool) -> None:
    assert compare(make_pair(0.7, 0.7), least).confirmed is confirmed


@pytest.mark.parametrize(
    ("titles", "headings", "confirmed", "said"),
    [
        (("", ""), ("", ""), True, "no title or heading in common to compare"),
        (("Kiwi", ""), ("", "Apples"), True, "no title or heading in common to compare"),
        (("!!", "Kiwi"), ("", ""), True, "no title or heading in common to compare"),
        (("A Kiwi", "a kiwi!"), ("", ""), True, "titles same"),
        (
            ("Docs", "Docs"),
            ("CREATE TABLE", "CREATE INDEX"),
            False,
            "titles same, headings differ",
        ),
        (("Docs", "Docs"), ("Kiwi", "Kiwi soup"), True, "titles same, headings 0.50 alike"),
        (
            ("Red mug", "Blue chair"),
            ("ACME", "ACME"),
            False,
            "titles differ, headings same, but named in neither title",
        ),
        (
            ("Privacy policy of ACME", "ACME privacy notice"),
            ("Privacy policy", "Privacy policy"),
            True,
            "titles differ, headings same, and named in a title",
        ),
        (("Red", "Blue"), ("", ""), False, "titles differ"),
        (("", ""), ("Red", "Blue"), False, "headings differ"),
        (("Red", "Blue"), (LIST, LIST[:-2]), False, "titles differ, headings 0.90 alike"),
        ((LIST, LIST[:-2]), ("Kiwi", ""), True, "titles 0.90 alike"),
        (("a b c", "a b"), ("", ""), False, "titles 0.67 alike"),
        (("a b c", "a b"), (LIST, LIST[:-2]), True, "titles 0.67 alike, headings 0.90 alike"),
    ],
)
def test_names(
    titles: tuple[str, str], headings: tuple[str, str], confirmed: bool, said: str
) -> None:
    answer = compare(make_pair(0.95, 0.9, title=titles, heading=headings))
    assert answer.confirmed is confirmed
    assert answer.tests[1:] == (said,)


def test_one_title_and_other_headings_on_the_same_page() -> None:
    """A heading that changes with each request: the whole texts are practically the same."""
    names = {"title": ("Docs", "Docs"), "heading": ("Hello Anna", "Hello Emil")}
    assert compare(make_pair(0.95, 1.0, **names)).confirmed
    assert not compare(make_pair(0.95, 0.9, **names)).confirmed


def test_an_article_on_two_hosts_keeps_its_heading() -> None:
    """The titles end in the names of the sites."""
    names = {"title": ("Fire - Daily", "Fire - Weekly"), "heading": ("Fire", "Fire")}
    urls = ("http://daily.example/1", "http://weekly.example/2")
    assert compare(make_pair(0.95, 0.3, url=urls, **names)).confirmed
    assert not compare(make_pair(0.95, 0.3, **names)).confirmed
    only_titles = {"title": ("Docs", "Docs"), "heading": ("Fire", "Water")}
    assert not compare(make_pair(0.95, 0.9, url=urls, **only_titles)).confirmed


def test_a_canonical_address_outweighs_one_name_and_not_both() -> None:
    address = ("http://site.example/kiwi", "http://site.example/kiwi")
    heading = ("Logo", "Logo")
    pair = make_pair(0.95, 0.9, canonical=address, title=("Red", "Blue"), heading=heading)
    answer = compare(pair)
    assert answer.confirmed
    assert answer.tests[1:] == ("titles differ, headings same, same canonical address",)
    other = replace(pair[1], canonical="http://site.example/other")
    assert not compare((pair[0], other)).confirmed
    both = make_pair(0.95, 0.9, canonical=address, title=("Red", "Blue"), heading=("One", "Two"))
    assert not compare(both).confirmed
    # Texts come first.
    assert not compare(make_pair(0.5, 0.5, canonical=address)).confirmed


@pytest.mark.parametrize("home", ["http://site.example", "http://site.example/"])
def test_a_home_page_as_everybodys_canonical_address_says_nothing(home: str) -> None:
    pair = make_pair(
        0.95, 0.9, canonical=(home, home), title=("Red", "Blue"), heading=("Logo", "Logo")
    )
    assert not compare(pair).confirmed


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("27.4. Hot Standby", "26.4. Hot Standby"),
        ("3.2 Apples", "Apples"),
        ("A.4. Apples", "b.11. Apples"),
        ("Apples 3.11.2 documentation", "Apples 3.9 documentation"),
        ("  7. Apples", "apples"),
    ],
)
def test_numbering_and_versions_do_not_count(first: str, second: str) -> None:
    assert compare(make_pair(0.95, 0.9, title=(first, second))).tests[1] == "titles same"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("2024 Report", "2023 Report"),  # a year is no numbering
        ("Part 1", "Part 2"),
        ("Python 3", "Python 2"),  # nor is a whole number a version
        ("Apples I", "Apples II"),
        ("1984. A novel", "2001. A novel"),
        ("Chapter 3. Apples", "Chapter 12. Apples"),
        ("A: results", "B: results"),
        ("A. Smith", "B. Smith"),
        ("Rates of 12.05.2024", "Rates of 19.05.2024"),
        ("Mug 9.99 EUR", "Mug 12.50 EUR"),
        ("Mug $9.99", "Mug $12.50"),
        ("3.11", "3.12"),  # nothing else is left
    ],
)
def test_other_numbers_do_count(first: str, second: str) -> None:
    answer = compare(make_pair(0.95, 0.9, title=(first, second)))
    assert answer.tests[1] == "titles differ"
    assert not answer.confirmed


def test_versions_are_what_a_heading_is_about() -> None:
    names = {"title": ("News", "News"), "heading": ("New in 4.1", "New in 4.2")}
    assert not compare(make_pair(0.95, 0.9, **names)).confirmed


def test_candidates_are_answered_in_their_order() -> None:
    page, alike = make_pair(0.95, 0.9)
    other = replace(alike, sketch=make_pair(0.0, 0.0)[0].sketch)
    answers = confirm(page, [other, alike, replace(alike, title="Kiwi"), other], LEAST)
    assert [answer.confirmed for answer in answers][1:3] == [True, True]
    assert [each.confirmed for each in confirm(alike, [other, page, other], LEAST)] == [
        False,
        True,
        False,
    ]
    assert confirm(page, [], LEAST) == []


def test_documents_without_text_are_never_confirmed() -> None:
    nothing = Page(bytes(2 * TEXT_SKETCH_BYTES), words=0, whole_words=0)
    assert not compare((nothing, nothing)).confirmed
    assert compare((nothing, nothing)).similarity == 0.0


HOSTILE = [
    "a\nb\r\n\u2028c\u0085",
    "\0\x1b[31m\x7f" * 9,
    "word " * 20_000,
    "9." * 20_000,
    " " * 20_000,
    "\u0301" * 999,
    "\u202eevil\u202c",
    "{}%s{0}",
]
names = st.sampled_from(HOSTILE) | texts
similarities = st.sampled_from([0.0, 0.3, 0.5, 0.76, 0.9, 1.0])
words = st.sampled_from([0, 1, 99, 100, 299, 300, 1_000])


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Page, Page]:
    """Draw two pages, alike or not, with any names."""
    two = {
        name: draw(st.tuples(drawn, drawn))
        for name, drawn in (
            ("title", names),
            ("heading", names),
            ("words", words),
            ("whole_words", words),
        )
    }
    address = draw(st.sampled_from(["", "http://site.example/"]))
    return make_pair(draw(similarities), draw(similarities), canonical=(address, address), **two)


NAMED = {"title": (HOSTILE[0], HOSTILE[0]), "heading": (HOSTILE[2], HOSTILE[3])}


@given(pairs())
@example(make_pair(0.9, 0.9, **NAMED))
@example(make_pair(0.9, 0.9, title=(HOSTILE[1], HOSTILE[4]), heading=(HOSTILE[3], HOSTILE[3])))
def test_whatever_two_pages_say_the_answer_is_the_same_both_ways(pair: tuple[Page, Page]) -> None:
    """`compare` checks that, and that every test is one line; no name gets into these."""
    answer = compare(pair)
    assert sum(map(len, answer.tests)) < 250
    assert "".join(answer.tests).isprintable()
    # Itself is confirmed, whatever it is called, where it has enough text.
    assert compare((pair[0], pair[0])).confirmed
