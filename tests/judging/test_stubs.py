"""Pages with little text: dropped only for pages that are the same in all, data included."""

import json
from html import escape

import pytest
from msgspec.structs import replace

from scrapy_simhash.config import Config
from scrapy_simhash.judging.documents import MIN_FEATURES, Rule, make_document
from scrapy_simhash.judging.rule import UNKNOWN, judge
from scrapy_simhash.judging.words import Page
from scrapy_simhash.pages.facts import unpack
from scrapy_simhash.pages.fingerprint import fingerprint_page
from tests.helpers.pages import make_words
from tests.helpers.records import judge_pages, list_dropped

HTML = "<!DOCTYPE html><html><head><title>Download</title></head><body>{}</body></html>"
# Pairs of pages that say the same and are not the same.
DIFFERENT = {
    "links": ("<a href=/f/1.zip>Get it</a>", "<a href=/f/2.zip>Get it</a>"),
    "frames": ("<p>Watch</p><iframe src=/1></iframe>", "<p>Watch</p><iframe src=/2></iframe>"),
    "data": ("<p>App</p><div data-page='{\"id\":1}'></div>", "<p>App</p><div data-page='2'></div>"),
    "script files": ("<p>App</p><script src=/1></script>", "<p>App</p><script src=/2></script>"),
    "scripts": ("<p>App</p><script>show(1)</script>", "<p>App</p><script>show(2)</script>"),
    "lazy images": ("<p>Zoo</p><img data-src=/1.jpg>", "<p>Zoo</p><img data-src=/2.jpg>"),
    "images": ("<p>Zoo</p><img srcset='/1.jpg 1x'>", "<p>Zoo</p><img srcset='/2.jpg 1x'>"),
    "texts": ("<p>Yes</p>", "<p>No</p>"),
}


@pytest.mark.parametrize("kind", DIFFERENT)
def test_stubs_that_differ_in_anything_are_kept(kind: str) -> None:
    pages = [(f"/{n}", HTML.format(body)) for n, body in enumerate(DIFFERENT[kind])]
    assert list_dropped(pages) == []


def test_the_same_stub_at_two_addresses_is_a_near_duplicate() -> None:
    places = {"/a": "here", "/b": "here", "/c": "there"}
    html = [(path, HTML.format(f"<p>Nothing {place}</p>")) for path, place in places.items()]
    matches = [decision.tests for decision in judge_pages(html).values()]
    assert matches == [[], ["same short page", "the same words and signs"], []]


@pytest.mark.parametrize("words", [31, 32, 33])
@pytest.mark.parametrize("rule", [Rule(7), Rule(3, "plain")])
def test_a_page_read_for_a_rule_is_the_document_of_one_read_for_any(words: int, rule: Rule) -> None:
    """With `min_features`, only pages below it get the digest of a stub."""
    html = HTML.format(" ".join(f"word{number}" for number in range(words)))
    document = make_document(fingerprint_page(html, seed=7, min_features=32), rule)
    assert document == make_document(fingerprint_page(html, seed=7), rule)
    assert document.facts.stub == (words < MIN_FEATURES == 32)
    assert bool(document.facts.hidden) == document.facts.stub


def test_a_page_read_for_another_rule_is_refused() -> None:
    page = fingerprint_page(HTML.format("<p>one two three</p>"), min_features=3)
    with pytest.raises(ValueError, match=r"a page of 3 features .* the rule's, 32; read it again"):
        make_document(page, Config().chosen_rule)


@pytest.mark.parametrize(("texts", "one"), [(("", ""), True), ((" 17", " 18"), False)])
def test_the_address_that_a_wall_writes_out_is_none_of_its_words(
    texts: tuple[str, str], one: bool
) -> None:
    said = "You have no permission to open {} on this server. Please go away."
    pages = []
    for path, text in zip(("shop/red-kettle", "new/green-tea"), texts, strict=True):
        url = f"http://site.example/{path}"
        made = fingerprint_page(HTML.format(f"<p>{said.format(url)}{text}</p>"), url=url)
        pages.append(Page.make(replace(made.facts, url=url), unpack(made.wording)))
    assert judge(pages[0], pages[1], UNKNOWN, UNKNOWN).one == one


MIRROR = "http://mirror.example"


def draw(
    url: str, product: int, *, nonce: int = 0, kind: str = "script", words: int = 200
) -> tuple[str, str]:
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
