"""What is right on sites that name their pages badly: pages read and compared."""

from html import escape

import pytest

from tests.helpers.pages import edit_words, lay_out, make_words
from tests.helpers.records import compare_pages

URL, ELSEWHERE = "http://site.example/page", "http://site.example/else/page"
SHORT = 600


def make(title: str, headings: str, text: str, url: str = URL, beside: str = "") -> tuple[str, str]:
    """Make a page; headings and text are HTML."""
    return url, (
        f"<html><head><title>{escape(title)}</title></head>"
        f"<body><main>{headings}{text}</main>{beside}</body></html>"
    )


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
    one, other = (lay_out(edit_words(text, 5, seed)) for seed in (1, 2))
    first = make(*page, one)
    assert compare_pages(first, make(*again, other)).duplicate
    assert not compare_pages(first, make(*sibling, other, ELSEWHERE)).duplicate


def test_without_any_name_or_with_one_text_none_is_needed() -> None:
    """At one address a heading in another script is none; in another folder it is another name."""
    text = make_words(1, SHORT)
    one, other = (lay_out(edit_words(text, 5, seed)) for seed in (1, 2))
    assert compare_pages(make("", "", one), make("", "", other)).duplicate
    unlike = make("ACME", "", lay_out(make_words(2, SHORT)))
    assert not compare_pages(make("ACME", "", one), unlike).duplicate
    translated = [make("LibreOffice", f"<h1>{name}</h1>", one) for name in ("Атрибуты", "Words")]
    assert compare_pages(*translated).duplicate
    beside = make("LibreOffice", "<h1>Words</h1>", other, ELSEWHERE)
    assert not compare_pages(translated[0], beside).duplicate


def test_a_page_that_is_a_part_of_the_kept_one() -> None:
    """What an article has beside its text does not count for its print view; its text does."""
    words, boxes = make_words(1, 300), f"<aside>{lay_out(make_words(2, 900))}</aside>"
    article = make("One", "<h1>One</h1>", lay_out(words), beside=boxes)
    view = make("One", "<h1>One</h1>", lay_out(words), ELSEWHERE)
    assert compare_pages(view, article).duplicate
    assert not compare_pages(article, view).duplicate
    thread = make("One", "<h1>One</h1>", lay_out([*words, *make_words(3, 120)]))
    answer = compare_pages(view, thread)
    assert not answer.duplicate
    assert answer.tests[1].startswith("own words of the kept page: '")
