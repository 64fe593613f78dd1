"""What users of other tools reported of duplicates, as pages: which are dropped, and no other.

The numbers are those of a trial. Cases 1 (counters), 2 (canonical links), 5b (a wrong charset),
6 (characters), 10 (data) and 15 (galleries) are in `test_records.py`, `test_stubs.py` and in the
room `pages`, as are those of numbers (11); 8 (countries of a language) and 13 (empty days) are
limits that docs name.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import pytest

from tests.helpers.pages import make_words
from tests.helpers.records import list_dropped, make_article

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


def chinese() -> Pages:
    """Case 4: short pages in one template, ten with a print view."""
    signs = [chr(0x4E00 + n) for n in range(100)]

    def speak(seed: int, sentences: int) -> str:
        draw = random.Random(seed)  # noqa: S311
        return "".join("".join(draw.choices(signs, k=14)) + "。" for _ in range(sentences))

    pages = []
    for n in range(40):
        main = f"<h1>{speak(100 + n, 1)[:8]}</h1><p>{speak(n, 3)}</p>"
        yield f"/n/{n}.html", lay_out("新闻中心", main, foot=speak(99, 14))
        pages.append((f"/print/{n}.html", lay_out("新闻中心", main, menu="", foot="")))
    yield from pages[:10]


def charset_in_a_script() -> Pages:
    """Case 5a: `<script charset>` stands before the charset of the page."""
    declared = (
        '<script charset="utf-8" src="x.js"></script>'
        '<meta http-equiv="Content-Type" content="text/html; charset=windows-1251">'
    )
    for folder, head, encoding in (("u", "", "utf-8"), ("w", declared, "cp1251")):
        for n in range(12):
            title, text = transcribe(write(n + 50, 5)), transcribe(write(n, 160))
            html = lay_out(title, f"<h1>{title}</h1><p>{text}", head or '<meta charset="utf-8">')
            yield f"/{folder}/{n}.html", html.encode(encoding)


def transcribe(text: str) -> str:
    """Write in Cyrillic letters."""
    return text.translate(
        {ord(a): chr(0x430 + n) for n, a in enumerate("abcdefghijklmnopqrstuvwxyz")}
    )


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


def members_only() -> Pages:
    """Case 9: 30 profiles answer that they are for members; four are shown."""
    closed = (
        "The profile you asked for can be seen by members only. Please log in or register to see"
    )
    for n in range(30):
        wall = f"<h1>Information</h1><p>{closed} {write(800, 24)}.</p><form><input name=u></form>"
        yield f"/viewprofile?id={n}", lay_out("Forum - Information", wall)
    for n in range(30, 34):
        shown = f"<h1>member{n}</h1><dl><dt>Joined<dd>{n} May</dl><p>Public. {write(n, 15)}</p>"
        yield f"/viewprofile?id={n}", lay_out(f"Profile of member{n}", shown)


def cities() -> Pages:
    """Case 12: one text for many cities."""
    for n in range(23):
        city = "".join(make_words(600 + n, 3)).title()
        text = f"<p>{write(804, 120)} In {city} we come at once. {write(805, 120)}</p>"
        main = f"<h1>Plumber in {city}</h1>{text}<p>Call 0{100 + n * 37} {10_000 + n * 3_701}</p>"
        yield f"/plumber/{city.lower()}", lay_out(f"Plumber in {city} - fast help", main)


def spellings() -> Pages:
    """Case 14: one page under six spellings of its address, each with a token of its own."""
    for n in range(15):
        one = "path/doc"
        for at, path in enumerate(("Path/Doc{}", one + "{}", one + "{}?q=1", one + "{}?q=1&a=2",
                                   one + "{}/", "path//doc{}")):  # fmt: skip
            token = f"<form><input type=hidden name=csrf value=f8Kx3vPzq0wQ2bH{n}{at}></form>"
            yield f"/{path.format(n)}", make_article(n, beside=token)


@pytest.mark.parametrize(
    ("case", "copies"),
    [
        (consent, []),
        (chinese, [f"/print/{n}.html" for n in range(10)]),
        (charset_in_a_script, [f"/w/{n}.html" for n in range(12)]),
        (forum, [f"/t/{thread}/{n}" for thread in range(8) for n in (10, 31)]),
        (members_only, [f"/viewprofile?id={n}" for n in range(1, 30)]),
        (cities, []),
        (spellings, [path for n, (path, _) in enumerate(spellings()) if n % 6]),
    ],
)
def test_a_public_report(case: Callable[[], Pages], copies: list[str]) -> None:
    assert list_dropped([*case()]) == copies
