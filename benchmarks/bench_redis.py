"""What does a store on Redis cost: memory, and time by group, beside LMDB in the same run?

With `--writers` it measures processes that judge and write at once in place of that, each with
pages of its own that were read before: it judges one after the other, and writes those that are
kept in groups, as a crawl does. Pages are made-up articles, which all processes get at other
addresses, or those of a folder.

Starts a `redis-server` of its own: without persistence, for writers with `appendfsync always`.
"""

from __future__ import annotations

import argparse
import gzip
import multiprocessing
import statistics
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from machine import DURABLE, print_table, progress, run_redis, write_result
from redis import Redis
from sites import make_page
from subjects import Pages, add_pages, draw

from scrapy_simhash.judging.documents import make_document
from scrapy_simhash.judging.evidence import Rule
from scrapy_simhash.judging.hosts import Hosts
from scrapy_simhash.judging.judge import Judge
from scrapy_simhash.pages.facts import Page, Reader
from scrapy_simhash.pages.fingerprint import fingerprint_page
from scrapy_simhash.stores.opening import open_store

if TYPE_CHECKING:
    from multiprocessing.queues import Queue
    from multiprocessing.synchronize import Barrier

    from scrapy_simhash.judging.documents import Change, Document, Verdict
    from scrapy_simhash.stores.documents import Documents
    from scrapy_simhash.stores.store import Store

SEED = 20_070_508
DISTANCES = (3, 7)
GROUPS = (1, 16, 64)
PAGES_PER_FILL, PAGES_PER_BLOCK, ROUNDS = 1_024, 128, 5
PREFIX = "bench"
GROUP_WRITTEN = 20
RULE = Rule(3)
PATIENCE_SECONDS = 600


def used_memory(client: Redis) -> int:
    """Ask the server what its data takes."""
    return int(client.info("memory")["used_memory"])


def time_groups(stores: dict[str, Store], pages: Pages) -> dict[str, dict[str, float]]:
    """Give microseconds a page, medians over the rounds; the stores take turns."""
    times: dict[tuple[str, int], list[float]] = {}
    for _ in range(ROUNDS):
        for group in GROUPS:
            for name, store in stores.items():
                documents = pages.make(PAGES_PER_BLOCK)
                start = time.perf_counter()
                add_pages(store, documents, group)
                seconds = time.perf_counter() - start
                times.setdefault((name, group), []).append(1e6 * seconds / PAGES_PER_BLOCK)
    return {
        name: {str(group): round(statistics.median(times[name, group]), 1) for group in GROUPS}
        for name in stores
    }


def measure(count: int) -> dict[str, Any]:
    """Measure one size."""
    random = np.random.default_rng([SEED, count])
    pages = Pages(draw(random, 1), random)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(run_redis(folder))
        client = stack.enter_context(Redis.from_url(server))
        url = f"{server}?prefix={PREFIX}"
        empty = used_memory(client)
        filled = stack.enter_context(open_store(url, distance=0))
        start = time.perf_counter()
        for done in range(0, count, PAGES_PER_FILL):
            documents = pages.make_of(draw(random, min(PAGES_PER_FILL, count - done)))
            filled.find_and_add(documents)
            if done % (100 * PAGES_PER_FILL) == 0:
                progress(f"{done:,} of {count:,}")
        row: dict[str, Any] = {
            "documents": count,
            "fill_us": round(1e6 * (time.perf_counter() - start) / count, 1),
            "bytes_per_document": round((used_memory(client) - empty) / count, 1),
        }
        stored = filled.fingerprints()
        stores: dict[str, Store] = {}
        for distance in DISTANCES:
            stores[f"redis, {distance} bits"] = stack.enter_context(open_store(url, distance))
            beside = stack.enter_context(open_store(str(folder / f"lmdb-{distance}"), distance))
            beside.bulk_load(stored)
            stores[f"lmdb, {distance} bits"] = beside
        progress("timing")
        row["add_us"] = time_groups(stores, Pages(stored, random))
    return row


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
    """Be one of the processes."""
    pages, crawl = read_pages(*arguments), f"bench-{arguments[2]}"
    waits: list[float] = []
    statuses: Counter[str] = Counter()
    with open_store(url) as store:
        hosts = Hosts()
        kept: list[Change] = []
        ready.wait(PATIENCE_SECONDS)
        began = time.time()
        for page in pages:
            asked = time.time()
            verdict, change = judge_page(store, page, crawl, hosts)
            waits.append(time.time() - asked)
            statuses[verdict.status] += 1
            kept.append(change)
            if len(kept) == GROUP_WRITTEN or page is pages[-1]:
                write_group(store, kept)
                kept = []
        ended = time.time()
        ready.wait(PATIENCE_SECONDS)  # the pages of one that has ended would not count
    told.put({"began": began, "ended": ended, "waits": waits, "statuses": dict(statuses)})


