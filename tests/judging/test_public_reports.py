"""What users of other tools reported of duplicates, as pages: which are dropped, and no other.

Two trials gathered them. Of the first one, cases 1 (counters), 2 (canonical links), 4 (Chinese), 5
(charsets), 6 (characters), 10 (data), 11 (numbers), 14 (spellings) and 15 (galleries) are in
`test_records.py`, `test_stubs.py` and in the room `pages`, 9 (for members only) in `test_walls.py`;
8 (countries of a language) and 13 (empty days) are limits that docs name.

Of the second one, traps and sessions are in `test_links.py`, permalinks and walls with an id in
`test_walls.py`, counts in feet and titles in `test_refetch.py`, pages that are asked for again in
`test_delivery.py`, disks and kills in `test_crawl_processes.py` and `test_kills.py`, orders in
`test_complete.py`, records (cards, seats, places, forms, converters) in `test_records.py`. Limits
that docs name are months without end, walls of a few words with an id, archives and reposts under
other names, words hidden by CSS, lists in another order, live pages that grow, replaced words.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import pytest

from tests.helpers.pages import edit_words, make_words
from tests.helpers.pages import lay_out as in_paragraphs
from tests.helpers.records import list_dropped

Pages: TypeAlias = Iterator[tuple[str, str]]
MENU = "<nav><a>Home</a> <a>About us</a> <a>Contact</a></nav>"
FOOT = "Copyright Example Media. Privacy. Terms of use apply to all visitors."


def lay_out(title: str, main: str) -> str:
    return (
        f'<!doctype html><html><head><meta charset="utf-8"><title>{title}</title></head><body>'
        f"{MENU}<main>{main}</main><footer>{FOOT}</footer></body></html>"
    )


def write(seed: int, count: int) -> str:
    return " ".join(make_words(seed, count))


def consent() -> Pages:
    """Case 3: the consent text is ten times as long as the article."""
    for n in range(40):
        box = f'<div id="consent"><h2>We value your privacy</h2><p>{write(900, 450)}</div>'
        title = write(50 + n, 5)
        yield f"/a/{n}.html", lay_out(title, f"{box}<article><h1>{title}</h1>{write(n, 40)}")


def forum() -> Pages:
    """Case 7: threads of 40 posts in two pages, in windows of 20 posts, and single posts."""
    for thread in range(8):
        title = write(700 + thread, 6)
        posts = [f"<div><b>user{n % 7}</b><p>{write(thread * 50 + n, 36)}</div>" for n in range(40)]

        def show(first: int, end: int, title: str = title, posts: Sequence[str] = posts) -> str:
            return lay_out(title, f"<h1>{title}</h1>{''.join(posts[max(0, first) : end])}")

        yield f"/t/{thread}?page=1", show(0, 20)
        yield f"/t/{thread}?page=2", show(20, 40)
        for n in range(3, 38, 7):
            yield f"/t/{thread}/{n}", show(n - 10, n + 10)
        for n in range(0, 40, 8):
            yield f"/post/{thread}-{n}", show(n, n + 1)


def cities() -> Pages:
    """Case 12: one text for many cities."""
    for n in range(23):
        city = "".join(make_words(600 + n, 3)).title()
        text = f"<p>{write(804, 120)} In {city} we come at once. {write(805, 120)}</p>"
        main = f"<h1>Plumber in {city}</h1>{text}<p>Call 0{100 + n * 37} {10_000 + n * 3_701}</p>"
        yield f"/plumber/{city.lower()}", lay_out(f"Plumber in {city} - fast help", main)


def orders() -> Pages:
    """A shop's list in another view, order and size: grandnode2 #441."""
    for n in range(12):
        rows = [f"<li>{write(20 * n + k + 2_000, 3 + k % 5)}</li>" for k in range(24)]
        views = {"": rows[:12], "?v=list": rows[:12], "?size=24": rows, "?size=6": rows[:6]}
        for query, shown in (views | {"?by=5": sorted(rows[:12], key=len)}).items():
            yield f"/l/{n}{query}", lay_out(write(n, 3), f"<ul>{''.join(shown)}</ul>")


def revisions() -> Pages:
    """Files at each commit, of which each changes two lines: ruby/git.ruby-lang.org #107."""
    for n, commit in itertools.product(range(8), range(6)):
        words = edit_words(make_words(n, 400), 6 * (commit // 2), n)
        title = f"{make_words(50 + n, 1)[0]}.c - src"
        yield f"/src/{n}.c?id={commit}f{commit * 7919}a", lay_out(title, in_paragraphs(words, 8))


@pytest.mark.parametrize(
    ("case", "copies"),
    [
        (consent, []),
        (forum, [f"/t/{thread}/{n}" for thread in range(8) for n in (10, 31)]),
        (cities, []),
        (orders, [f"/l/{n}?v=list" for n in range(12)]),
        (revisions, [f"/src/{n}.c?id={c}f{c * 7919}a" for n in range(8) for c in (1, 3, 5)]),
    ],
)
def test_a_public_report(case: Callable[[], Pages], copies: list[str]) -> None:
    assert list_dropped([*case()]) == copies
