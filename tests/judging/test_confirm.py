"""The rule that confirms a candidate: each branch with a case, and what it says of it."""

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scrapy_simhash.judging.comparison import NO_CONTEXT, Answer, Content, Context, compare
from scrapy_simhash.judging.documents import Document
from scrapy_simhash.judging.rule import CONFIRM, OTHER_DATA, Rule
from scrapy_simhash.judging.sites import Site
from scrapy_simhash.judging.wordrule import LEAST_KNOWN
from scrapy_simhash.pages.facts import Facts
from scrapy_simhash.pages.sketch import sketch_text
from tests.helpers.documents import alter, make
from tests.helpers.sketches import make_sketches
from tests.helpers.strategies import texts

NO_TEXT = np.array([], np.uint64)
URLS = ("http://site.example/en/kiwi", "http://site.example/de/kiwi.html")
HOSTS = ("http://daily.example/1", "http://weekly.example/2")
SITE = Site(
    dict.fromkeys(
        range(LEAST_KNOWN),
        Facts(b"-", 0, b"", sketch=make_sketches(0, 0)[0]),
    )
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
    return make(identity=b"-", fingerprint=0, text_digest=b"", sketch=sketch, **facts)


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
    answer = compare(pair[0].facts, pair[1].facts, rule)
    assert compare(pair[1].facts, pair[0].facts, rule) == answer
    assert all(test and len(test.splitlines()) == 1 for test in answer.tests)
    return answer


def count(  # noqa: PLR0913 - one figure of the rule each
    *,
    whole: float = 0.7,
    agreed: float = 0.65,
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
        within=shared / within - shared,
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
    **fields: Any,
) -> Answer:
    """Answer to two pages of such names and contents; `one_text`: their main texts are equal."""
    first, second = make_pair(0.0, 0.0, url=urls, **names, **fields)
    second = alter(second, text_digest=b"" if one_text else b"another")
    context = KNOWN if known else NO_CONTEXT
    return compare(first.facts, second.facts, Rule(0, least), context=context, content=content)


BOTH_STATES = pytest.mark.parametrize("known", [True, False])
# Two hosts or none, one address, or two of one host.
ANYWHERE = pytest.mark.parametrize(
    "urls", [HOSTS, URLS, (URLS[0], f"{URLS[0]}#fruit"), ("", ""), ("http://[", "http://]")]
)


@BOTH_STATES
@ANYWHERE
@pytest.mark.parametrize(
    ("counted", "why"),
    [
        ({"agreed": 0.601, "within": 0.831}, "content agrees"),
        ({"agreed": 0.601, "within": 0.1, "whole": 0.9}, "content agrees"),
        ({"agreed": 0.599, "within": 1.0}, ""),
        ({"within": 0.829}, ""),
        ({"agreed": 0.599, "whole": 1.0}, ""),
        ({"agreed": 0.3, "main": 0.9, "share_of_main": 0.3}, "main texts are alike"),
        ({"agreed": 0.3, "main": 0.899, "share_of_main": 0.3}, ""),
        ({"agreed": 0.3, "main": 0.9, "share_of_main": 0.299}, ""),
        ({"agreed": 0.1, "within": 0.1, "whole": 1.0, "main": 1.0, "share_of_main": 0.2}, "equal"),
        ({"agreed": 0.1, "within": 0.1, "whole": 0.99, "main": 1.0, "share_of_main": 0.2}, ""),
    ],
)
def test_one_name_and_texts_of_which_enough_agrees(
    urls: tuple[str, str], counted: dict[str, float], why: str, *, known: bool
) -> None:
    answer = judge(SAME, count(**counted), urls, known=known)
    if urls == URLS and not known and counted.get("within", 1.0) < CONFIRM:  # no edits
        why = "equal" if why == "equal" else ""
    assert (why or "content differs") in answer.tests[0]
    assert answer.confirmed == bool(why)


@pytest.mark.parametrize("names", [ONE_TITLE, ONE_HEADING])
def test_a_name_that_is_the_same_may_be_the_sites(names: Any) -> None:
    """Until the site is known, the other one counts; two hosts have names of their own."""
    counted = count(whole=1.0, agreed=1.0)
    assert judge(names, counted).confirmed
    answer = judge(names, counted, known=False)
    assert (answer.confirmed, answer.tests[0]) == (False, "names differ")
    assert judge(names, counted, HOSTS, known=False).confirmed


def test_main_texts_that_differ_until_the_site_is_known() -> None:
    """Whatever else agrees: what does may be the template, which only pages that are kept tell."""
    for names in (SAME, SILENT, DIFFER):
        answer = judge(names, count(whole=1.0, agreed=1.0, main_alone=0.51), known=False)
        assert (answer.confirmed, answer.tests[0]) == (False, "main texts differ")
    assert judge(SAME, count(whole=1.0, agreed=1.0, main_alone=0.5), known=False).confirmed
    assert judge(SAME, count(whole=1.0, agreed=1.0, main_alone=0.51)).confirmed


@BOTH_STATES
@pytest.mark.parametrize(
    ("names", "counted", "confirmed"),
    [
        (SILENT, {"agreed": 0.601, "within": 0.901}, True),
        (SILENT, {"agreed": 0.599}, False),
        # Only what has one name may have edits, another frame, or another main text.
        (SILENT, {"within": 0.899}, False),
        (SILENT, {"whole": 0.9, "agreed": 0.599}, False),
        (SILENT, {"main": 1.0, "share_of_main": 1.0, "agreed": 0.599}, False),
        *(
            (names, {"agreed": agreed, "within": 0.901}, agreed > 0.75)
            for names in (ONE_HEADING, ONE_TITLE, MORE, LITTLE_MORE)
            for agreed in (0.751, 0.749)
        ),
        (MORE, {"whole": 0.9, "agreed": 0.749}, False),
    ],
)
def test_names_that_are_not_wholly_the_same(
    names: Any, counted: dict[str, float], *, known: bool, confirmed: bool
) -> None:
    assert judge(names, count(**counted), HOSTS, known=known).confirmed is confirmed


@BOTH_STATES
@pytest.mark.parametrize(
    ("urls", "counted", "confirmed"),
    [
        (HOSTS, {}, True),
        (("", ""), {}, True),
        ((URLS[0], f"{URLS[0]}#fruit"), {}, True),
        (HOSTS, {"triples": 999}, False),
        (HOSTS, {"agreed": 0.899}, False),
        (HOSTS, {"within": 0.899}, False),
        # Records have titles, and no headings.
        (URLS, {"agreed": 1.0}, False),
    ],
)
def test_a_title_that_is_translated(
    urls: tuple[str, str], counted: dict[str, float], *, known: bool, confirmed: bool
) -> None:
    """The other name tells nothing, and so long a text agrees nearly wholly."""
    counted = {"whole": 1.0, "agreed": 0.901, "within": 0.901, "triples": 1_000, **counted}
    answer = judge(TRANSLATED, count(**counted), urls, known=known)
    assert answer.confirmed is confirmed
    said = "so long a content agrees whatever its names" if confirmed else "names differ"
    assert answer.tests[:2] == (said, "titles: differ; headings: silent")


@BOTH_STATES
@ANYWHERE
def test_two_names_that_differ(urls: tuple[str, str], *, known: bool) -> None:
    """Until the site is known, both may be the site's, where there are two."""
    answer = judge(DIFFER, count(whole=1.0, agreed=1.0, triples=10_000), urls, known=known)
    one_host = urls == URLS
    assert answer.confirmed is not (known or one_host)


@BOTH_STATES
def test_little_text_and_other_data(*, known: bool) -> None:
    """At one address they are those of another time."""
    data = (b"\0" * 8, b"\0" * 6 + b"\x07\xff")
    for octets, urls, confirmed in (
        (data, HOSTS, False),
        ((data[0], b"\0" * 6 + b"\x03\xff"), HOSTS, True),
        (data, (URLS[0], f"{URLS[0]}#fruit"), True),
        ((data[0], b""), HOSTS, True),
    ):
        counted = count(whole=1.0, agreed=1.0)
        answer = judge(SAME, counted, urls, known=known, data_fingerprint=octets)
        assert answer.confirmed is confirmed
        assert (answer.tests[0] == OTHER_DATA) is not confirmed


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


@given(named, contents, st.sampled_from([URLS, HOSTS]), st.booleans(), numbers, numbers)
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
    if names is DIFFER and known:
        assert not lower.confirmed


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
    urls = draw(st.sampled_from([URLS, HOSTS, (URLS[0], URLS[0])]))
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
