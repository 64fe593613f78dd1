"""The main text for the callback (`SIMHASH_HAND_OVER_TEXT`), as docs/running.md says."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scrapy.http import Request, Response

from scrapy_simhash.judge import client
from scrapy_simhash.pages.fingerprint import read_page
from scrapy_simhash.pages.main_text import read_main_text, read_text
from scrapy_simhash.signals import near_duplicate_found
from tests.helpers.beside import run_block
from tests.helpers.crawling import PagesSpider, crawl, crawl_pages
from tests.helpers.pages import make_words, page
from tests.helpers.server import Answer, Site

TEXT = "simhash_text"
ANSWERS = {"/one": page(1, links=["/two"]), "/copy": page(1, menu="Other menu"), "/two": page(2)}


class TextSpider(PagesSpider):
    """Notes what text there is: in callbacks, and where near-duplicates are signalled."""

    async def start(self) -> Any:
        self.texts: dict[str, str | None] = {}
        self.signalled: list[str | None] = []
        self.crawler.signals.connect(self.near_duplicate_found, near_duplicate_found)
        async for request in super().start():
            yield request

    def near_duplicate_found(self, request: Request) -> None:
        self.signalled.append(request.meta.get(TEXT))

    def parse(self, response: Response) -> Iterator[Any]:
        path = response.url.rpartition("/")[2]
        self.texts[path] = response.meta.get(TEXT)
        yield {"path": path}


async def test_callbacks_get_the_main_text_and_dropped_pages_need_none(
    site: Site, tmp_path: Path
) -> None:
    done = await crawl(tmp_path, site.urls(), TextSpider, SIMHASH_HAND_OVER_TEXT=True)
    spider = done.spider
    assert spider.texts == {"one": read_main_text(page(1)), "two": read_main_text(page(2))}
    assert " ".join(make_words(1)[1:50]) in " ".join(spider.texts["one"].split())
    assert spider.signalled == [None]
    assert all(TEXT not in decision for decision in done.decisions)
    # Nothing is handed over unless that is asked for.
    plain = await crawl(tmp_path / "plain", site.urls(), TextSpider)
    assert {*plain.spider.texts.values(), *plain.spider.signalled} == {None}


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
    there = dict.fromkeys(("one", "afterwards"), read_main_text(page(1)))
    assert done.spider.texts == there | dict.fromkeys(("in the copy", "copied"))


async def test_the_spider_of_the_guide(site: Site, tmp_path: Path) -> None:
    names = run_block("running.md", "class ArticlesSpider")
    spider = type("Spider", (names["ArticlesSpider"], PagesSpider), {})
    done = await crawl(tmp_path, [site.url("/one")], spider, SIMHASH_HAND_OVER_TEXT=True)
    assert done.items == [{"url": site.url("/one"), "text": read_main_text(page(1))}]


@pytest.mark.parametrize("processes", ["0", "1"])
async def test_a_reader_that_fails_costs_no_page(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    processes: str,
) -> None:
    """It raises, it hangs, it finds nothing: the page has its whole text, and is counted."""
    monkeypatch.setattr(client, "PAGE_SECONDS", 1.0)
    # Nothing can end what hangs on the event loop.
    names = ["first", "second", *(["third"] if processes == "1" else []), "fourth"]
    pages = {f"/{name}": page(place, menu=name) for place, name in enumerate(names)}
    given = {"SIMHASH_HAND_OVER_TEXT": "tests.helpers.hostile.read_badly"}
    given["SIMHASH_PROCESSES"] = processes
    done = await crawl_pages(tmp_path, pages, None, TextSpider, **given)
    whole = {name: read_page(pages[f"/{name}"].encode(), "utf-8").whole for name in names}
    assert done.spider.texts == whole | {"first": "what it found"}
    assert done.counted["failed/text"] == len(names) - 1
    assert caplog.text.count("whose whole text is handed over") == 1
    assert {each["status"] for each in done.decisions} == {"new"}


@pytest.mark.parametrize("named", ["trafilatura.extract", "html2txt"])
async def test_a_reader_is_named(site: Site, tmp_path: Path, named: str) -> None:
    done = await crawl(tmp_path, [site.url("/one")], TextSpider, SIMHASH_HAND_OVER_TEXT=named)
    assert done.spider.texts["one"] == read_text(ANSWERS["/one"].encode(), "utf-8", named)


SHORT, LONG = "A short text", "A text that is longer"


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<frameset><frame src=a></frameset>", ""),
        ("<header>Name</header><p>Text<p>More<nav>List</nav><script>x()</script>", "Text More"),
        (f"<div class=Site-Footer>{SHORT}</div><p>{LONG}", LONG),
        # What has most of the text is the text, whatever it is called.
        (f"<div class=comments>{LONG}</div><p>{SHORT}", f"{LONG} {SHORT}"),
        *((f"<p>{LONG}<main>{SHORT}</main>", SHORT), (f"<p>{LONG}<main>x</main>", f"{LONG} x")),
        ("<p>&#xd800;</p>", "\ufffd"),
    ],
)
def test_what_the_main_text_is(html: str, expected: str) -> None:
    assert " ".join(read_text(html.encode(), "utf-8", "turbohtml").split()) == expected
