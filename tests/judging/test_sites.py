"""Sites that are known or not, and such as name their pages badly: pages read and compared."""

from html import escape

import pytest

from tests.helpers.pages import edit_words, lay_out, make_words
from tests.helpers.records import compare_pages, judge_pages

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
    assert compare_pages(first, make(*again, other)).status == "near_duplicate"
    assert compare_pages(first, make(*sibling, other, ELSEWHERE)).status == "new"


def articles(*numbers: int, template: int = 1) -> list[tuple[str, str]]:
    """Make articles with names and texts of their own in a template, which a seed names."""
    before, behind = (lay_out(make_words(seed, 200)) for seed in (template, -template))
    pages = []
    for number in numbers:
        name, text = " ".join(make_words(5_000 + number, 3)), make_words(1_000 + number, 300)
        main = f"<main><h1>{name}</h1>{lay_out(text)}</main>"
        body = f"<nav>{before}</nav>{main}<footer>{behind}</footer>"
        pages.append((f"/{template}/?id={number}", f"<title>{name} | ACME</title><body>{body}"))
    return pages


def test_a_template_that_changes_in_the_middle() -> None:
    """No new page is lost, though most of either is template."""
    old, new = articles(*range(12)), articles(*range(12, 24), template=2)
    verdicts = judge_pages([*old, *new])
    assert not any(each.match_url for each in verdicts.values())
