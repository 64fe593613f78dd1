"""The rule that confirms a candidate: each branch with a case, and what it says of it."""

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import structs

from scrapy_simhash.judging.comparison import (
    NO_CONTEXT,
    Answer,
    Context,
    compare,
)
from scrapy_simhash.judging.content import Content
from scrapy_simhash.judging.documents import Document
from scrapy_simhash.judging.rule import CONFIRM, Rule
from scrapy_simhash.judging.sites import LEAST_KNOWN, Site
from scrapy_simhash.pages.sketch import sketch_text
from tests.helpers.sketches import make_sketches
from tests.helpers.strategies import texts

NO_TEXT = np.array([], np.uint64)
URLS = ("http://site.example/?id=1", "http://site.example/?id=2")
HOSTS = ("http://daily.example/1", "http://weekly.example/2")
FILES = ("http://site.example/kiwi.html", "http://site.example/apple.html")
SITE = Site(
    dict.fromkeys(range(LEAST_KNOWN), Document(b"-", (0,), b"", sketch=make_sketches(0, 0)[0]))
)
KNOWN = Context((SITE, SITE))

# Titles and headings of two pages, by how they are related.
SAME = {"title": ("Kiwi", "Kiwi"), "heading": ("Fruit", "Fruit")}
SILENT = {"title": ("", "Kiwi"), "heading": ("Fruit", "")}
MORE = {"title": ("Kiwi", "Kiwi soup"), "heading": ("", "")}
LITTLE_MORE = {"title": ("C", "C++"), "heading": ("", "")}
ONE_HEADING = {"title": ("Kiwi", "Apple"), "heading": ("Kiwi", "Kiwi")}
ONE_TITLE = {"title": ("Fruit", "Fruit"), "heading": ("Kiwi", "Apple")}
DIFFER = {"title": ("Kiwi", "Apple"), "heading": ("Kiwi", "Apple")}
TRANSLATED = {"title": ("Kiwi", "Киви"), "heading": ("", "")}


def make_page(sketch: bytes, **fields: Any) -> Document:
    """Make a page of much text, unless the fields say otherwise."""
    facts = {"words": 1_000, "whole_words": 2_000, "url": "http://site.example/page", **fields}
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


def answer_to(pair: tuple[Document, Document], least: float = CONFIRM) -> Answer:
    """Compare two pages both ways round; the answer must be the same."""
    rule = Rule(0, least)
    answer = compare(*pair, rule)
    assert compare(pair[1], pair[0], rule) == answer
    assert all(test and len(test.splitlines()) == 1 for test in answer.tests)
    return answer


def count(  # noqa: PLR0913 - one figure of the rule each
    *,
    whole: float = 0.5,
    agreed: float = 0.5,
    within: float = 1.0,
    triples: float = 2_000,
    main: float = 0.0,
    share_of_main: float = 0.0,
    main_alone: float = 0.0,
    shared: float = 100.0,
) -> Content:
    """Make what was counted of two texts, by what the rule reads from it."""
    both, bins = round(1_000 * whole), 1_000
    return Content(
        both,
        (bins - both) // 2,
        bins - both - (bins - both) // 2,
        template=0,
        shared=shared,
        mine=shared / agreed - shared,
        theirs=0.0,
        both_own=0,
        within=shared / within - shared,
        main_both=round(bins * share_of_main),
        whole=whole,
        main_alike=main,
        main_alone=main_alone,
        share_of_main=share_of_main,
        agreed=agreed,
        agreed_within=within,
        triples=triples,
    )


def judge(
    names: dict[str, tuple[str, str]],
    content: Content,
    urls: tuple[str, str] = URLS,
    *,
    known: bool = True,
    least: float = CONFIRM,
    one_text: bool = False,
) -> Answer:
    """Answer to two pages of such names and contents; `one_text`: their main texts are equal."""
    first, second = make_pair(0.0, 0.0, url=urls, **names)
    second = structs.replace(second, text_digest=b"" if one_text else b"another")
    context = KNOWN if known else NO_CONTEXT
    return compare(first, second, Rule(0, least), context=context, content=content)


BOTH_STATES = pytest.mark.parametrize("known", [True, False])


