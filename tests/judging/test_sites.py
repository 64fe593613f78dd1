"""Sites that are known or not, and such as name their pages badly: pages read and compared."""

from html import escape

import pytest

from scrapy_simhash.judging.documents import Match, Verdict
from tests.helpers.pages import edit_words, lay_out, make_words
from tests.helpers.records import HOST, compare_pages, judge_pages

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


OTHER = "http://other.example"
Page = tuple[str, str]


def make_page(url: str, own: list[str], *, name: str, template: int = 1, words: int = 200) -> Page:
    """Make a page whose template, named by a seed, has so many words before and behind its own."""
    before, behind = make_words(template, words), make_words(-template, words)
    html = (
        f"<html><head><title>{name} | ACME</title></head><body><nav>{lay_out(before)}</nav>"
        f"<main><h1>{name}</h1>{lay_out(own)}</main><footer>{lay_out(behind)}</footer></body></html>"
    )
    return url, html


def judge(*pages: Page) -> list[Verdict]:
    return [*judge_pages(pages).values()]


def match_of(verdict: Verdict) -> Match:
    assert verdict.match
    return verdict.match


def dropped(verdicts: list[Verdict]) -> list[int]:
    """List the places of pages that are near-duplicates, from 0."""
    return [n for n, verdict in enumerate(verdicts) if verdict.match is not None]


def articles(*numbers: int, host: str = HOST, template: int = 1, words: int = 200) -> list[Page]:
    """Make the articles of these numbers in a template; articles have a name and a text each."""
    return [
        make_page(
            f"{host}/{template}/?id={number}",
            make_words(1_000 + number, 300),
            name=" ".join(make_words(5_000 + number, 3)),
            template=template,
            words=words,
        )
        for number in numbers
    ]


def test_a_template_that_changes_in_the_middle() -> None:
    """No new page is lost, and old ones are still found, though most of either is template."""
    old, new = articles(*range(12)), articles(*range(12, 24), template=2)
    again = articles(2, 5, template=2) + articles(14)
    verdicts = judge(*old, *new, *again)
    assert dropped(verdicts) == [24, 25, 26]
    for place, number in ((24, 2), (25, 5), (26, 14)):
        match = match_of(verdicts[place])
        assert (match.document, match.site_known) == (verdicts[number].document, True)


def test_a_page_that_repeats_anothers_content_as_template_hurts_its_own_host_only() -> None:
    """Neither drops nor saves it a page of the other host."""
    victims = articles(*range(10))
    hostile = [
        make_page(
            f"{OTHER}/?id={number}",
            [*make_words(1_003, 300), *make_words(9_000 + number, 50)],
            name=" ".join(make_words(7_000 + number, 3)),
            template=3,
        )
        for number in range(12)
    ]
    print_view = articles(3, template=2, words=30)
    alone = judge(*victims, *print_view)
    for pages in ([*hostile, *victims], [*victims, *hostile]):
        verdicts = judge(*pages, *print_view)
        found = [verdict for verdict, page in zip(verdicts, pages, strict=False) if page in victims]
        assert (dropped(found), dropped(alone)) == ([], [10])
        assert match_of(verdicts[-1]).url == match_of(alone[-1]).url
