"""What does a store on Redis cost: memory, and time by group, beside LMDB in the same run?

And how many pages a second have four crawls at once on one server? Starts servers of its own,
without persistence.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from bench_core import crawl_here
from measuring import (
    make_parser,
    print_figures,
    run_apart,
    run_script,
    split_numbers,
    write_result,
)
from redis import Redis
from subjects import SEED, Pages, Times, add_pages, draw, fill

from scrapy_simhash.stores.opening import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_simhash.stores.store import Store

DISTANCES = (3, 7)
PAGES_PER_BLOCK, ROUNDS = 128, 5
GROUPS = (1, 16, 64)
CRAWLS = 4


@contextmanager
def run_redis(folder: Path) -> Iterator[str]:
    """Run a `redis-server` on a socket; yields its URL. It saves nothing."""
    socket = folder / "socket"
    command = ["redis-server", "--port", "0", "--unixsocket", str(socket), "--dir", str(folder)]
    command += ["--save", ""]
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
        fill(filled, pages, fingerprints)
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
                    fill(store, pages, fingerprints)
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


def crawl_at_once(pages: int) -> float:
    """Crawl four sites of so many pages at once, on one server; returns pages a second."""
    with tempfile.TemporaryDirectory() as folder, run_redis(Path(folder)) as server:
        given = {"store": server, "pages": pages, "item_seconds": 0}
        with ThreadPoolExecutor(CRAWLS) as pool:
            found = list(pool.map(run_apart, ({**given, "name": f"{n}-"} for n in range(CRAWLS))))
    return CRAWLS * pages / max(float(each["seconds"]) for each in found)


def main() -> None:
    """Run the command line."""
    parser = make_parser(__doc__)
    parser.add_argument("--documents", default="100000,1000000", help="numbers of documents")
    parser.add_argument("--pages", type=int, default=2_000, help="of each of four crawls")
    options = parser.parse_args()
    figures = {"four crawls": {"pages/s": crawl_at_once(options.pages)}}
    for count in split_numbers(options.documents):
        figures |= measure(count)
    print_figures(figures)
    names = ("scrapy-simhash", "redis", "numpy", "lmdb")
    write_result(options.output, names, figures=figures)


if __name__ == "__main__":
    run_script(main, crawl_here)