@BOTH_STATES
@pytest.mark.parametrize(
    ("names", "counted", "confirmed"),
    [
        (SAME, {"whole": 0.9, "triples": 32}, True),
        (SAME, {"whole": 0.899}, False),
        (SAME, {"whole": 0.9, "triples": 31}, False),
        (SAME, {"whole": 0.9, "triples": 31, "within": 0.901}, True),
        (SILENT, {"whole": 0.9, "agreed": 0.901, "triples": 100}, True),
        (SILENT, {"whole": 0.9, "agreed": 0.499, "triples": 100}, False),
        (SILENT, {"whole": 0.9, "agreed": 0.901, "triples": 31}, False),
        *((names, {"whole": 1.0}, False) for names in (MORE, LITTLE_MORE, ONE_HEADING, DIFFER)),
    ],
)
def test_whole_texts_that_are_alike(
    names: Any, counted: dict[str, float], *, known: bool, confirmed: bool
) -> None:
    """Little of it is content."""
    answer = judge(names, count(**{"agreed": 0.3, "within": 0.5} | counted), HOSTS, known=known)
    assert answer.confirmed is confirmed
    assert (answer.tests[0] == "whole texts are alike") is confirmed
    assert answer.similarity == counted["whole"]


@BOTH_STATES
@pytest.mark.parametrize(
    ("names", "counted", "confirmed"),
    [
        (SAME, {"agreed": 0.501, "within": 0.901, "triples": 31}, True),
        (SAME, {"agreed": 0.499, "within": 1.0}, False),
        (SAME, {"agreed": 0.501, "within": 0.899, "triples": 31}, False),
        # Eight bins of edits, or less than a third of the content; in little text there are none.
        (SAME, {"within": 100 / 119.0, "triples": 32}, True),
        (SAME, {"within": 100 / 119.2, "triples": 32}, False),
        (SAME, {"within": 20 / 28.2, "shared": 20.0}, True),
        (SAME, {"within": 20 / 28.3, "shared": 20.0}, False),
        (SILENT, {"agreed": 0.901, "within": 0.901, "triples": 32}, True),
        (SILENT, {"agreed": 0.901, "within": 0.901, "triples": 31}, False),
        (SILENT, {"agreed": 0.901, "within": 0.899}, False),
        (SILENT, {"agreed": 0.499}, False),
        (ONE_HEADING, {"agreed": 0.751, "within": 0.901}, True),
        (ONE_HEADING, {"agreed": 0.749}, False),
        (ONE_HEADING, {"agreed": 0.751, "within": 0.899}, False),
        (ONE_TITLE, {"agreed": 0.751, "within": 0.951}, True),
        (ONE_TITLE, {"agreed": 0.749, "within": 0.951}, False),
        (MORE, {"agreed": 0.901, "within": 0.901, "triples": 100}, True),
        (MORE, {"agreed": 0.901, "within": 0.901, "triples": 99}, False),
        (MORE, {"agreed": 0.899}, False),
        (LITTLE_MORE, {"agreed": 0.901, "within": 0.901}, True),
        (LITTLE_MORE, {"agreed": 0.899}, False),
    ],
)
def test_content_that_agrees(
    names: Any, counted: dict[str, float], *, known: bool, confirmed: bool
) -> None:
    """The less the names tell, the more is asked."""
    answer = judge(names, count(**{"agreed": 0.6} | counted), HOSTS, known=known)
    assert answer.confirmed is confirmed
    assert answer.tests[0] == ("content agrees" if confirmed else "content differs")


@BOTH_STATES
@pytest.mark.parametrize(
    ("names", "counted", "confirmed"),
    [
        # An edit is another page.
        (SAME, {"agreed": 0.901, "within": 100 / 118}, False),
        (SAME, {"agreed": 0.899, "within": 0.901}, True),
        # So is one of those that have no names.
        (SILENT, {"agreed": 0.949, "triples": 999}, False),
        (SILENT, {"agreed": 1.0}, True),
        (SILENT, {"agreed": 0.949, "whole": 0.9, "triples": 999}, False),
        # Two entries under one heading, each with words of its own before a long notice.
        (SAME, {"agreed": 0.849}, False),
        (SAME, {"agreed": 0.851}, True),
        # The template of the site makes out most of it.
        (SAME, {"agreed": 0.749, "whole": 0.95, "within": 0.899}, False),
    ],
)
def test_content_at_two_addresses_of_one_host(
    names: Any, counted: dict[str, float], *, known: bool, confirmed: bool
) -> None:
    answer = judge(names, count(**counted), known=known)
    assert answer.confirmed is confirmed
    if not confirmed and counted["agreed"] > 0.7 and names is SAME:
        # At one address, fetched at two times, as at those of two hosts.
        one = (URLS[0], f"{URLS[0]}#fruit")
        assert judge(names, count(**counted), one).confirmed
        assert judge(names, count(**counted), HOSTS).confirmed


