"""The judge on sites that are known or not: pages are read, and judged one after the other."""

from scrapy_simhash.judging.documents import Match, Verdict
from tests.helpers.pages import lay_out, make_words
from tests.helpers.records import HOST, judge_pages

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
