"""Shells: pages of scripts with hardly any text, of which each says that it is another one."""

import json
from html import escape

import pytest

from scrapy_simhash.config import Config
from scrapy_simhash.judging.documents import Document, Verdict, make_document
from scrapy_simhash.pages.fingerprint import fingerprint_page, make_recipe
from scrapy_simhash.stores.opening import open_store
from tests.helpers.documents import CRAWL
from tests.helpers.pages import make_words

RULE = Config().rule
HOST, MIRROR = "http://shop.example", "http://mirror.example"
WORDS = 100


def read(  # noqa: PLR0913 - what may tell shells apart
    path: str,
    *,
    title: str = "ACME",
    address: str | None = None,
    host: str = HOST,
    text: int = 1,
    words: int = WORDS,
    times: int = 30,
    extractor: str = "",
) -> Document:
    """Read a page with so many words, and so many times as much script that asks where it is."""
    shown = " ".join(make_words(text, words))
    script = ("show(location);" * times * len(shown))[: times * len(shown)]
    declared = "" if address is None else f'<meta property="og:url" content="{escape(address)}">'
    html = (
        f"<html><head><title>{title}</title>{declared}<script>{script}</script></head>"
        f"<body><div id=app><p>{shown}</p></div></body></html>"
    )
    recipe = make_recipe(extractor or Config().extractor, Config().features)
    url = host + path
    made = fingerprint_page(html.encode(), recipe=recipe, url=url)
    return make_document(made, RULE, url.encode(), url=url, time=1.0, crawl=CRAWL)


def judge(*pages: Document) -> list[str]:
    """Judge pages in one store, and say what is in it afterwards."""
    with open_store("memory:", RULE.distance, confirm=RULE.confirm, seed=3) as store:
        store.start_crawl(CRAWL, "spider")
        verdicts = store.find_and_add(pages)
        kept = {document.url for document in store.list_documents()}
        assert store.check() == []
    for page, verdict in zip(pages, verdicts, strict=True):
        assert (page.url in kept) == bool(verdict.document) == (verdict.reason != "shell")
    return [describe(verdict) for verdict in verdicts]


def describe(verdict: Verdict) -> str:
    return verdict.reason or verdict.status


@pytest.mark.parametrize("extractor", ["turbohtml", "trafilatura"])
def test_shells_of_other_addresses_or_titles_are_not_judged(extractor: str) -> None:
    """Each is nobody's original, and one that says the same is a near-duplicate as ever."""
    first = read("/?a", address=f"{HOST}/item?id=1", extractor=extractor)
    assert first.shell == "/item?id=1"
    assert not first.stub
    others = [
        read("/?b", address=f"{HOST}/item?id=2", extractor=extractor),
        read("/?c", address="/item?id=2", extractor=extractor),
        read("/?d", title="ACME - Red mug", address=f"{HOST}/item?id=1", extractor=extractor),
    ]
    same = read("/?e", address=f"{HOST}/item?id=1", extractor=extractor)
    assert judge(first, *others, same) == ["new", *["shell"] * 3, "near_duplicate"]


@pytest.mark.parametrize(
    "changed",
    [
        {"address": None},
        {"host": MIRROR, "address": f"{MIRROR}/2"},
        {"address": "http://www.shop.example/1"},
        {"words": 10 * WORDS},
        {"times": 10},
    ],
)
def test_what_may_be_one_page_is_a_near_duplicate(changed: dict[str, object]) -> None:
    """On another host, with no address, or with text to be told by."""
    fixed = {"words": WORDS, "times": 30, "address": f"{HOST}/1"}
    both = {key: value for key, value in changed.items() if key in {"words", "times"}}
    first = read("/?a", **{**fixed, **both})  # type: ignore[arg-type]
    second = read("/?b", **{**fixed, "address": f"{HOST}/2", **changed})  # type: ignore[arg-type]
    assert judge(first, second) == ["new", "near_duplicate"]


def test_pages_with_texts_of_their_own_are_no_shells() -> None:
    pages = [read(f"/?{n}", address=f"{HOST}/{n}", title=f"Item {n}", text=n) for n in range(3)]
    assert judge(*pages) == ["new"] * 3


def test_a_shell_is_judged_again_and_leaves_what_was_known() -> None:
    first, second = (read(f"/?{n}", address=f"{HOST}/{n}") for n in range(2))
    assert judge(first, second, second, first) == ["new", "shell", "shell", "unchanged"]


def test_a_shell_whose_drop_was_undone_passes() -> None:
    first, second = (read(f"/?{n}", address=f"{HOST}/{n % 2}") for n in (0, 2))
    with open_store("memory:", RULE.distance, confirm=RULE.confirm) as store:
        store.start_crawl(CRAWL, "spider")
        *_, dropped = store.find_and_add([first, second])
        assert dropped.match
        store.spare([dropped.document])
        again = read("/?2", address=f"{HOST}/3")
        assert describe(*store.find_and_add([again])) == "new"


def draw(  # noqa: PLR0913 - what may tell such pages apart
    path: str,
    product: int,
    *,
    nonce: int = 0,
    kind: str = "script",
    host: str = HOST,
    extractor: str = "turbohtml",
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
    recipe = make_recipe(extractor, Config().features)
    made = fingerprint_page(html.encode(), recipe=recipe, url=url)
    return make_document(made, RULE, url.encode(), url=url, time=1.0, crawl=CRAWL)


@pytest.mark.parametrize("extractor", ["turbohtml", "trafilatura"])
@pytest.mark.parametrize("kind", ["script", "attribute"])
def test_pages_that_a_browser_draws_from_other_data_are_kept(kind: str, extractor: str) -> None:
    pages = [draw(f"/p{n}", n, kind=kind, extractor=extractor) for n in range(5)]
    assert not any(page.stub for page in pages)
    # The same product, with another token and time.
    copy = draw("/p3?sid=7", 3, nonce=4, kind=kind, extractor=extractor)
    mirror = draw("/p3", 3, nonce=5, kind=kind, extractor=extractor, host=MIRROR)
    assert judge(*pages, copy, mirror) == ["new"] * 5 + ["near_duplicate"] * 2


@pytest.mark.parametrize("extractor", ["turbohtml", "trafilatura"])
def test_data_beside_which_there_is_text_do_not_count(extractor: str) -> None:
    pages = [draw(f"/p{n}", n, words=20, extractor=extractor) for n in range(2)]
    assert not any(page.data_fingerprint for page in pages)
    assert judge(*pages) == ["new", "near_duplicate"]
