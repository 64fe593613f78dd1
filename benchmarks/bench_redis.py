"""Measure a Redis store: memory by what it is for, and time by group, beside LMDB in the same run.

Starts a `redis-server` of its own, without persistence. See README.md for what is measured and what
is not.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from machine import progress, write_result
from redis import Redis
from subjects import CRAWL, Pages, add_pages, draw

from scrapy_simhash.stores.opening import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scrapy_simhash.stores.store import Store

SEED = 20_070_508
DISTANCES = (3, 7)
GROUPS = (1, 16, 64)
PAGES_PER_FILL, PAGES_PER_BLOCK, ROUNDS = 1_024, 128, 5
PREFIX = "bench"
# Of the keys, see `stores/redis/places.py`.
KINDS = {
    "t": "tables",
    "f": "fingerprints to documents",
    "i": "identities",
    "d": "records",
    "u": "URLs",
}


@contextmanager
def run_server(folder: Path) -> Iterator[Redis]:
    """Run a server on a socket."""
    socket = folder / "socket"
    command = ("redis-server", "--port", "0", "--unixsocket", str(socket), "--save", "")
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL) as process:
        try:
            while not socket.exists():
                time.sleep(0.01)
            with Redis(unix_socket_path=str(socket)) as client:
                yield client
        finally:
            process.kill()


def used_memory(client: Redis) -> int:
    """Ask the server what its data takes."""
    return int(client.info("memory")["used_memory"])


def weigh(client: Redis, count: int) -> dict[str, float]:
    """Say how many bytes a document each kind of keys takes, by deleting them."""
    found: dict[str, float] = {}
    for kind, name in KINDS.items():
        before = used_memory(client)
        for key in client.scan_iter(f"{{{PREFIX}:{kind}*", 10_000):
            client.delete(key)
        found[name] = round((before - used_memory(client)) / count, 1)
    return found


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
        client = stack.enter_context(run_server(folder))
        url = f"unix://{folder}/socket?prefix={PREFIX}"
        empty = used_memory(client)
        filled = stack.enter_context(open_store(url, distance=0))
        filled.start_crawl(CRAWL, "bench")
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
        for store in stores.values():
            if "unix:" not in store.url:
                store.start_crawl(CRAWL, "bench")
        progress("timing")
        row["add_us"] = time_groups(stores, Pages(stored, random))
        filled.end_crawl(CRAWL)
        row["bytes"] = weigh(client, count)
    return row


def lines(row: dict[str, Any]) -> Sequence[str]:
    """Write the results of one size as Markdown."""
    octets = row["bytes_per_document"]
    return [
        f"{row['documents']:,} documents of one fingerprint: {octets} bytes each",
        "",
        f"| {' | '.join(row['bytes'])} |",
        "| " + " | ".join(["---:"] * len(row["bytes"])) + " |",
        f"| {' | '.join(f'{octets:,.1f}' for octets in row['bytes'].values())} |",
        "",
        f"| find and add, us a page | {' | '.join(f'groups of {group}' for group in GROUPS)} |",
        "| --- | " + " | ".join(["---:"] * len(GROUPS)) + " |",
        *(
            f"| {name} | {' | '.join(f'{times[str(group)]:,.0f}' for group in GROUPS)} |"
            for name, times in row["add_us"].items()
        ),
        "",
    ]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", default="100000,1000000", help="numbers of documents")
    parser.add_argument("--output", type=Path, help="write the results as JSON")
    arguments = parser.parse_args()
    rows = [measure(int(count)) for count in arguments.documents.split(",")]
    for row in rows:
        print("\n".join(lines(row)))
    write_result(arguments.output, ("scrapy-simhash", "redis", "numpy", "lmdb"), rows=rows)


if __name__ == "__main__":
    main()
