"""Measure the index at 10 million beside FAISS, numpy brute force and PyPI `simhash`, in one run.

The subjects take turns, as in bench_store; ratios are medians of the ratios within a round. Cold
means that the pages of the store's file are not in the system's cache; FAISS stays in memory. See
README.md for what is measured and what is not.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import faiss
import numpy as np
from bench_store import Times, add_pages, add_to_simhash_index, progress
from machine import write_result
from simhash import Simhash, SimhashIndex
from subjects import (
    CRAWL,
    DISTANCE,
    FAISS,
    FAISS_HASH_BITS,
    FAISS_HASHES,
    FAISS_RADIUS,
    SIMHASH_INDEX,
    Pages,
    draw,
    faiss_row,
    near,
)

from scrapy_simhash.stores.opening import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from scrapy_simhash.stores.store import Store

SEED = 20_070_508
WIDE_BITS = 7
QUERIES, WIDE_QUERIES, BRUTE_QUERIES, COLD_QUERIES = 2_000, 500, 5, 200
PAGES_PER_ROUND, GROUP = 1_024, 64
OURS, OURS_COLD, BRUTE = "ours", "ours, cold", "numpy brute force"


def brute(fingerprints: NDArray[np.uint64], query: np.uint64, distance: int) -> NDArray[np.intp]:
    """Compare with all fingerprints."""
    return np.flatnonzero(np.bitwise_count(fingerprints ^ query) <= distance)


def verify(store: Store, index: Any, fingerprints: NDArray[np.uint64], random: Any) -> int:
    """Check that all subjects find the same; returns how many pairs that were."""
    pairs = 0
    for query in [*near(fingerprints, random, 20).tolist(), *draw(random, 5).tolist()]:
        for distance in (DISTANCE, WIDE_BITS):
            expected = set(fingerprints[brute(fingerprints, np.uint64(query), distance)].tolist())
            found = {match.fingerprint for match in store.query(query, distance)}
            if found != expected:
                raise SystemExit(f"ours finds {found}, not {expected}, near {query:016x}")
            pairs += len(expected)
        found = fingerprints[index.range_search(faiss_row(query), FAISS_RADIUS)[2]].tolist()
        if set(found) != {match.fingerprint for match in store.query(query, DISTANCE)}:
            raise SystemExit(f"FAISS finds {found} near {query:016x}")
    return pairs


def time_each(times: Times, name: str, search: Callable[[Any], object], queries: list[Any]) -> None:
    """Time a round of queries, one at a time."""
    start = time.perf_counter()
    for query in queries:
        search(query)
    times.note(name, time.perf_counter() - start, len(queries))


def forget_pages(path: Path) -> None:
    """Drop a file from the system's cache; nobody must have it mapped."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(file)


def measure_probes(folder: Path, count: int, runs: int, random: Any) -> dict[str, Any]:
    """Let the subjects take turns: 3 bits, 7 bits, warm and cold."""
    fingerprints = np.unique(draw(random, count))
    index = faiss.IndexBinaryMultiHash(64, FAISS_HASHES, FAISS_HASH_BITS)
    index.add(fingerprints.view(np.uint8).reshape(-1, 8))
    progress(f"{count:,}: loading ours")
    table_bytes = load_and_compact(folder, fingerprints, random)
    narrow, wide, pairs = Times(), Times(), 0
    for run in range(runs):
        progress(f"{count:,}: round {run + 1}")
        forget_pages(folder / "data.mdb")
        with open_store(str(folder), distance=DISTANCE, readonly=True) as store:
            time_each(narrow, OURS_COLD, store.query, draw(random, COLD_QUERIES).tolist())
            if not run:
                pairs = verify(store, index, fingerprints, random)
            store.stats()  # reads every page: warm from here on
            time_each(narrow, OURS, store.query, draw(random, QUERIES).tolist())
            rows = [faiss_row(query) for query in draw(random, QUERIES).tolist()]
            time_each(narrow, FAISS, lambda row: index.range_search(row, FAISS_RADIUS), rows)
            queries = draw(random, WIDE_QUERIES).tolist()
            time_each(wide, OURS, lambda query: store.query(query, WIDE_BITS), queries)
            few = [np.uint64(query) for query in draw(random, BRUTE_QUERIES).tolist()]
            time_each(wide, BRUTE, lambda query: brute(fingerprints, query, WIDE_BITS), few)
    return {
        "documents": count,
        "pairs_verified": pairs,
        "within_3_bits": narrow.summary(),
        "within_7_bits": wide.summary(),
        "faster_than_faiss": round(narrow.ratio(FAISS, OURS), 2),
        "cold_faster_than_faiss": round(narrow.ratio(FAISS, OURS_COLD), 2),
        "faster_than_brute_force": round(wide.ratio(BRUTE, OURS), 1),
        "bytes_per_fingerprint": table_bytes,
        "faiss_bytes_per_fingerprint": round(
            faiss.serialize_index_binary(index).size / fingerprints.size, 1
        ),
    }


