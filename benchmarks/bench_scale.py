"""Measure how a store grows: bytes, probes and writes from 10 thousand fingerprints upwards.

Each size is a store of its own: bulk-loaded, then 10,000 pages are found and added in groups of 64.
See README.md for what is measured and what is not, and docs/offline.md for what follows from it.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from bench_index import forget_pages
from bench_store import add_pages, progress
from machine import write_result
from subjects import CRAWL, Pages, draw

from scrapy_simhash.stores.opening import open_store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_simhash.stores.store import Store

SEED = 20_070_508
NARROW_BITS, WIDE_BITS = 3, 7
COLD_QUERIES, QUERIES, WIDE_QUERIES = 200, 2_000, 300
PAGES, GROUP, ROUNDS = 10_000, 64, 5
COLUMNS = {
    "load_seconds": "load, s",
    "table_bytes_per_fingerprint": "bytes per fingerprint",
    "cold_us": "cold probe, us",
    "cold_faults": "pages read from disk per cold probe",
    "probe_us": "probe within 3 bits, us",
    "wide_us": "within 7 bits, us",
    "add_us": "find and add, us",
    "after_us": "probe afterwards, us",
    "peak_mb": "peak memory, MB",
}


def time_queries(store: Store, distance: int, count: int, random: np.random.Generator) -> float:
    """Give microseconds a query, one at a time; the median of the rounds."""
    rounds = []
    for _ in range(ROUNDS):
        queries = draw(random, count // ROUNDS).tolist()
        start = time.perf_counter()
        for query in queries:
            store.query(query, distance)
        rounds.append(1e6 * (time.perf_counter() - start) / len(queries))
    return statistics.median(rounds)


def time_cold(store: Store, random: np.random.Generator) -> tuple[float, float]:
    """Give microseconds and pages read from disk a query, nothing of the file in memory."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_majflt
    start = time.perf_counter()
    for query in draw(random, COLD_QUERIES).tolist():
        store.query(query, NARROW_BITS)
    seconds = time.perf_counter() - start
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_majflt - before
    return 1e6 * seconds / COLD_QUERIES, faults / COLD_QUERIES


def measure(folder: Path, count: int, tables: str) -> dict[str, float]:
    """Measure one size."""
    random = np.random.default_rng([SEED, count])
    progress(f"{count:,}: loading")
    with open_store(str(folder), tables=tables) as store:
        fingerprints = draw(random, count)
        start = time.perf_counter()
        store.bulk_load(fingerprints)
        row: dict[str, float] = {
            "documents": count,
            "load_seconds": round(time.perf_counter() - start, 1),
            "table_bytes_per_fingerprint": store.stats()["table_bytes_per_fingerprint"],
        }
    forget_pages(folder / "data.mdb")
    with open_store(str(folder), tables=tables) as store:
        progress(f"{count:,}: probing")
        row["cold_us"], row["cold_faults"] = time_cold(store, random)
        store.stats()  # reads every page: warm from here on
        time_queries(store, NARROW_BITS, QUERIES, random)
        row["probe_us"] = time_queries(store, NARROW_BITS, QUERIES, random)
        row["wide_us"] = time_queries(store, WIDE_BITS, WIDE_QUERIES, random)
        store.start_crawl(CRAWL, "bench")
        documents = Pages(fingerprints, random).make(PAGES)
        start = time.perf_counter()
        add_pages(store, documents, GROUP)
        row["add_us"] = 1e6 * (time.perf_counter() - start) / PAGES
        row["after_us"] = time_queries(store, NARROW_BITS, QUERIES, random)
        store.end_crawl(CRAWL)
    # Of the largest so far: the system tells no other.
    row["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return row


def lines(rows: Sequence[dict[str, float]]) -> Sequence[str]:
    """Write the results as Markdown."""
    head = f"| documents | {' | '.join(COLUMNS.values())} |"
    body = [
        f"| {row['documents']:,} | " + " | ".join(f"{row[name]:,.1f}" for name in COLUMNS) + " |"
        for row in rows
    ]
    return [head, "| " + " | ".join(["---:"] * (len(COLUMNS) + 1)) + " |", *body]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", default="10000,100000,1000000", help="numbers of documents")
    parser.add_argument("--tables", default="4", help="table design")
    parser.add_argument("--folder", type=Path, help="where the stores go while they are measured")
    parser.add_argument("--output", type=Path, help="JSON file")
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for count in map(int, arguments.documents.split(",")):
        with tempfile.TemporaryDirectory(prefix="bench_scale-", dir=arguments.folder) as folder:
            rows.append(measure(Path(folder), count, arguments.tables))
    print("\n".join(lines(rows)))
    write_result(arguments.output, ["scrapy-simhash", "lmdb", "numpy"], rows=rows)


if __name__ == "__main__":
    main()
