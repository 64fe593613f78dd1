"""What does a store on Redis cost: memory, and time by group, beside LMDB in the same run?

With `--writers` it measures processes that judge and write at once in place of that, each with
pages of its own that were read before: it judges one after the other, and writes those that are
kept in groups, as a crawl does. Pages are made-up articles, which all processes get at other
addresses, or those of a folder.

Starts a `redis-server` of its own: without persistence, for writers with `appendfsync always`.
"""

from __future__ import annotations

import gzip
import multiprocessing
import subprocess
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from measuring import make_parser, print_figures, split_numbers, write_result
from redis import Redis
from sites import make_page
from subjects import SEED, Pages, Times, add_pages, draw

from scrapy_simhash.judging.documents import make_document
from scrapy_simhash.judging.evidence import Rule
from scrapy_simhash.judging.hosts import Hosts
from scrapy_simhash.judging.judge import Judge
from scrapy_simhash.pages.facts import Page, Reader
from scrapy_simhash.pages.fingerprint import fingerprint_page
from scrapy_simhash.stores.opening import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.queues import Queue
    from multiprocessing.synchronize import Barrier

    from scrapy_simhash.judging.documents import Change, Document, Verdict
    from scrapy_simhash.stores.documents import Documents
    from scrapy_simhash.stores.store import Store

DISTANCES = (3, 7)
GROUPS = (1, 16, 64)
PAGES_PER_FILL, PAGES_PER_BLOCK, ROUNDS = 1_024, 128, 5
GROUP_WRITTEN = 20
RULE = Rule(3)
PATIENCE_SECONDS = 600
# Every commit is synced, as LMDB does.
DURABLE = ("--appendonly", "yes", "--appendfsync", "always")


@contextmanager
def run_redis(folder: Path, *options: str) -> Iterator[str]:
    """Run a `redis-server` on a socket; yields its URL. Nothing is saved without an append file."""
    socket = folder / "socket"
    command = ["redis-server", "--port", "0", "--unixsocket", str(socket), "--dir", str(folder)]
    command += ["--save", "", *options]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as server:
        try:
            while not socket.exists():
                assert server.poll() is None, "redis-server ended"  # noqa: S101
                time.sleep(0.01)
            yield f"unix://{socket}"
        finally:
            server.kill()


def measure(count: int) -> dict[str, dict[str, float]]:
    """Fill a store with so many documents; returns figures by kind of store and distance."""
    random = np.random.default_rng([SEED, count])
    fingerprints = draw(random, count)
    pages = Pages(fingerprints, random)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(run_redis(folder))
        client = stack.enter_context(Redis.from_url(server))
        empty = client.info("memory")["used_memory"]
        filled = stack.enter_context(open_store(f"{server}?prefix=bench", distance=0))
        for done in range(0, count, PAGES_PER_FILL):
            filled.find_and_add(pages.make_of(fingerprints[done : done + PAGES_PER_FILL]))
        octets = (client.info("memory")["used_memory"] - empty) / count
        stores: dict[str, Store] = {}
        for distance in DISTANCES:
            for kind, url in (
                ("redis", f"{server}?prefix=bench"),
                ("lmdb", f"{folder}/{distance}"),
            ):
                store = stack.enter_context(open_store(url, distance))
                stores[f"{count:,}: {kind}, {distance} bits"] = store
                if kind == "lmdb":
                    store.bulk_load(filled.fingerprints())
        times = {group: Times() for group in GROUPS}
        for _ in range(ROUNDS):
            for group, noted in times.items():
                for name, store in stores.items():
                    work = partial(add_pages, store, pages.make(PAGES_PER_BLOCK), group)
                    noted.time(name, work, PAGES_PER_BLOCK)
    return {
        name: {f"add, groups of {group}, us": noted.median(name) for group, noted in times.items()}
        | ({"bytes a document": octets} if "redis" in name else {})
        for name in stores
    }


