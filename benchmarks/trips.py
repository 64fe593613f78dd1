"""The crawl that `structure.py` traces, in a process of its own.

`python trips.py FOLDER` crawls four pages and writes to FOLDER/trip.json when the trips of the two
near-duplicates began and ended (seconds of the monotonic clock): `page`, the first one of a store,
and `steady`, the second. Only public ways are used.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from crawling import PLUGIN, answer_html, crawl
from scrapy import Request, Spider
from sites import make_page

from scrapy_simhash import open_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy.http import Response
    from twisted.python.failure import Failure

TRIP_FILE = "trip.json"
ADDRESS = "http://structure.example"
# A store draws the seed of its token hash, and at how many bits pages are found depends on it.
SEED = 1
# What came through before is written when the page that is traced comes.
DELAY_SECONDS = 2.5
# What is known of each trip.
_times: dict[str, dict[str, Any]] = {}


def make_site() -> dict[str, bytes]:
    """Make four pages, by path; the last two are the first with a word more."""
    first, other = make_page(1, 1), make_page(2, 2)
    return {
        "/first": first,
        "/other": other,
        "/copy/first": first.replace(b"<nav>", b"<nav>changed "),
        "/again/first": first.replace(b"</body>", b"<p>altered</p></body>"),
    }


def find_trip(request: Request) -> str | None:
    """Name the trip that the page of a request makes."""
    return {"copy": "page", "again": "steady"}.get(request.url.split("/")[3])


class BeginMiddleware:
    """Right before the plugin's."""

    def process_response(self, request: Request, response: Response) -> Response:
        """Note when a near-duplicate gets there."""
        if trip := find_trip(request):
            _times[trip] = {"begin": time.monotonic()}
        return response


class OnePageSpider(Spider):
    """Fetches the pages one after the other."""

    name = "structure"

    async def start(self) -> AsyncIterator[Any]:
        """Ask for the first."""
        yield Request(f"{ADDRESS}/first")

    def parse(self, response: Response) -> Any:
        """Ask for the next."""
        yield {"url": response.url}
        following = {"/first": "/other", "/other": "/copy/first"}
        for path, after in following.items():
            if response.url.endswith(path):
                yield Request(f"{ADDRESS}{after}", errback=self.fail)

    def fail(self, failure: Failure) -> Request | None:
        """Note the end of the trip, and what was decided; ask for the last page."""
        ended = time.monotonic()
        request: Request = failure.request  # type: ignore[attr-defined]  # Scrapy adds it
        verdict = request.meta["simhash"]
        trip = find_trip(request) or ""
        _times[trip] |= {"end": ended, "status": verdict["status"]}
        if trip == "page":
            return Request(f"{ADDRESS}/again/first", errback=self.fail)
        return None


def main() -> None:
    """Crawl the pages until the last one is dropped, and write the times."""
    folder, site = Path(sys.argv[1]), make_site()

    async def answer(request: Request) -> Response:
        return answer_html(request, site[urlsplit(request.url).path])

    open_store(str(folder / "store"), distance=None, seed=SEED).close()
    settings = {
        "ADDONS": PLUGIN,
        "SIMHASH_STORE": str(folder / "store"),
        "DOWNLOADER_MIDDLEWARES": {BeginMiddleware: 546},
        "CONCURRENT_REQUESTS": 1,
        "DOWNLOAD_DELAY": DELAY_SECONDS,
        "DOWNLOAD_DELAY_JITTER": 0,
    }
    crawl(OnePageSpider, answer, settings)
    for trip in ("page", "steady"):
        if _times.get(trip, {}).get("status") != "near_duplicate":
            sys.exit(f"the copy was not dropped: {_times}")
    (folder / TRIP_FILE).write_text(json.dumps(_times))


if __name__ == "__main__":
    main()
