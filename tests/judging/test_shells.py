"""Shells: pages of scripts with hardly any text, of which each says that it is another one."""

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
    """Read a page with so many words, and so many times as much script that says what is there."""
    shown = " ".join(make_words(text, words))
    script = (f"show({path!r});" * times * len(shown))[: times * len(shown)]
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