def read_pages(folder: Path | None, count: int, writer: int) -> list[Document]:
    """Read the pages of a process."""
    paths = [] if folder is None else sorted(folder.glob("*.html.gz"))
    pages = []
    for number in range(count):
        at = writer * count + number
        body = gzip.decompress(paths[at].read_bytes()) if paths else make_page(number, writer)
        url = f"http://site.example/{at if paths else f'{writer}/{number}'}"
        made = fingerprint_page(body, "utf-8", seed=SEED, url=url)
        page = Page(url, identity=url.encode(), time=0.0, reader=Reader("bench", "parse"))
        pages.append(make_document(made, RULE, page))
    return pages


def write_pages(
    url: str, arguments: tuple[Path | None, int, int], ready: Barrier, told: Queue[dict[str, Any]]
) -> None:
    """Be one of the processes: judge and write as the judge of a crawl, but for what is young."""
    pages, crawl = read_pages(*arguments), f"bench-{arguments[2]}"
    waits: list[float] = []
    statuses: Counter[str] = Counter()
    hosts = Hosts()
    kept: list[Change] = []
    with open_store(url) as store:

        def judge(page: Document, stored: Documents) -> tuple[Verdict, Change]:
            stored.read_ahead(page, RULE)
            return Judge(stored, RULE, crawl, hosts=hosts).judge(page)

        def write(changes: list[Change], stored: Documents) -> None:
            stored.read_ahead_of_saves(change[:2] for change in changes)
            for change in changes:
                stored.save(*change)

        ready.wait(PATIENCE_SECONDS)
        began = time.time()
        for page in pages:
            asked = time.time()
            verdict, change = store.read(partial(judge, page))
            waits.append(time.time() - asked)
            statuses[verdict.status] += 1
            kept.append(change)
            if len(kept) == GROUP_WRITTEN or page is pages[-1]:
                numbered = enumerate(kept, store.engine.take_numbers(len(kept)))
                changes = [each._replace(number=each.number or taken) for taken, each in numbered]
                store.write(partial(write, changes))
                kept.clear()
        ended = time.time()
        ready.wait(PATIENCE_SECONDS)  # the pages of one that has ended would not count
    told.put({"began": began, "ended": ended, "waits": waits, "statuses": statuses})


def measure_writers(writers: int, count: int, folder: Path | None) -> dict[str, float]:
    """Let processes write at once."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as place, run_redis(Path(place), *DURABLE) as server:
        url = f"{server}?prefix=bench"
        open_store(url, seed=SEED).close()
        ready, told = context.Barrier(writers), context.Queue()
        for writer in range(writers):
            given = (url, (folder, count, writer), ready, told)
            context.Process(target=write_pages, args=given, daemon=True).start()
        found = [told.get(timeout=PATIENCE_SECONDS) for _ in range(writers)]
    seconds = max(each["ended"] for each in found) - min(each["began"] for each in found)
    waits = [wait for each in found for wait in each["waits"]]
    return {
        "pages": writers * count,
        "seconds": seconds,
        "pages a second": writers * count / seconds,
        "median wait, ms": 1_000 * median(waits),
        "longest, ms": 1_000 * max(waits),
        **sum((each["statuses"] for each in found), Counter[str]()),
    }


def main() -> None:
    """Run the command line."""
    parser = make_parser(__doc__)
    parser.add_argument("--documents", default="100000,1000000", help="numbers of documents")
    parser.add_argument("--writers", type=int, help="measure so many processes that write at once")
    parser.add_argument("--pages", type=int, default=400, help="of each writer (default 400)")
    parser.add_argument("--folder", type=Path, help="of pages, in place of made-up articles")
    options = parser.parse_args()
    figures: dict[str, dict[str, float]] = {}
    if options.writers:
        written = measure_writers(options.writers, options.pages, options.folder)
        figures[f"{options.writers} writers"] = written
    else:
        for count in split_numbers(options.documents):
            figures |= measure(count)
    print_figures(figures)
    names = ("scrapy-simhash", "redis", "numpy", "lmdb")
    write_result(options.output, names, figures=figures)


if __name__ == "__main__":
    main()