NEIGHBOURS = [
    ("http://site.example/tours?date=1", "http://site.example/tours?date=2"),
    ("http://site.example/tours", "http://site.example/tours?page=2"),
    ("http://site.example/tours/1/", "http://site.example/tours/2/"),
    ("http://site.example/tours/1", "http://site.example/tours/2"),
    ("http://site.example/tours/1/", "http://site.example/tours/1/page-2/"),
]


@BOTH_STATES
@pytest.mark.parametrize("urls", NEIGHBOURS)
def test_neighbours_of_which_each_says_something(urls: tuple[str, str], *, known: bool) -> None:
    """The reviews on page 2, the date of a tour: behind or before a text that both have."""
    counted = count(whole=0.96, agreed=0.96, main=1.0, share_of_main=0.9)
    for mine, theirs, confirmed in ((2.0, 2.0, True), (2.1, 2.1, False), (2.1, 0.0, True)):
        own = counted._replace(mine=mine, theirs=theirs)
        assert judge(SAME, own, urls, known=known).confirmed is confirmed
        assert judge(SAME, own, HOSTS, known=known).confirmed
    # Beside one main text, less may be the frame of a print view.
    for own_bins, confirmed in ((10, True), (11, False)):
        own = counted._replace(mine=99.0, theirs=99.0, both_own=own_bins)
        assert judge(SAME, own, urls, known=known, one_text=True).confirmed is confirmed


@pytest.mark.parametrize("urls", NEIGHBOURS)
def test_neighbours_whose_names_differ_in_a_word_of_the_site(urls: tuple[str, str]) -> None:
    """Half of the pages have "Forte" in their names, so it tells nothing of others."""
    names = [f"{name}{more}" for name in ("Kiwi", "Lime", "Plum") for more in ("", " Forte")]
    sketch = make_sketches(0, 0)[0]
    site = Site(
        {
            number: Document(b"-", (0,), b"", sketch=sketch, title=name, heading=name)
            for number, name in enumerate(names)
        }
    )
    two = ("Pear", "Pear Forte")
    content = count(whole=0.99, agreed=0.99)
    for title, heading, confirmed in ((two, two, False), (two, ("Pear", "Pear"), True)):
        pages = make_pair(0.0, 0.0, url=urls, title=title, heading=heading)
        context = Context((site, site))
        answer = compare(*pages, Rule(0, CONFIRM), context=context, content=content)
        assert answer.confirmed is confirmed


@pytest.mark.parametrize("file", ["page", "another"])
def test_pages_without_names_on_a_site_that_is_known(file: str) -> None:
    """They may be of a kind that has none, such as lists of members, in one folder or in two."""
    urls = (f"http://site.example/here/{file}", "http://site.example/there/page")
    if file == "another":
        urls = (urls[0], "http://site.example/here/page")
    counted = count(whole=0.98, agreed=0.98, within=1.0, triples=999)
    assert judge(SILENT, counted, urls, known=False).confirmed
    assert not judge(SILENT, counted, urls).confirmed
    assert judge(SILENT, counted, urls, one_text=True).confirmed
    # Two lists with one introduction.
    counted = count(whole=0.9, agreed=0.94, within=1.0, triples=999)
    assert not judge(SILENT, counted, urls, one_text=True).confirmed


@pytest.mark.parametrize(
    ("names", "main", "share", "confirmed"),
    [
        (SAME, 0.9, 0.3, True),
        (SAME, 0.899, 0.3, False),
        (SAME, 0.9, 0.299, False),
        (SILENT, 1.0, 0.5, False),
        (ONE_HEADING, 1.0, 0.5, False),
    ],
)
def test_main_texts_that_are_alike(
    names: Any, main: float, share: float, *, confirmed: bool
) -> None:
    answer = judge(names, count(agreed=0.3, main=main, share_of_main=share))
    assert answer.confirmed is confirmed
    assert (answer.tests[0] == "main texts are alike") is confirmed


@pytest.mark.parametrize(
    ("whole", "confirmed", "elsewhere"), [(0.7, True, True), (0.6, False, True), (0.4, False, True)]
)
def test_main_texts_that_all_pages_of_a_list_share(
    whole: float, *, confirmed: bool, elsewhere: bool
) -> None:
    """Until the site is known; on one host, a print view has little alone, two lists have much."""
    counted = count(whole=whole, agreed=0.3, main=1.0, share_of_main=0.3)
    assert judge(SAME, counted, known=False).confirmed is confirmed
    # Two hosts have templates of their own.
    assert judge(SAME, counted, HOSTS, known=False).confirmed is elsewhere
    assert judge(SAME, counted).confirmed


