"""Views, and what is none: each page that stays says something that no kept page says."""

from collections.abc import Callable

import pytest

from tests.helpers.pages import lay_out, make_words
from tests.helpers.records import HOST, list_dropped, make_article

ARTICLES = [(f"/a/{n}", make_article(n + 300)) for n in range(8)]
SHORT = "<footer>Imprint and terms of use</footer>"
LONG = SHORT.replace("</", ", and all of our houses by the sea</")
VALUES = ("yes", "no", "no"), ("no", "yes", "no"), ("no", "no", "yes")


def show(
    n: int, text: str, said: str = "", *, title: str = "", foot: str = SHORT, nav: str = "Home News"
) -> str:
    name = " ".join(make_words(90 + n, 2))
    return (
        f"<!DOCTYPE html><title>{name}{title}</title><body><nav>{nav}</nav><main>"
        f"<h1>{name}</h1>{text}{said}</main>{foot}"
    )


def show_framed(n: int, text: str) -> str:
    return show(n, text, nav="Printed from our shop", foot=LONG)


def show_printed(n: int, text: str) -> str:
    written = f"Printed from {HOST.partition('//')[2]}/p/{n}"
    return show(n, text, title=" - Print", foot=written, nav="")


@pytest.mark.parametrize("view", ["/p/{}/view", "/p/{}?view=1", "/print/p/{}"])
@pytest.mark.parametrize("show_view", [show_framed, show_printed])
def test_print_views(show_view: Callable[[int, str], str], view: str) -> None:
    """Of a stranger's print views all came through."""
    pages = []
    for n in range(16):
        text, more = lay_out(make_words(5_000 + n, 150)), " ".join(make_words(8_000 + n, 200))
        title, aside = (
            (" | Shop", f"<aside>{more}</aside>") if show_view == show_printed else ("",) * 2
        )
        nav = f"Home News {' '.join(make_words(80, 12))}: offer {make_words(n, 2)}"
        full = show(n, text, title=title, foot=f"{aside}{LONG}", nav=nav)
        pages += [(f"/p/{n}", full), (view.format(n), show_view(n, text))]
    dropped = list_dropped(pages)
    assert set(dropped) <= {path for path, _ in pages[1::2]}
    assert len(dropped) >= 8


def list_rows(n: int, words: int, *, some: bool = False) -> str:
    rows = [f"<p>{' '.join(make_words(1_000 * n + k, words))} {k + 10} euros" for k in range(12)]
    return "".join(row for k, row in enumerate(rows) if not some or (k + n) % 6)


def write(n: int, words: int) -> str:
    texts = (make_words(7_000 + 50 * n + k, 14 + k % 2 * 6) for k in range(14))
    return "".join(f"<p>{' '.join(text)}" for text in texts if len(text) > 14 or words)


def keep(n: int, text: str) -> str:
    return show(n, text, foot=LONG)


BARE = {"nav": "", "foot": ""}
STOCK = BARE | {"title": " - In stock | Shop"}
ENDS = (
    # All say yes and no, and the numbers of a scale, but not of the same things.
    lambda n: "<p>Wifi {} Pool {} Bar {}".format(*VALUES[n % 3]),
    lambda n: f"<p>{1 + n % 5} of 5 stars<p>1 bad 2 3 4 5 good",
    # A page is no witness for itself.
    lambda n: f"<p>{['Sold out', 'In stock today'][n > 62]}",
)
CASES = (
    # Which of all lamps are in stock only the title says.
    lambda n, _: (keep(n, list_rows(n, 8)), show(n, list_rows(n, 8, some=True), **STOCK)),
    lambda n, _: (keep(n, list_rows(n, 20)), show(n, list_rows(n, 20, some=True), **STOCK)),
    lambda n, text: (keep(n, text), show(n, text, title=" (used)")),
    lambda n, text: (keep(n, text), show(n, text, title=" + breakfast")),
    # A part of a text, in the whole frame of the site; or of which lines are left out amid it.
    lambda n, text: (show(n, text + lay_out(make_words(9_000 + n, 300))), show(n, text)),
    lambda n, _: (show(n, write(n, 14)), show(n, write(n, 0), **BARE)),
    *(lambda n, text, end=end: (keep(n, text), show(n, text, end(n), foot="")) for end in ENDS),
)


@pytest.mark.parametrize("view", ["/c/{}/more", "/c/{}?more=1"])
@pytest.mark.parametrize("show_both", CASES)
def test_what_is_no_view(show_both: Callable[[int, str], tuple[str, str]], view: str) -> None:
    pages = [*ARTICLES]
    for n in range(60, 66):
        kept, more = show_both(n, lay_out(make_words(5_000 + n, 150)))
        pages += [(f"/c/{n}", kept), (view.format(n), more)]
    assert list_dropped(pages) == []


@pytest.mark.parametrize("view", ["/c/{}?size={}", "/c/{}/{}"])
def test_numbers_and_several_values_choose_what_a_page_shows(view: str) -> None:
    pages = [*ARTICLES]
    for n in range(60, 72):
        text = lay_out(make_words(5_000 + n, 150))
        more = show(n, text, foot="<p>Of what a page has here is some")
        pages += [(f"/c/{n}", keep(n, text)), (view.format(n, n % 2), more)]
    assert list_dropped(pages) == []
