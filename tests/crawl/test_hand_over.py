"""The main text for the callback (`SIMHASH_HAND_OVER_TEXT`), as docs/text.md says."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trafilatura
from scrapy.http import Request, Response

from scrapy_simhash.pages.fingerprint import read_page
from scrapy_simhash.signals import near_duplicate_found
from scrapy_simhash.stores.opening import open_store
from tests.helpers.beside import run_block
from tests.helpers.crawling import PagesSpider, crawl
from tests.helpers.pages import make_words, page
from tests.helpers.server import Answer, Site

pytestmark = pytest.mark.usefixtures("warm_worker")
GUIDE = "text.md"
TEXT = "simhash_text"


ANSWERS = {
    "/one": page(1, links=["/two"]),
    "/copy": page(1, menu="Other menu"),
    "/two": page(2),
    "/file": Answer(b"no page", content_type="application/pdf"),
    "/empty": Answer(b""),
}


class TextSpider(PagesSpider):
    """Notes what text there is: in callbacks, and where near-duplicates are signalled."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.texts: dict[str, str | None] = {}
        self.signalled: list[str | None] = []

    async def start(self) -> Any:
        self.crawler.signals.connect(self.near_duplicate_found, near_duplicate_found)
        async for request in super().start():
            yield request

    def near_duplicate_found(self, request: Request) -> None:
        self.signalled.append(request.meta.get(TEXT))

    def parse(self, response: Response) -> Iterator[Any]:
        path = response.url.rpartition("/")[2]
        self.texts[path] = response.meta.get(TEXT)
        yield {"path": path}


def main_text(html: str) -> str:
    return read_page(html.encode(), "utf-8", "turbohtml").main


async def test_callbacks_get_the_text_that_was_compared(site: Site, tmp_path: Path) -> None:
    done = await crawl(
        tmp_path, site.urls(), TextSpider, SIMHASH_HAND_OVER_TEXT=True, SIMHASH_FILES=True
    )
    spider = done.spider
    assert spider.texts == {
        "one": main_text(page(1)),
        "two": main_text(page(2)),
        "file": None,
        "empty": None,
    }
    assert " ".join(make_words(1)[1:50]) in spider.texts["one"]
    assert spider.signalled == [main_text(page(1))]
    # Neither store nor log has it.
    assert all(TEXT not in decision for decision in done.decisions)
    with open_store(str(tmp_path), readonly=True) as store:
        assert store.read(lambda stored: stored.list_texts()) == set()


async def test_nothing_is_handed_over_unless_asked_for(site: Site, tmp_path: Path) -> None:
    done = await crawl(tmp_path, site.urls(), TextSpider, SIMHASH_KEEP_TEXT=True)
    assert set(done.spider.texts.values()) == {None}
    assert done.spider.signalled == [None]


@pytest.mark.parametrize("workers", [0, 1])
async def test_texts_are_kept_and_handed_over(site: Site, tmp_path: Path, workers: int) -> None:
    done = await crawl(
        tmp_path,
        [site.url("/one")],
        TextSpider,
        SIMHASH_HAND_OVER_TEXT=True,
        SIMHASH_KEEP_TEXT=True,
        SIMHASH_WORKERS=workers,
    )
    with open_store(str(tmp_path), readonly=True) as store:
        (document,) = store.find_document(site.url("/one"))
        assert document.text == done.spider.texts["one"] == main_text(page(1))


class CopyingSpider(TextSpider):
    """Copies the meta of a response to new requests, as careless spiders do."""

    def parse(self, response: Response) -> Iterator[Any]:
        yield from super().parse(response)
        if "one" in response.url:
            yield response.request  # filtered as a duplicate; its text must stay
            copied = Request(response.urljoin("/copied"), meta=response.meta, callback=self.later)
            yield copied
            self.texts["in the copy"] = copied.meta.get(TEXT)
            self.texts["afterwards"] = response.meta.get(TEXT)

    def later(self, response: Response) -> Iterator[Any]:
        yield from super().parse(response)


async def test_the_text_does_not_follow_copied_meta(site: Site, tmp_path: Path) -> None:
    site.answers["/copied"] = Answer(b"")
    done = await crawl(tmp_path, [site.url("/one")], CopyingSpider, SIMHASH_HAND_OVER_TEXT=True)
    assert done.spider.texts == {
        "one": main_text(page(1)),
        "in the copy": None,
        "afterwards": main_text(page(1)),
        "copied": None,
    }


async def test_the_spider_of_the_guide(site: Site, tmp_path: Path) -> None:
    names = run_block(GUIDE, "class ArticlesSpider")
    spider = type("Spider", (names["ArticlesSpider"], PagesSpider), {})
    done = await crawl(tmp_path, [site.url("/one")], spider, SIMHASH_HAND_OVER_TEXT=True)
    assert done.items == [{"url": site.url("/one"), "text": main_text(page(1))}]


async def test_the_text_of_trafilatura_for_every_page(site: Site, tmp_path: Path) -> None:
    names = run_block(GUIDE, '^SIMHASH_EXTRACTOR = "trafilatura"')
    del names["SIMHASH_STORE"]
    given = {key: value for key, value in names.items() if key.isupper()}
    done = await crawl(tmp_path, [site.url("/one")], TextSpider, **given)
    text = done.spider.texts["one"]
    assert text == read_page(page(1).encode(), "utf-8", "trafilatura").main
    assert done.decisions[0]["extractor"] == "trafilatura"


async def test_the_text_of_trafilatura_for_kept_pages(site: Site, tmp_path: Path) -> None:
    names = run_block(GUIDE, "class MarkdownSpider")
    spider = type("Spider", (names["MarkdownSpider"], PagesSpider), {})
    done = await crawl(tmp_path, [site.url("/one"), site.url("/copy")], spider)
    (item,) = done.items
    url = site.url("/one")
    assert item == {
        "url": url,
        "text": trafilatura.extract(page(1), url=url, output_format="markdown"),
    }
    assert item["text"]
