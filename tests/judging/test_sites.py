"""What is right on sites that name their pages badly: pages read and compared."""

from html import escape

import pytest

from scrapy_simhash.config import Config
from scrapy_simhash.judging.documents import Document, Match, make_document
from scrapy_simhash.judging.matching import compare_by_words
from scrapy_simhash.pages.facts import Fetched
from scrapy_simhash.pages.fingerprint import fingerprint_page
from scrapy_simhash.pages.wording import unpack
from tests.helpers.pages import edit_words, make_words

RULE = Config().chosen_rule
URL, ELSEWHERE = "http://site.example/page", "http://site.example/else/page"
SHORT = 600


def make_text(words: list[str]) -> str:
    starts = range(0, len(words), 60)
    return "".join(f"<p>{' '.join(words[start : start + 60])}.</p>" for start in starts)


def read(title: str, headings: str, text: str, url: str = URL, beside: str = "") -> Document:
    """Read a page; headings and text are HTML."""
    html = (
        f"<html><head><title>{escape(title)}</title></head>"
        f"<body><main>{headings}{text}</main>{beside}</body></html>"
    )
    return make_document(
        fingerprint_page(html.encode(), url=url), RULE, Fetched(url, identity=b"-")
    )


def answer_to(first: Document, second: Document) -> Match:
    """Compare two pages of hosts that are not known."""
    wordings = unpack(first.wording), unpack(second.wording)
    return compare_by_words(None, first.facts, second.facts, wordings)


WORDS = "word " * 2_000
PARTS = "".join(f"<h2>Part {number}</h2>" for number in range(99))
LOGO = '<h1><img src="logo.png" alt="ACME"></h1>'
KIWI, APPLE = "<h1>Kiwi</h1>", "<h1>Apple</h1>"
Named = tuple[str, str]


@pytest.mark.parametrize(
    ("page", "again", "sibling"),
    [
        # Empty titles leave it to the headings.
        *(
            ((title, KIWI), (title, KIWI), (title, APPLE))
            for title in ("", "   ", "...", "\u200b", "\N{PERSON FROWNING}")
        ),
        # Of 10,000 characters the first 300 count.
        ((f"Kiwi {WORDS}", ""), (f"Kiwi {WORDS} end", ""), (f"Apple {WORDS}", "")),
        # Of a title in two scripts both parts do.
        (("Weather 東京", ""), ("Weather 東京", ""), ("Weather 大阪", "")),
        # Of a hundred headings the first one names the page.
        (("", KIWI + PARTS), ("", KIWI + PARTS), ("", APPLE + PARTS)),
        # A logo has no words; the heading after it does.
        (
            ("ACME", f"{LOGO}<h2>Red mug</h2>"),
            ("ACME", f"{LOGO}<h2>Red mug</h2>"),
            ("ACME", f"{LOGO}<h2>Blue chair</h2>"),
        ),
        # One title for all pages.
        (("ACME", KIWI), ("ACME", KIWI), ("ACME", APPLE)),
    ],
)
def test_odd_names_tell_a_page_from_its_sibling(page: Named, again: Named, sibling: Named) -> None:
    text = make_words(1, SHORT)
    one, other = (make_text(edit_words(text, 5, seed)) for seed in (1, 2))
    first = read(*page, one)
    assert answer_to(first, read(*again, other)).duplicate
    assert not answer_to(first, read(*sibling, other, ELSEWHERE)).duplicate


def test_without_any_name_or_with_one_text_none_is_needed() -> None:
    """At one address a heading in another script is none; in another folder it is another name."""
    text = make_words(1, SHORT)
    one, other = (make_text(edit_words(text, 5, seed)) for seed in (1, 2))
    assert answer_to(read("", "", one), read("", "", other)).duplicate
    unlike = read("ACME", "", make_text(make_words(2, SHORT)))
    assert not answer_to(read("ACME", "", one), unlike).duplicate
    translated = [read("LibreOffice", f"<h1>{name}</h1>", one) for name in ("Атрибуты", "Words")]
    assert answer_to(*translated).duplicate
    beside = read("LibreOffice", "<h1>Words</h1>", other, ELSEWHERE)
    assert not answer_to(translated[0], beside).duplicate


def test_a_page_that_is_a_part_of_the_kept_one() -> None:
    """What an article has beside its text does not count for its print view; its text does."""
    words, boxes = make_words(1, 300), f"<aside>{make_text(make_words(2, 900))}</aside>"
    article = read("One", "<h1>One</h1>", make_text(words), beside=boxes)
    view = read("One", "<h1>One</h1>", make_text(words), ELSEWHERE)
    assert answer_to(view, article).duplicate
    assert not answer_to(article, view).duplicate
    thread = read("One", "<h1>One</h1>", make_text([*words, *make_words(3, 120)]))
    answer = answer_to(view, thread)
    assert not answer.duplicate
    assert answer.tests[1].startswith("own words of the kept page: '")