def load_and_compact(folder: Path, fingerprints: NDArray[np.uint64], random: Any) -> dict[str, Any]:
    """Load a store; a fiftieth is added in groups, as by a crawl; then compact it."""
    singly = random.random(fingerprints.size) < 1 / 50
    with open_store(str(folder), distance=DISTANCE, tables=4) as store:
        store.bulk_load(fingerprints[~singly])
        loaded = store.stats()["table_bytes_per_fingerprint"]
        store.start_crawl(CRAWL, "bench")
        pages = Pages(fingerprints, random)
        documents = pages.make_of(fingerprints[singly])
        add_pages(store, documents, PAGES_PER_ROUND)
        added = store.stats()["table_bytes_per_fingerprint"]
        start = time.perf_counter()
        store.compact()
        seconds = time.perf_counter() - start
        store.end_crawl(CRAWL)
        return {
            "loaded": loaded,
            "with_added": added,
            "compacted": store.stats()["table_bytes_per_fingerprint"],
            "compact_seconds": round(seconds, 1),
        }


def measure_writes(
    folder: Path, stored: int, indexed: int, runs: int, random: Any
) -> dict[str, Any]:
    """Let our store and PyPI's index take turns in finding and adding pages."""
    fingerprints = np.unique(draw(random, stored))
    values = draw(random, indexed)
    index = SimhashIndex([(str(value), Simhash(value)) for value in values.tolist()], k=DISTANCE)
    times = Times()
    with open_store(str(folder), distance=DISTANCE, tables=4) as store:
        store.bulk_load(fingerprints)
        store.start_crawl(CRAWL, "bench")
        pages, others = Pages(fingerprints, random), Pages(values, random)
        for _ in range(runs):
            documents = pages.make(PAGES_PER_ROUND)
            start = time.perf_counter()
            add_pages(store, documents, GROUP)
            times.note(OURS, time.perf_counter() - start, len(documents))
            documents = others.make(PAGES_PER_ROUND)
            times.note(SIMHASH_INDEX, add_to_simhash_index(index, documents), len(documents))
        store.end_crawl(CRAWL)
    return {
        "ours_stored": stored,
        "theirs_stored": indexed,
        "find_and_add": times.summary(),
        "faster": round(times.ratio(SIMHASH_INDEX, OURS), 2),
    }


def lines(probes: dict[str, Any], writes: dict[str, Any]) -> Sequence[str]:
    """Write the results as a Markdown table with the bars."""

    def us(times: dict[str, Any], name: str) -> str:
        return f"{times[name]['median_us']:,.0f} us"

    narrow, wide = probes["within_3_bits"], probes["within_7_bits"]
    size = probes["bytes_per_fingerprint"]
    return [
        "| what | ours | opponent | times | bar |",
        "| --- | ---: | ---: | ---: | ---: |",
        (
            f"| probe within 3 bits, {probes['documents']:,}, warm | {us(narrow, OURS)} "
            f"| FAISS {us(narrow, FAISS)} | {probes['faster_than_faiss']} faster | 5 |"
        ),
        (
            f"| the same, cold (FAISS warm) | {us(narrow, OURS_COLD)} "
            f"| FAISS {us(narrow, FAISS)} | {probes['cold_faster_than_faiss']} faster | |"
        ),
        (
            f"| probe within 7 bits | {us(wide, OURS)} | brute force {us(wide, BRUTE)} "
            f"| {probes['faster_than_brute_force']} faster | 80 |"
        ),
        (
            f"| durable find-and-add in groups of {GROUP}, {writes['ours_stored']:,} stored "
            f"| {us(writes['find_and_add'], OURS)} | PyPI simhash, "
            f"{writes['theirs_stored']:,} stored, {us(writes['find_and_add'], SIMHASH_INDEX)} "
            f"| {writes['faster']} faster | 1 |"
        ),
        (
            f"| bytes per fingerprint after compact (before: {size['with_added']}) "
            f"| {size['compacted']} | FAISS {probes['faiss_bytes_per_fingerprint']} | | 28 |"
        ),
        "",
        (
            f"compact: {size['compact_seconds']} s. All found the same "
            f"{probes['pairs_verified']:,} fingerprints."
        ),
    ]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=10_000_000, help="for the probes")
    parser.add_argument("--stored", type=int, default=1_000_000, help="ours, for find-and-add")
    parser.add_argument("--indexed", type=int, default=200_000, help="PyPI simhash, likewise")
    parser.add_argument("--runs", type=int, default=5, help="rounds; medians are reported")
    parser.add_argument("--output", type=Path, help="JSON file")
    arguments = parser.parse_args()
    faiss.omp_set_num_threads(1)
    random = np.random.default_rng([SEED, arguments.documents])
    with tempfile.TemporaryDirectory(prefix="bench_index-") as folder:
        probes = measure_probes(
            Path(folder) / "probes", arguments.documents, arguments.runs, random
        )
        writes = measure_writes(
            Path(folder) / "writes", arguments.stored, arguments.indexed, arguments.runs, random
        )
    print("\n".join(lines(probes, writes)))
    write_result(
        arguments.output,
        ["scrapy-simhash", "lmdb", "numpy", "faiss-cpu", "simhash"],
        runs=arguments.runs,
        probes=probes,
        writes=writes,
    )


if __name__ == "__main__":
    main()
