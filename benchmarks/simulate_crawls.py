"""Do many crawls with one store let nothing through: eight Scrapy processes on LMDB and on Redis?

A site in a process of its own has groups of near-duplicates: same text, other links and addresses.
Each process crawls some copies of every group, in the same order, and none gets a page before all
have asked for one: copies of a group are in flight in all processes at once. Each run has a fresh
store:

* throughput: judged pages a second, from the first decision of any process to the last;
* waiting: `store_ms` of the decisions, milliseconds from the document to its verdict on disk: the
  group, other writers, the sync;
* let through: pages judged new beyond the first of their group. There must be none, nor a group of
  which none was kept, nor a drop for another group; otherwise the exit code is 1.

Redis syncs every commit (appendfsync always), as LMDB does, and listens on a socket of the same
machine. Not measured: networks, politeness, other machines; all processes share the cores.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from machine import DURABLE, print_table, run_redis, write_result
from sites import make_page

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.http import Response

COPIES = 8
_PATIENCE_SECONDS = 1_800


class _Site(ThreadingHTTPServer):
    daemon_threads = True
    # With the default of 5, connections of busy crawls are lost and only retried much later.
    request_queue_size = 256

    def __init__(self, processes: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.awaited = threading.Barrier(processes)


class _Handler(BaseHTTPRequestHandler):
    server: _Site
    protocol_version = "HTTP/1.1"
    # Head and body are two writes; Nagle's algorithm would hold back the second for 40 ms.
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        if self.path == "/gate":
            self.server.awaited.wait(_PATIENCE_SECONDS)
            body = b"open"
        else:
            body = make_page(*map(int, self.path.strip("/").split("/")))
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def serve(processes: int) -> None:
    """Run the site until it is killed; tells its port first."""
    with _Site(processes) as site:
        print(site.server_port, flush=True)
        site.serve_forever()


def crawl(urls: list[str], settings: dict[str, Any]) -> None:
    """Run one crawl; the first URL opens when all crawls have asked for it."""
    from scrapy import Request, Spider  # noqa: PLC0415 - the site needs none of it
    from scrapy.crawler import AsyncCrawlerProcess  # noqa: PLC0415

    class SimulatedSpider(Spider):
        name = "simulated"

        async def start(self) -> AsyncIterator[Any]:
            yield Request(urls[0], self.begin, meta={"simhash_skip": True})

        def begin(self, _: Response) -> Iterator[Any]:
            for number, url in enumerate(urls[1:]):
                yield Request(url, priority=-number)

        def parse(self, response: Response) -> Iterator[Any]:
            yield {"url": response.url}

    process = AsyncCrawlerProcess(settings)
    crawler = process.create_crawler(SimulatedSpider)
    process.crawl(crawler)
    process.start()
    assert crawler.stats is not None  # noqa: S101
    print(crawler.stats.get_value("log_count/ERROR", 0))


def start_crawl(work: str) -> subprocess.Popen[str]:
    """Start a crawl in a process; what it is to do is too long for a command line."""
    command = [sys.executable, __file__, "--crawl"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None  # noqa: S101
    process.stdin.write(work)
    process.stdin.close()
    process.stdin = None
    return process


@contextmanager
def start_site(processes: int) -> Iterator[str]:
    """Start the site in a process; yields its address."""
    command = [sys.executable, __file__, "--serve", str(processes)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as site:
        try:
            assert site.stdout is not None  # noqa: S101
            yield f"http://127.0.0.1:{int(site.stdout.readline())}"
        finally:
            site.kill()


@contextmanager
def make_store(kind: str, folder: Path) -> Iterator[str]:
    """Make room for a store; yields its URL."""
    if kind == "lmdb":
        yield str(folder / "store")
        return
    with run_redis(folder, *DURABLE) as url:
        yield url


def simulate(kind: str, processes: int, pages: int) -> dict[str, Any]:
    """Crawl all pages with so many processes; see what they decided."""
    groups = pages // COPIES
    with ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory(dir="/tmp")))
        store = held.enter_context(make_store(kind, folder))
        root = held.enter_context(start_site(processes))
        running = []
        for number in range(processes):
            copies = range(number, COPIES, processes)
            urls = [f"{root}/{group}/{copy}/" for group in range(groups) for copy in copies]
            settings = {
                "ADDONS": {"scrapy_simhash.Addon": 500},
                "SIMHASH_STORE": store,
                "SIMHASH_LOG": str(folder / f"log-{number}.jsonl"),
                "SIMHASH_WORKERS": 1,
                "CONCURRENT_REQUESTS": 16,
                "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
                "DOWNLOAD_DELAY": 0,
                "DOWNLOAD_TIMEOUT": _PATIENCE_SECONDS,
                "LOG_LEVEL": "ERROR",
                "TELNETCONSOLE_ENABLED": False,
            }
            work = json.dumps([[f"{root}/gate", *urls], settings])
            running.append(start_crawl(work))
        errors = sum(int(each.communicate()[0].splitlines()[-1]) for each in running)
        decisions = [
            json.loads(line)
            for path in folder.glob("log-*.jsonl")
            for line in path.read_text().splitlines()
        ]
        return {
            "store": kind,
            "processes": processes,
            "pages": groups * COPIES,
            "groups": groups,
            **summarise(decisions, groups),
            "errors": errors,
            "problems_in_store": check(store),
        }


def check(store: str) -> list[str]:
    """Let the store compare itself."""
    from scrapy_simhash import open_store  # noqa: PLC0415 - the site needs none of it

    with open_store(store, distance=0, readonly=True) as opened:
        return opened.check()


def summarise(decisions: list[dict[str, Any]], groups: int) -> dict[str, Any]:
    """Measure the decisions, and count what is wrong with them."""
    judged = [each for each in decisions if each["status"] in ("new", "near_duplicate")]
    kept = Counter(group_of(each["url"]) for each in judged if each["status"] == "new")
    dropped = [each for each in judged if each["status"] == "near_duplicate"]
    times = sorted(each["time"] for each in judged)
    waits = sorted(each["store_ms"] for each in judged if each["store_ms"] is not None)
    return {
        "judged": len(judged),
        "new": kept.total(),
        "near_duplicates": len(dropped),
        "seconds": round(times[-1] - times[0], 2),
        "pages_per_second": round(len(judged) / (times[-1] - times[0]), 1),
        "store_ms_p50": round(statistics.median(waits), 1),
        "store_ms_p99": round(waits[int(0.99 * (len(waits) - 1))], 1),
        "store_ms_worst": round(waits[-1], 1),
        # A page that was not judged reaches the spider, too.
        "let_through": len(judged) - len(dropped) - len(kept),
        "groups_lost": groups - len(kept),
        "dropped_for_another_group": sum(
            group_of(each["url"]) != group_of(each["match_url"]) for each in dropped
        ),
    }


def group_of(url: str) -> str:
    """Name the group of a page."""
    return urlsplit(url).path.split("/")[1]


def find_faults(run: dict[str, Any]) -> Iterator[str]:
    """Name what went wrong in a run."""
    name = f"{run['store']}, {run['processes']} processes"
    for key in ("let_through", "groups_lost", "dropped_for_another_group", "errors"):
        if run[key]:
            yield f"{name}: {run[key]} {key.replace('_', ' ')}"
    if run["judged"] != run["pages"]:
        yield f"{name}: {run['judged']} of {run['pages']} pages judged"
    if run["problems_in_store"]:
        yield f"{name}: {run['problems_in_store'][0]}"


def main() -> None:
    """Run the simulations in turn, print what they measured; fail where a duplicate got through."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--pages", type=int, default=4_000, help="in all (default 4,000)")
    parser.add_argument("--processes", default="1,8", help="of each store (default 1,8)")
    parser.add_argument("--stores", default="lmdb,redis", help="default lmdb,redis")
    parser.add_argument("--output", type=Path, help="write the results as JSON")
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--crawl", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
    elif options.crawl:
        crawl(*json.load(sys.stdin))
    else:
        compare(options)


def compare(options: argparse.Namespace) -> None:
    """Run each store with each number of processes."""
    kinds = options.stores.split(",")
    if "redis" in kinds and shutil.which("redis-server") is None:
        sys.exit("there is no redis-server: apt-get install redis-server, or --stores lmdb")
    runs = [
        simulate(kind, int(processes), options.pages)
        for kind in kinds
        for processes in options.processes.split(",")
    ]
    columns = ["store", "processes", "pages_per_second", "store_ms_p50", "store_ms_p99"]
    columns += ["store_ms_worst", "let_through"]
    print_table(columns, [[run[column] for column in columns] for run in runs])
    faults = [fault for run in runs for fault in find_faults(run)]
    print(f"\n{'; '.join(faults) or 'no duplicate was let through'}")
    names = ("scrapy-simhash", "scrapy", "lmdb", "redis")
    write_result(options.output, names, runs=runs, faults=faults)
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
