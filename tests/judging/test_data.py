"""Pages with little text that a browser draws from data."""

import json
from html import escape

import pytest

from scrapy_simhash.config import Config
from scrapy_simhash.judging.documents import Document, make_document
from scrapy_simhash.pages.facts import Page
from scrapy_simhash.pages.fingerprint import fingerprint_page
from scrapy_simhash.stores.opening import open_store
from tests.helpers.pages import make_words

RULE = Config().chosen_rule
HOST, MIRROR = "http://shop.example", "http://mirror.example"


def judge(*pages: Document) -> list[str]:
    """Judge pages in one store, and say what is in it afterwards."""
    with open_store("memory:", RULE.distance, seed=3) as store:
        verdicts = store.find_and_add(pages)
        kept = {document.facts.url for document in store.list_documents()}
        assert store.check() == []
    assert kept == {page.facts.url for page in pages}
    return [verdict.reason or verdict.status for verdict in verdicts]


def draw(
    path: str,
    product: int,
    *,
    nonce: int = 0,
    kind: str = "script",
    host: str = HOST,
    words: int = 200,
) -> Document:
    """Read a page of 120 words that are all pages', of which a browser draws a product."""
    state = {"name": f"Product {product}", "token": f"n0nce{nonce}", "seen": nonce}
    state |= {"description": " ".join(make_words(10 + product, words)), "unit": "EUR"}
    data = json.dumps(state | {"menu": make_words(2, 100)})
    holder = f"<script>window.__STATE__={data}</script>" if kind == "script" else ""
    attribute = f' data-page="{escape(data)}"' if kind == "attribute" else ""
    html = (
        f"<html><head><title>ACME</title></head><body><div id=app{attribute}></div>{holder}"
        f"<footer><p>{' '.join(make_words(1, 120))}</p></footer></body></html>"
    )
    url = host + path
    made = fingerprint_page(html.encode(), url=url)
    return make_document(made, RULE, Page(url, identity=url.encode(), time=1.0))


@pytest.mark.parametrize("kind", ["script", "attribute"])
def test_pages_that_a_browser_draws_from_other_data_are_kept(kind: str) -> None:
    pages = [draw(f"/p{n}", n, kind=kind) for n in range(5)]
    assert not any(page.facts.stub for page in pages)
    # The same product, with another token and time.
    copy = draw("/p3?sid=7", 3, nonce=4, kind=kind)
    mirror = draw("/p3", 3, nonce=5, kind=kind, host=MIRROR)
    assert judge(*pages, copy, mirror) == ["new"] * 5 + ["near_duplicate"] * 2


def test_data_beside_which_there_is_text_do_not_count() -> None:
    pages = [draw(f"/p{n}", n, words=20) for n in range(2)]
    assert not any(page.facts.data_fingerprint for page in pages)
    assert judge(*pages) == ["new", "near_duplicate"]