def test_main_texts_that_differ_until_the_site_is_known() -> None:
    """Whatever else agrees: what does may be the template, which only pages that are kept tell."""
    for names in (SAME, SILENT, DIFFER):
        answer = judge(names, count(whole=1.0, agreed=1.0, main_alone=0.51), known=False)
        assert (answer.confirmed, answer.tests[0]) == (False, "main texts differ")
    assert judge(SAME, count(whole=1.0, agreed=1.0, main_alone=0.5), known=False).confirmed
    assert judge(SAME, count(whole=1.0, agreed=1.0, main_alone=0.51)).confirmed


def test_a_title_that_may_be_the_sites() -> None:
    """Until that is known, pages with other headings must agree nearly wholly."""
    counted = count(agreed=0.9, within=0.949)
    assert judge(ONE_TITLE, counted).confirmed
    assert not judge(ONE_TITLE, counted, known=False).confirmed


@pytest.mark.parametrize(
    ("known", "urls", "counted", "confirmed"),
    [
        (True, URLS, {"triples": 1_000}, True),
        (True, HOSTS, {"triples": 1_000}, True),
        (True, URLS, {"triples": 999}, False),
        (True, URLS, {"agreed": 0.899}, False),
        (True, URLS, {"within": 0.949}, False),
        (True, FILES, {}, False),
        # A word of the name may be the site's, as long as that is unknown.
        (False, URLS, {"triples": 3_000, "agreed": 0.851, "within": 0.851}, True),
        (False, URLS, {"triples": 2_999}, False),
        (False, URLS, {"triples": 3_000, "agreed": 0.849}, False),
        (False, URLS, {"triples": 3_000, "within": 0.849}, False),
        (False, FILES, {"triples": 3_000}, False),
    ],
)
def test_a_title_that_is_translated(
    urls: tuple[str, str], counted: dict[str, float], *, known: bool, confirmed: bool
) -> None:
    """The other name tells nothing, and so long a text agrees nearly wholly."""
    counted = {"whole": 1.0, "agreed": 0.901, "within": 0.951, **counted}
    answer = judge(TRANSLATED, count(**counted), urls, known=known)
    assert answer.confirmed is confirmed
    said = "so long a content agrees whatever its names" if confirmed else "names differ"
    assert answer.tests[:2] == (said, "titles: differ; headings: silent")


@BOTH_STATES
def test_two_names_that_differ(*, known: bool) -> None:
    assert not judge(DIFFER, count(whole=1.0, agreed=1.0, triples=10_000), known=known).confirmed


@BOTH_STATES
@pytest.mark.parametrize(
    ("names", "counted", "confirmed"),
    [
        (SAME, {}, True),
        (SAME, {"whole": 0.899}, False),
        (SAME, {"agreed": 0.949}, False),
        (MORE, {"agreed": 1.0}, False),
        (LITTLE_MORE, {"agreed": 1.0}, False),
        (ONE_HEADING, {"agreed": 1.0}, False),
        ({**SAME, "title": LITTLE_MORE["title"]}, {"agreed": 1.0}, False),
    ],
)
def test_two_files_of_one_folder(
    names: Any, counted: dict[str, float], *, known: bool, confirmed: bool
) -> None:
    """They are two entries of a manual more often than two copies."""
    counted = {"whole": 0.9, "agreed": 0.951, "within": 0.951, **counted}
    answer = judge(names, count(**counted), FILES, known=known)
    assert answer.confirmed is confirmed
    said = f"files of one folder, whose texts are {'' if confirmed else 'not '}one"
    if names not in (MORE, LITTLE_MORE):  # "names of neighbours differ"
        assert answer.tests[0] == said


@pytest.mark.parametrize(
    ("agreed", "one_text", "confirmed"),
    [(0.901, True, True), (0.899, True, False), (1, False, False)],
)
def test_one_text_in_two_files_of_one_folder(
    agreed: float, *, one_text: bool, confirmed: bool
) -> None:
    """A login in a template whose advertisement changes; two entries differ in a line."""
    counted = count(agreed=agreed, within=0.5, main=1.0, share_of_main=1.0)
    assert judge(SAME, counted, FILES, one_text=one_text).confirmed is confirmed


