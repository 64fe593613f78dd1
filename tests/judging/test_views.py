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


@pytest.mark.parametrize("view", ["/p/{}/view", "/p/{}?view=1", "/print/p/{}"])
def test_a_print_view_has_a_title_and_the_address_of_its_page(view: str) -> None:
    """Of a stranger's print views all came through."""
    pages = []
    for n in range(16):
        text, more = lay_out(make_words(5_000 + n, 150)), " ".join(make_words(8_000 + n, 200))
        written = f"Printed from {HOST.partition('//')[2]}/p/{n}"
        full = show(n, text, title=" | Shop", foot=f"<aside>{more}</aside>{SHORT}")
        printed = show(n, text, title=" - Print", foot=written, nav="")
        pages += [(f"/p/{n}", full), (view.format(n), printed)]
    dropped = list_dropped(pages)
    assert set(dropped) < {path for path, _ in pages[1::2]}
    assert len(dropped) >= 8


def list_rows(n: int, *, some: bool) -> str:
    rows = [f"<li>{' '.join(make_words(1_000 * n + k, 8))} {k + 10} euros" for k in range(12)]
    return "<ul>" + "".join(row for k, row in enumerate(rows) if not some or (k + n) % 6)


@pytest.mark.parametrize("view", ["/c/{}/more", "/c/{}?more=1"])
@pytest.mark.parametrize(
    "show_view",
    [
        # Which of all lamps are in stock only the title says.
        lambda n, _: show(n, list_rows(n, some=True), title=" - In stock | Shop"),
        lambda n, text: show(n, text, title=" (used)"),
        lambda n, text: show(n, text, title=" + breakfast"),
        # All say yes and no, and the numbers of a scale, but not of the same things.
        lambda n, text: show(n, text, "<p>Wifi {} Pool {} Bar {}".format(*VALUES[n % 3]), foot=""),
        lambda n, text: show(n, text, f"<p>{1 + n % 5} of 5 stars<p>1 bad 2 3 4 5 good", foot=""),
        # A page is no witness for itself.
        lambda n, text: show(n, text, f"<p>{['Sold out', 'In stock today'][n > 62]}", foot=""),
    ],
)
def test_what_is_no_view(show_view: Callable[[int, str], str], view: str) -> None:
    pages = [*ARTICLES]
    for n in range(60, 66):
        text = lay_out(make_words(5_000 + n, 150))
        first = list_rows(n, some=False) if "In stock |" in show_view(n, text) else text
        pages += [(f"/c/{n}", show(n, first, foot=LONG)), (view.format(n), show_view(n, text))]
    assert list_dropped(pages) == []