def judge_page(store: Store, page: Document, crawl: str, hosts: Hosts) -> tuple[Verdict, Change]:
    """Judge a page as the judge of a crawl does, but for what is young."""

    def work(stored: Documents) -> tuple[Verdict, Change]:
        stored.read_ahead(page, RULE)
        return Judge(stored, RULE, crawl, hosts=hosts).judge(page)

    return store.read(work)


def write_group(store: Store, kept: list[Change]) -> None:
    """Write a group as the judge of a crawl does."""
    numbered = enumerate(kept, store.engine.take_numbers(len(kept)))
    changes = [change._replace(number=change.number or taken) for taken, change in numbered]

    def work(stored: Documents) -> None:
        stored.read_ahead_of_saves(change[:2] for change in changes)
        for change in changes:
            stored.save(*change)

    store.write(work)


def measure_writers(writers: int, count: int, folder: Path | None) -> dict[str, Any]:
    """Let processes write at once."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as place, run_redis(Path(place), *DURABLE) as server:
        url = f"{server}?prefix={PREFIX}"
        open_store(url, seed=SEED).close()
        ready, told = context.Barrier(writers), context.Queue()
        for writer in range(writers):
            given = (url, (folder, count, writer), ready, told)
            context.Process(target=write_pages, args=given, daemon=True).start()
        found = [told.get(timeout=PATIENCE_SECONDS) for _ in range(writers)]
    seconds = max(each["ended"] for each in found) - min(each["began"] for each in found)
    waits = sorted(wait for each in found for wait in each["waits"])
    return {
        "writers": writers,
        "pages": writers * count,
        "pages_per_second": round(writers * count / seconds, 1),
        "seconds_of_each": sorted(round(each["ended"] - each["began"], 1) for each in found),
        "wait_ms_p50": round(1_000 * statistics.median(waits)),
        "wait_ms_worst": round(1_000 * waits[-1]),
        "statuses": dict(sum((Counter(each["statuses"]) for each in found), Counter())),
    }


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", default="100000,1000000", help="numbers of documents")
    parser.add_argument("--output", type=Path, help="write the results as JSON")
    parser.add_argument("--writers", type=int, help="measure so many processes that write at once")
    parser.add_argument("--pages", type=int, default=400, help="of each writer (default 400)")
    parser.add_argument("--folder", type=Path, help="of pages, in place of made-up articles")
    arguments = parser.parse_args()
    if arguments.writers:
        rows = [measure_writers(arguments.writers, arguments.pages, arguments.folder)]
        print("\n".join(f"{name}: {value}" for name, value in rows[0].items()))
    else:
        rows = [measure(int(count)) for count in arguments.documents.split(",")]
        for row in rows:
            print(f"\n{row['documents']:,} documents: {row['bytes_per_document']} bytes each")
            head = ("find and add, us a page", *(f"groups of {group}" for group in GROUPS))
            print_table(head, [(name, *times.values()) for name, times in row["add_us"].items()])
    write_result(arguments.output, ("scrapy-simhash", "redis", "numpy", "lmdb"), rows=rows)


if __name__ == "__main__":
    main()