@pytest.mark.parametrize(("least", "whole"), [(CONFIRM, 0.78), (0.95, 0.89)])
def test_texts_without_names_and_host(least: float, whole: float) -> None:
    """They have no template; a stricter similarity asks for more of them, too."""
    for alike, triples, names, urls, confirmed in (
        (whole + 0.001, 32, SILENT, ("", ""), True),
        (whole - 0.001, 32, SILENT, ("", ""), False),
        (whole + 0.001, 31, SILENT, ("", ""), False),
        (whole + 0.001, 32, SILENT, HOSTS, False),
        (whole + 0.001, 32, MORE, ("", ""), False),
    ):
        counted = count(whole=alike, agreed=alike, within=alike, triples=triples)
        answer = judge(names, counted, urls, known=False, least=least)
        assert answer.confirmed is confirmed
        assert (answer.tests[0] == "plain texts are alike") is confirmed


@pytest.mark.parametrize(
    "urls",
    [
        HOSTS,
        URLS,
        (FILES[0], FILES[0]),
        (FILES[0], "http://site.example/fruit/apple.html"),
        (FILES[0], "http://site.example/"),
        (FILES[0], f"{FILES[1]}?id=1"),
        (FILES[0], ""),
        ("", ""),
        ("kiwi.html", "apple.html"),
        ("http://[site/kiwi", "http://[site/apple"),
    ],
)
def test_what_is_no_file_of_one_folder(urls: tuple[str, str]) -> None:
    assert judge(SAME, count(agreed=0.86), urls).tests[0] == "content agrees"


numbers = st.sampled_from([0.0, 0.01, 0.3, 0.5, 0.75, 0.8, 0.85, 0.9, 0.95, 0.99, 1.0])
contents = st.builds(
    count,
    whole=numbers,
    agreed=numbers.filter(bool),
    within=numbers.filter(bool),
    triples=st.sampled_from([0, 31, 32, 100, 1_000, 3_000]),
    main=numbers,
    share_of_main=numbers,
    main_alone=numbers,
)
named = st.sampled_from(
    [SAME, SILENT, MORE, LITTLE_MORE, ONE_HEADING, ONE_TITLE, DIFFER, TRANSLATED]
)


@given(named, contents, st.sampled_from([URLS, HOSTS, FILES]), st.booleans(), numbers, numbers)
def test_a_higher_similarity_is_stricter(
    names: Any,
    content: Content,
    urls: tuple[str, str],
    known: bool,
    one: float,
    other: float,
) -> None:
    lower, higher = (
        judge(names, content, urls, known=known, least=least) for least in sorted((one, other))
    )
    assert lower.confirmed or not higher.confirmed
    assert lower.similarity == higher.similarity
    # With any content, 0 asks for what agrees outside of the common part, and for names; 1 for all.
    strict = judge(names, content, urls, known=known, least=1.0)
    if strict.confirmed:
        assert 1.0 in {content.whole, content.agreed_within, content.main_alike}
    if names is DIFFER and known:
        assert not judge(names, content, urls, known=known, least=0.0).confirmed


def test_a_similarity_of_one_overlooks_no_edit() -> None:
    edited = count(agreed=0.9, within=0.99)
    for least, confirmed in ((0.0, True), (0.9, True), (0.99, True), (1.0, False)):
        assert judge(SAME, edited, least=least).confirmed is confirmed
    assert judge(SAME, count(agreed=0.9), least=1.0).confirmed


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
any_names = st.sampled_from(HOSTILE) | texts
similarities = st.sampled_from([0.0, 0.3, 0.5, 0.76, 0.9, 1.0])
any_words = st.sampled_from([0, 1, 20, 300, 5_000])


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Document, Document]:
    """Draw two pages, alike or not, with any names."""
    two = {
        name: draw(st.tuples(drawn, drawn))
        for name, drawn in (
            ("title", any_names),
            ("heading", any_names),
            ("words", any_words),
            ("whole_words", any_words),
        )
    }
    urls = draw(st.sampled_from([URLS, HOSTS, FILES, (FILES[0], FILES[0])]))
    return make_pair(draw(similarities), draw(similarities), url=urls, **two)


@given(pairs())
@example(make_pair(0.9, 0.9, title=(HOSTILE[0], HOSTILE[0]), heading=(HOSTILE[2], HOSTILE[3])))
@example(make_pair(0.9, 0.9, title=(HOSTILE[1], HOSTILE[4]), heading=(HOSTILE[3], HOSTILE[3])))
def test_whatever_two_pages_say_the_answer_is_the_same_both_ways(
    pair: tuple[Document, Document],
) -> None:
    """`answer_to` checks that, and that every test is one line; no name gets into these."""
    answer = answer_to(pair)
    assert sum(map(len, answer.tests)) < 350
    assert "".join(answer.tests).isprintable()
    # Itself is confirmed, whatever it is called.
    assert answer_to((pair[0], pair[0])).confirmed
