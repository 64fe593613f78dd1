"""The rule that confirms a candidate: each branch with a case, and what it says of it."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import structs

from scrapy_simhash.judging.comparison import Answer, compare, compare_many
from scrapy_simhash.judging.documents import Document
from scrapy_simhash.judging.rule import Rule
from scrapy_simhash.judging.texts import ARTICLES
from scrapy_simhash.pages.sketch import sketch_text
from tests.helpers.sketches import make_sketches
from tests.helpers.strategies import texts

LEAST = 0.8
NO_TEXT = np.array([], np.uint64)
LONG = 1_000
LIST = "k l m n o p q r s t"
HOSTS = ("http://daily.example/1", "http://weekly.example/2")


words = st.sampled_from([0, 1, 20, 99, 100, 299, 300, 1_000, 1_500, 5_000])
whole_words = st.sampled_from([0, 100, 700, 1_000, 1_050, 5_000, 20_000])


def make_page(sketch: bytes, **fields: Any) -> Document:
    """Make a page of so much text, unless the fields say otherwise."""
    facts = {"words": LONG, "whole_words": 2 * LONG, "url": "http://site.example/page", **fields}
    return Document(b"-", (0,), b"", sketch=sketch, **facts)


def make_pair(
    main: float, whole: float, **fields: tuple[object, object]
) -> tuple[Document, Document]:
    """Make two pages whose texts are so much alike; of each field, a value for either page."""
    first, second = (
        make_page(sketch, **{name: values[number] for name, values in fields.items()})
        for number, sketch in enumerate(make_sketches(main, whole))
    )
    return first, second


def answer_to(pair: tuple[Document, Document], least: float = LEAST) -> Answer:
    """Compare two pages both ways round; the answer must be the same."""
    rule = Rule(0, least)
    answer = compare(*pair, rule)
    assert compare(pair[1], pair[0], rule) == answer
    assert all(test and len(test.splitlines()) == 1 for test in answer.tests)
    return answer


@pytest.mark.parametrize(
    ("main", "whole", "words", "whole_words", "confirmed", "said"),
    [
        (0.7, 0.7, 1_000, 2_000, False, "neither reaches 0.8"),
        (0.0, 0.0, 1_000, 2_000, False, "neither reaches 0.8"),
        (0.95, 0.9, 1_000, 2_000, True, "main text is alike, whole text agrees"),
        (0.95, 0.8, 10, 2_000, True, "main text is alike, whole text agrees"),
        (0.95, 0.3, 1_200, 9_000, True, "with 1,200 words, in another template"),
        (0.95, 0.3, 70, 2_000, False, "but has only 70 words, 4% of a page"),
        (0.95, 0.3, 20, 20, False, "but has only 20 words, 100% of a page"),
        (0.95, 0.3, 0, 0, False, "but has only 0 words, 0% of a page"),
        (0.5, 0.9, 1_000, 2_000, True, "whole text is alike, main text agrees"),
        (0.3, 1.0, 1_000, 2_000, True, "main text was found in two places of it"),
        (0.3, 0.9, 1_000, 2_000, True, "main text was found in two places of it"),
        (0.3, 0.9, 100, 2_000, False, "whole text is alike, but main text is another"),
    ],
)
def test_texts(
    main: float, whole: float, words: int, whole_words: int, confirmed: bool, said: str
) -> None:
    counted = {"words": (words, words), "whole_words": (whole_words, whole_words)}
    answer = answer_to(make_pair(main, whole, url=HOSTS, **counted))
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
        return answer_to(make_pair(0.95, 0.3, url=HOSTS, **counted)).confirmed

    assert confirmed(enough, page)
    assert not confirmed(enough - 1, page)
    if share:
        assert not confirmed(enough, page + 1)


def test_words_are_those_of_the_shorter_main_and_the_longer_whole_text() -> None:
    counted = {"url": HOSTS, "words": (100, 299)}
    assert not answer_to(make_pair(0.95, 0.3, whole_words=(400, 900), **counted)).confirmed
    assert answer_to(make_pair(0.95, 0.3, whole_words=(400, 500), **counted)).confirmed


@pytest.mark.parametrize(
    ("words", "alike", "confirmed"),
    [(499, 0.87, False), (500, 0.87, True), (499, 0.93, True), (500, 0.75, False)],
)
def test_short_texts_must_be_more_alike(words: int, alike: float, confirmed: bool) -> None:
    """The few words that differ may be the subject."""
    answer = answer_to(make_pair(alike, alike, words=(words, 2_000), whole_words=(2_000, 2_000)))
    assert answer.confirmed is confirmed
    if alike == 0.87 and not confirmed:
        assert "neither reaches 0.9, and one has only 499 words" in answer.tests[0]


@pytest.mark.parametrize(
    ("words", "whole_words", "confirmed"),
    [(8_000, 10_000, True), (7_999, 10_000, False), (600, 700, True), (599, 700, False)],
)
def test_a_page_that_is_its_main_text(words: int, whole_words: int, confirmed: bool) -> None:
    """Of the other one the reader found only a part."""
    pair = make_pair(0.0, 0.91, words=(50, words), whole_words=(whole_words, whole_words))
    answer = answer_to(pair)
    assert answer.confirmed is confirmed
    assert ("the main text of one is all of it" in answer.tests[0]) is confirmed


@pytest.mark.parametrize(
    ("shared", "words", "others", "confirmed"),
    [
        (1_000, 1_002, 10_002, True),  # all of it
        (900, 1_002, 10_002, True),
        (400, 1_002, 10_002, False),
        (0, 1_002, 10_002, False),
        (48, 50, 302, True),
        (47, 49, 302, False),  # a notice, as many pages have it
        (998, 1_000, 16_002, False),  # 16 times as long, and a word more
    ],
)
def test_a_main_text_that_is_part_of_the_others(
    shared: int, words: int, others: int, confirmed: bool
) -> None:
    """One page, whose main text was found in two places."""
    alike = shared / (words - 2 + others - 2 - shared)
    first, second = (
        make_page(sketch, words=count, whole_words=25_000)
        for sketch, count in zip(make_sketches(alike, 0.9), (words, others), strict=True)
    )
    answer = answer_to((first, second))
    assert answer.confirmed is confirmed
    said = "main text of one is part of the other's" if confirmed else "main text is another"
    assert said in answer.tests[0]


@pytest.mark.parametrize(
    ("titles", "headings", "confirmed", "said"),
    [
        (("", ""), ("", ""), True, "no title or heading in common to compare"),
        (("Kiwi", ""), ("", "Apples"), True, "no title or heading in common to compare"),
        (("!!", "Kiwi"), ("", ""), True, "no title or heading in common to compare"),
        (("!!", "!!"), ("", "??"), True, "no title or heading in common to compare"),
        (("!!", "??"), ("", ""), False, "titles differ"),
        (("", ""), ("\ufffd\ufffd", "\ufffd"), False, "headings differ"),
        (
            ("\ue001", "\ue002"),
            ("ACME", "ACME"),
            False,
            "titles differ, headings same, but named in neither title",
        ),
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
    answer = answer_to(make_pair(0.95, 0.9, title=titles, heading=headings))
    assert answer.confirmed is confirmed
    assert answer.tests[1:] == (said,)


def answer_at(main: float, whole: float, **fields: tuple[object, object]) -> Answer:
    """Compare two pages whose texts are exactly so much alike; `make_pair` is a little off."""
    pair = make_pair(0.0, 0.0, **fields)
    rule = Rule(0, LEAST)
    answer = compare(*pair, rule, alike=(main, whole))
    assert compare(pair[1], pair[0], rule, alike=(main, whole)) == answer
    return answer


@pytest.mark.parametrize(
    ("words", "confirmed"),
    [((22, 22), True), ((20, 22), False), ((22, 20), False), ((9, 9), False), ((300, 8), False)],
)
def test_main_texts_that_must_be_on_both_pages(words: tuple[int, int], confirmed: bool) -> None:
    """Alike by 0.98, of 1,000 words each page has ten alone; a list in a large template may, too.

    At least half of either main text must stand on the other page.
    """
    answer = answer_at(0.0, 0.98, words=words, whole_words=(1_000, 1_000))
    assert answer.confirmed is confirmed
    said = "main text was found in two places of it" if confirmed else "but main text is another"
    assert answer.tests[0].endswith(said)


def test_main_texts_that_all_pages_of_a_list_share() -> None:
    """On one host, of two pages with one main text one has little alone: a print view, say."""
    shared = {"words": (200, 200), "whole_words": (700, 700)}
    answer = answer_at(1.0, 0.4, **shared)
    assert not answer.confirmed
    assert answer.tests[0].endswith("main text is alike, but either page has much beside it")
    print_view = {"words": (200, 200), "whole_words": (700, 210)}
    for whole in (0.3, 0.25):
        assert answer_at(1.0, whole, **print_view).confirmed
    # Two hosts have templates of their own.
    assert answer_at(1.0, 0.4, url=HOSTS, **shared).confirmed


def test_a_longer_page_may_have_its_main_text_alone() -> None:
    assert answer_at(0.0, 0.9, words=(200, 300), whole_words=(1_000, 1_100)).confirmed
    assert not answer_at(0.0, 0.9, words=(300, 200), whole_words=(1_000, 1_100)).confirmed


@pytest.mark.parametrize(
    ("whole", "words", "confirmed"),
    [
        (1.0, (1_000, 1_000), True),
        (0.96, (1_000, 1_040), True),
        (0.96, (1_040, 1_000), True),
        (0.95, (1_000, 1_050), True),
        (0.94, (1_000, 1_060), False),  # so much more may be what the page is about
        (0.95, (1_000, 1_000), False),  # either page has 26 words alone
        (0.965, (1_000, 1_000), True),  # either has 18 alone
    ],
)
def test_one_page_with_the_heading_of_a_banner(
    whole: float, words: tuple[int, int], confirmed: bool
) -> None:
    """One page has all that the other has, and little more; siblings each have something alone."""
    names = {"title": ("Docs", "Docs"), "heading": ("Hello Anna", "Hello Emil")}
    answer = answer_at(0.95, whole, whole_words=words, **names)
    assert answer.confirmed is confirmed
    more = ", but one page has all that the other has" if confirmed else ""
    assert answer.tests[1] == f"titles same, headings differ{more}"
    neither = {"title": ("Red", "Blue"), "heading": ("Hello Anna", "Hello Emil")}
    assert not answer_at(0.95, whole, whole_words=words, **neither).confirmed


@pytest.mark.parametrize(
    ("words", "main", "confirmed"),
    [
        (1_500, 0.9, True),
        (1_499, 0.99, False),
        (4_999, 0.89, False),
        (5_000, 0.89, True),
        (5_000, 0.85, True),
        (5_000, 0.84, False),
    ],
)
def test_a_long_text_names_itself(words: int, main: float, confirmed: bool) -> None:
    """One word fewer, or a little less alike, and names are asked."""
    names = {"title": ("Privacy", "Cookies"), "heading": ("Privacy", "Cookies")}
    answer = answer_at(main, main, words=(words, 6_000), whole_words=(9_000, 9_000), **names)
    assert answer.confirmed is confirmed
    more = f", but a main text of {words:,} words, {main:.2f} alike, names itself"
    assert answer.tests[1] == f"titles differ, headings differ{more if confirmed else ''}"


def test_an_article_on_two_hosts_keeps_its_heading() -> None:
    """The titles end in the names of the sites."""
    names = {"title": ("Fire - Daily", "Fire - Weekly"), "heading": ("Fire", "Fire")}
    assert answer_to(make_pair(0.95, 0.3, url=HOSTS, **names)).confirmed
    assert not answer_to(make_pair(0.95, 0.3, **names)).confirmed
    only_titles = {"title": ("Docs", "Docs"), "heading": ("Fire", "Water")}
    assert not answer_to(make_pair(0.95, 0.9, url=HOSTS, **only_titles)).confirmed


def test_the_heading_of_one_page_is_the_title_of_the_other() -> None:
    """A headline that one site shortened, under a banner; titles that end in names of sites."""
    headline = "Fire in the old harbour warehouse"
    titles = (f"{headline} - Daily", f"Weekly | News | {headline} over")
    said = "titles differ, headings differ, but the heading of one is the other's title"
    for headings in (("Menu", f"{headline} over"), (headline, "All news")):
        answer = answer_to(make_pair(0.95, 0.9, title=titles, heading=headings))
        assert answer.confirmed
        assert answer.tests[1] == said
    refused = [
        (titles, ("Menu", "Flood in the old harbour warehouse")),
        (titles, ("Menu", "Sections")),
        # Few words may name a part of the site.
        (("Local news - Daily", "Daily | Local news"), ("Fire", "Local news")),
        (("Red mug - ACME", "Blue chair - ACME"), ("Red mug", "Blue chair")),
    ]
    for names, headings in refused:
        assert not answer_to(make_pair(0.95, 0.9, title=names, heading=headings)).confirmed


def test_a_canonical_address_outweighs_one_name_and_not_both() -> None:
    address = ("http://site.example/kiwi", "http://site.example/kiwi")
    heading = ("Logo", "Logo")
    pair = make_pair(0.95, 0.9, canonical=address, title=("Red", "Blue"), heading=heading)
    answer = answer_to(pair)
    assert answer.confirmed
    assert answer.tests[1:] == ("titles differ, headings same, same canonical address",)
    other = structs.replace(pair[1], canonical="http://site.example/other")
    assert not answer_to((pair[0], other)).confirmed
    both = make_pair(0.95, 0.9, canonical=address, title=("Red", "Blue"), heading=("One", "Two"))
    assert not answer_to(both).confirmed
    # Texts come first.
    assert not answer_to(make_pair(0.5, 0.5, canonical=address)).confirmed


@pytest.mark.parametrize("home", ["http://site.example", "http://site.example/"])
def test_a_home_page_as_everybodys_canonical_address_says_nothing(home: str) -> None:
    pair = make_pair(
        0.95, 0.9, canonical=(home, home), title=("Red", "Blue"), heading=("Logo", "Logo")
    )
    assert not answer_to(pair).confirmed


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
    assert answer_to(make_pair(0.95, 0.9, title=(first, second))).tests[1] == "titles same"


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
    answer = answer_to(make_pair(0.95, 0.9, title=(first, second)))
    assert answer.tests[1] == "titles differ"
    assert not answer.confirmed


def test_versions_are_what_a_heading_is_about() -> None:
    names = {"title": ("News", "News"), "heading": ("New in 4.1", "New in 4.2")}
    assert not answer_to(make_pair(0.95, 0.9, **names)).confirmed


@given(
    st.sampled_from([0.0, 0.3, 0.5, 0.76, 0.82, 0.87, 0.92, 0.97, 1.0]),
    st.sampled_from([0.0, 0.3, 0.5, 0.76, 0.82, 0.87, 0.92, 0.97, 1.0]),
    st.tuples(words, words),
    st.tuples(whole_words, whole_words),
    st.sampled_from([HOSTS, (HOSTS[0], HOSTS[0])]),
    st.sampled_from([0.8, 0.85, 0.9, 0.95, 1.0]),
)
def test_the_threshold_is_one_on_the_score(
    main: float,
    whole: float,
    words: tuple[int, int],
    whole_words: tuple[int, int],
    urls: tuple[str, str],
    least: float,
) -> None:
    """What 0.8 confirms, a higher `SIMHASH_CONFIRM` confirms exactly up to its similarity."""
    pair = make_pair(0.0, 0.0, words=words, whole_words=whole_words, url=urls)
    confirmed = compare(*pair, Rule(0, LEAST), alike=(main, whole))
    stricter = compare(*pair, Rule(0, least), alike=(main, whole))
    assert confirmed.similarity == max(main, whole)
    if confirmed.confirmed:
        assert stricter.confirmed == (confirmed.similarity >= least)
    else:
        assert not stricter.confirmed


def test_candidates_are_answered_in_their_order() -> None:
    page, alike = make_pair(0.95, 0.9)
    others = [
        structs.replace(alike, sketch=make_pair(0.0, 0.0)[0].sketch),
        alike,
        structs.replace(alike, sketch=b""),
        structs.replace(alike, stub=True),
        structs.replace(alike, title="Kiwi"),
        structs.replace(alike, scope="another"),
    ]
    rule, distances = Rule(3, LEAST), [0, 1, 2, 3, 4, 3]
    answers = compare_many(page, others, rule, distances)
    assert answers == [
        compare(page, other, rule, distance=distance)
        for other, distance in zip(others, distances, strict=True)
    ]
    assert [answer.duplicate for answer in answers] == [False, True, True, False, False, False]
    assert compare_many(page, [], rule, []) == []


def test_documents_without_text_are_never_confirmed() -> None:
    nothing = make_page(sketch_text(NO_TEXT, NO_TEXT), words=0, whole_words=0)
    assert not answer_to((nothing, nothing)).confirmed
    assert answer_to((nothing, nothing)).similarity == 0.0


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


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Document, Document]:
    """Draw two pages, alike or not, with any names."""
    two = {
        name: draw(st.tuples(drawn, drawn))
        for name, drawn in (
            ("title", names),
            ("heading", names),
            ("words", words),
            ("whole_words", whole_words),
        )
    }
    address = draw(st.sampled_from(["", "http://site.example/"]))
    return make_pair(draw(similarities), draw(similarities), canonical=(address, address), **two)


NAMED = {"title": (HOSTILE[0], HOSTILE[0]), "heading": (HOSTILE[2], HOSTILE[3])}


@given(pairs())
@example(make_pair(0.9, 0.9, **NAMED))
@example(make_pair(0.9, 0.9, title=(HOSTILE[1], HOSTILE[4]), heading=(HOSTILE[3], HOSTILE[3])))
def test_whatever_two_pages_say_the_answer_is_the_same_both_ways(
    pair: tuple[Document, Document],
) -> None:
    """`answer_to` checks that, and that every test is one line; no name gets into these."""
    answer = answer_to(pair)
    assert sum(map(len, answer.tests)) < 250
    assert "".join(answer.tests).isprintable()
    # Itself is confirmed, whatever it is called, where it has enough text.
    assert answer_to((pair[0], pair[0])).confirmed
