"""Pages with little text that a browser draws from data."""

import json
from html import escape

import pytest

from tests.helpers.pages import make_words
from tests.helpers.records import list_dropped

MIRROR = "http://mirror.example"
Page = tuple[str, str]


def draw(url: str, product: int, *, nonce: int = 0, kind: str = "script", words: int = 200) -> Page:
    """Make a page of 120 words that are all pages', of which a browser draws a product."""
    state = {"name": f"Product {product}", "token": f"n0nce{nonce}", "seen": nonce}
    state |= {"description": " ".join(make_words(10 + product, words)), "unit": "EUR"}
    data = json.dumps(state | {"menu": make_words(2, 100)})
    holder = f"<script>window.__STATE__={data}</script>" if kind == "script" else ""
    attribute = f' data-page="{escape(data)}"' if kind == "attribute" else ""
    html = (
        f"<html><head><title>ACME</title></head><body><div id=app{attribute}></div>{holder}"
        f"<footer><p>{' '.join(make_words(1, 120))}</p></footer></body></html>"
    )
    return url, html


@pytest.mark.parametrize("kind", ["script", "attribute"])
def test_pages_that_a_browser_draws_from_other_data_are_kept(kind: str) -> None:
    pages = [draw(f"/p{n}", n, kind=kind) for n in range(5)]
    # The same product, with another token and time.
    copy = draw("/p3?sid=7", 3, nonce=4, kind=kind)
    mirror = draw(f"{MIRROR}/p3", 3, nonce=5, kind=kind)
    assert list_dropped([*pages, copy, mirror]) == [copy[0], mirror[0]]


def test_data_beside_which_there_is_text_do_not_count() -> None:
    pages = [draw(f"/p{n}", n, words=20) for n in range(2)]
    assert list_dropped(pages) == ["/p1"]
