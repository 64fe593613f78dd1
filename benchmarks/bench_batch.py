"""Measure many queries at once beside FAISS's batch range search, both in one run.

The subjects take turns; times are medians, the ratio is the median of those within a round.
See README.md for what is measured and what is not.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import faiss
import numpy as np
from machine import describe_machine, describe_versions
from subjects import DISTANCE, FAISS_HASH_BITS, FAISS_HASHES, FAISS_RADIUS, draw, near

from scrapy_simhash.batch.joins import batch_query

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEED = 20_070_508
CHUNK = 1 << 20


def ask_faiss(index: Any, queries: NDArray[np.uint64]) -> Any:
    """Search for all queries at once."""
    return index.range_search(queries.view(np.uint8).reshape(-1, 8), FAISS_RADIUS)


def ask_ours(queries: NDArray[np.uint64], stored: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Build tables on the queries, let the stored fingerprints pass."""
    chunks = (stored[start : start + CHUNK] for start in range(0, stored.size, CHUNK))
    return batch_query(queries, chunks, DISTANCE)


def verify(found: Any, queries: NDArray[np.uint64], stored: NDArray[np.uint64], rows: Any) -> int:
    """End the run if both found different pairs; returns how many they found."""
    limits, _, places = found
    owners = np.repeat(queries, np.diff(limits.astype(np.int64)))
    pairs = np.stack([owners, stored[places]], axis=1)
    pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
    if not np.array_equal(pairs, rows[:, :2]):
        raise SystemExit(f"FAISS finds {len(pairs):,} pairs, we find {len(rows):,}, not the same")
    return len(pairs)


def measure(queries: int, documents: int, rounds: int) -> dict[str, Any]:
    """Let both take turns; half of the queries are near to a stored fingerprint."""
    random = np.random.default_rng([SEED, queries, documents])
    stored = np.unique(draw(random, documents))
    random.shuffle(stored)
    asked = np.concatenate([draw(random, queries // 2), near(stored, random, queries // 2)])
    asked = np.unique(asked)
    start = time.perf_counter()
    index = faiss.IndexBinaryMultiHash(64, FAISS_HASHES, FAISS_HASH_BITS)
    index.add(stored.view(np.uint8).reshape(-1, 8))
    build_seconds = time.perf_counter() - start
    times: dict[str, list[float]] = {"ours": [], "faiss": []}
    pairs = 0
    for _ in range(rounds):
        start = time.perf_counter()
        rows = ask_ours(asked, stored)
        times["ours"].append(time.perf_counter() - start)
        start = time.perf_counter()
        found = ask_faiss(index, asked)
        times["faiss"].append(time.perf_counter() - start)
        pairs = verify(found, asked, stored, rows)
    ratios = [theirs / mine for mine, theirs in zip(times["ours"], times["faiss"], strict=True)]
    return {
        "queries": asked.size,
        "documents": stored.size,
        "pairs": pairs,
        "ours_median_seconds": round(statistics.median(times["ours"]), 4),
        "faiss_median_seconds": round(statistics.median(times["faiss"]), 4),
        "faiss_build_seconds": round(build_seconds, 4),
        "ratio": round(statistics.median(ratios), 2),
        "rounds_seconds": {name: [round(t, 4) for t in each] for name, each in times.items()},
    }


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3, help="medians are reported")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results/batch.json")
    given = parser.parse_args()
    faiss.omp_set_num_threads(os.cpu_count() or 1)
    machine = describe_machine()
    versions = describe_versions("scrapy-simhash", "numpy", "faiss-cpu")
    figures = measure(given.queries, given.documents, given.rounds)
    print(", ".join(f"{name} {value}" for name, value in {**machine, **versions}.items()) + "\n")
    print(f"{figures['queries']:,} queries, {figures['documents']:,} stored fingerprints, ", end="")
    print(f"{figures['pairs']:,} pairs found by both; medians of {given.rounds} rounds\n")
    print("| | seconds | to ours |\n| --- | ---: | ---: |")
    print(f"| ours, tables on the queries included | {figures['ours_median_seconds']:.2f} | 1.0 |")
    print(
        f"| FAISS IndexBinaryMultiHash, without {figures['faiss_build_seconds']:.1f} s to build it "
        f"| {figures['faiss_median_seconds']:.2f} | {figures['ratio']:.1f} |"
    )
    command = " ".join(["python benchmarks/bench_batch.py", *sys.argv[1:]])
    report = {"command": command, "machine": machine, "versions": versions, **figures}
    given.output.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
