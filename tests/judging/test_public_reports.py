"""What users of other tools reported of duplicates, as pages: which are dropped, and no other.

The numbers are those of a trial. Cases 1 (counters), 2 (canonical links), 4 (Chinese), 5
(charsets), 6 (characters), 10 (data), 11 (numbers), 14 (spellings) and 15 (galleries) are in
`test_records.py`, `test_stubs.py` and in the room `pages`, 9 (for members only) in `test_walls.py`;
8 (countries of a language) and 13 (empty days) are limits that docs name.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import pytest

from tests.helpers.pages import make_words
from tests.helpers.records import list_dropped

Pages: TypeAlias = Iterator[tuple[str, str | bytes]]
MENU = "<nav><a>Home</a> <a>About us</a> <a>Contact</a></nav>"
FOOT = "Copyright Example Media. Privacy. Terms of use apply to all visitors."


def lay_out(
    title: str, main: str, head: str = '<meta charset="utf-8">', menu: str = MENU, foot: str = FOOT
) -> str:
    """Lay a page out, with the site's menu and footer."""
    return (
        f"<!doctype html><html><head>{head}<title>{title}</title></head><body>"
        f"{menu}<main>{main}</main><footer>{foot}</footer></body></html>"
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


@pytest.mark.parametrize(
    ("case", "copies"),
    [
        (consent, []),
        (forum, [f"/t/{thread}/{n}" for thread in range(8) for n in (10, 31)]),
        (cities, []),
    ],
)
def test_a_public_report(case: Callable[[], Pages], copies: list[str]) -> None:
    assert list_dropped([*case()]) == copies
