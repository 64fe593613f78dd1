"""What one sees while a crawl runs: the recipes of docs/running.md."""

import asyncio
import sqlite3
import sys
import zlib
from collections.abc import AsyncIterator
from operator import itemgetter
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from scrapy.http import Request, Response

from tests.helpers.beside import run_block, settings_of
from tests.helpers.crawling import PagesSpider, crawl, describe
from tests.helpers.needing import require_modules
from tests.helpers.pages import page
from tests.helpers.processes import ROOT
from tests.helpers.server import Site, serve

GUIDE = "running.md"
ANSWERS = {"/one": page(1), "/copy": page(1, menu="Other"), "/two": page(2)}


@pytest.fixture(autouse=True)
def _example(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "example_project")


async def test_limit_of_kept_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of eight pages six are copies; Scrapy's own limit of two is reached with one kept page."""
    pages = {f"/{n}": page(n // 4, menu=f"Menu {n}") for n in range(8)}
    names = run_block(GUIDE, "class CloseOnKeptPages")
    given = settings_of(GUIDE, "CLOSESPIDER_PAGECOUNT")
    assert given["CLOSESPIDER_PAGECOUNT"] > 2
    limit: dict[str, Any] = {"CLOSESPIDER_PAGECOUNT": 2}
    package = ModuleType("myproject")
    package.extensions = SimpleNamespace(**names)  # type: ignore[attr-defined]
    for name, module in (("myproject", package), ("myproject.extensions", package.extensions)):
        monkeypatch.setitem(sys.modules, name, module)
    with serve(pages) as site:
        plain = await crawl(tmp_path / "plain", site.urls(), **limit)
        done = await crawl(tmp_path / "kept", site.urls(), **given | limit)
    reasons = [each.stats["finish_reason"] for each in (plain, done)]
    assert reasons == ["closespider_pagecount"] * 2
    # One more may be on its way when the limit is reached.
    assert 2 <= plain.stats["response_received_count"] <= 3
    assert (plain.paths, done.paths) == (["/0"], ["/0", "/4"])
    assert 5 <= done.stats["response_received_count"] <= 6


class ScrapedSpider(PagesSpider):
    """Looks at the metrics of its own crawl from within each callback."""

    async def parse(self, response: Response) -> AsyncIterator[Any]:  # type: ignore[override]
        from example.metrics import Metrics  # noqa: PLC0415 - there in the tests that crawl

        metrics = self.crawler.get_extension(Metrics)
        assert metrics
        self.metrics_url = f"http://127.0.0.1:{metrics.port}/metrics"
        answer = await asyncio.to_thread(urlopen, self.metrics_url)
        yield {**describe(response), "metrics": answer.read().decode()}


async def test_prometheus_scrapes_a_running_crawl(site: Site, tmp_path: Path) -> None:
    require_modules("beside", "prometheus_client")
    from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415

    given = settings_of(GUIDE, "METRICS_PORT")
    assert given["METRICS_PORT"] > 0
    done = await crawl(tmp_path, site.urls(), ScrapedSpider, **given | {"METRICS_PORT": 0})
    assert sorted(done.paths) == ["/one", "/two"]
    families = [list(text_string_to_metric_families(item["metrics"])) for item in done.items]
    samples = [
        {sample.labels["stat"]: sample.value for sample in family.samples} for (family,) in families
    ]
    # Which page's callback looks first is chance; the last one has the whole crawl before it.
    first, last = sorted(samples, key=itemgetter("simhash/pages"))
    assert 1 <= first["simhash/pages"] <= last["simhash/pages"] == 3
    assert last["simhash/near_duplicate"] == 1
    assert last["simhash/bytes_dropped"] == len(page(1, menu="Other"))
    with pytest.raises(URLError):  # it stopped serving
        await asyncio.to_thread(urlopen, done.spider.metrics_url)


async def test_drops_are_kept_in_a_database(site: Site, tmp_path: Path) -> None:
    path = tmp_path / "drops.sqlite"
    given = settings_of(GUIDE, "DROPS_DATABASE") | {"DROPS_DATABASE": str(path)}
    flagged = Request(site.url("/copy?flagged"), meta={"simhash_action": "flag"})
    site.answers["/copy?flagged"] = site.answers["/copy"]
    done = await crawl(tmp_path / "store", [*site.urls()[:3], flagged], **given)
    assert done.counted["near_duplicate"] == 2
    with sqlite3.connect(path) as database:
        rows = database.execute("SELECT * FROM drops").fetchall()
    database.close()
    ((url, match_url, distance, similarity, better_url, body),) = rows
    assert not better_url
    assert (url, match_url) == (site.url("/copy"), site.url("/one"))
    drop = done.decisions[1]
    assert (distance, similarity) == (drop["distance"], drop["similarity"])
    assert zlib.decompress(body) == site.answers["/copy"].body


async def test_signal_of_the_guide(site: Site, tmp_path: Path) -> None:
    names = run_block(GUIDE, "class DocsSpider")
    spider = type("Spider", (names["DocsSpider"], PagesSpider), {})
    done = await crawl(tmp_path, site.urls(), spider)
    assert done.paths == ["/one", "/two"]
    assert done.spider.dropped == {site.url("/one"): [site.url("/copy")]}
