"""Measure crafted fingerprints beside random ones: many in one bucket must not make probes slow.

Each kind is found and added to an empty store of its own, in groups of 64, one kind after the other
in each round. See README.md for what is measured and what is not.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from bench_store import progress
from machine import write_result
from subjects import CRAWL, Pages, draw

from scrapy_simhash.stores.opening import open_store

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEED = 20_070_508
GROUP = 64
DISTANCES = (3, 7)
RANDOM = "random"


def craft(count: int, random: np.random.Generator) -> dict[str, NDArray[np.uint64]]:
    """Draw fingerprints of each kind."""
    plain = draw(random, count)
    block = np.uint64(0xABCD << 48)
    one = plain & np.uint64(2**48 - 1) | block
    site = plain.copy()
    site[: 2 * count // 5] = one[: 2 * count // 5]
    return {
        RANDOM: plain,
        "all in one bucket": one,
        "all in two buckets": plain & np.uint64(2**32 - 1) | block | np.uint64(0x1234 << 32),
        "40 % in one bucket": random.permutation(site),
    }


def run(fingerprints: NDArray[np.uint64], distance: int) -> tuple[float, Counter[str]]:
    """Find and add; returns microseconds a page, and how the pages were judged."""
    judged: Counter[str] = Counter()
    with (
        tempfile.TemporaryDirectory(prefix="bench_skew-") as folder,
        open_store(folder, distance=distance, tables=4) as store,
    ):
        store.start_crawl(CRAWL, "bench")
        documents = Pages(fingerprints, np.random.default_rng(SEED)).make_of(fingerprints)
        done: list[int] = []
        start = time.perf_counter()
        for at in range(0, len(documents), GROUP):
            verdicts = store.find_and_add(documents[at : at + GROUP], crawl=CRAWL, done=done)
            done = [verdict.document for verdict in verdicts if verdict.match is None]
            judged.update(verdict.status for verdict in verdicts)
        seconds = time.perf_counter() - start
        store.end_crawl(CRAWL)
    return 1e6 * seconds / len(documents), judged


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000, help="fingerprints of each kind")
    parser.add_argument("--runs", type=int, default=3, help="rounds; medians are reported")
    parser.add_argument("--output", type=Path, help="JSON file")
    parser.add_argument(
        "--most-times",
        type=float,
        help="exit code 1 where a kind takes more times as long as random",
    )
    arguments = parser.parse_args()
    kinds = craft(arguments.count, np.random.default_rng([SEED, arguments.count]))
    print("| within | fingerprints | us a page | times random | judged |")
    print("| --- | --- | ---: | ---: | --- |")
    rows: list[dict[str, Any]] = []
    for distance in DISTANCES:
        times: dict[str, list[float]] = {kind: [] for kind in kinds}
        judged: dict[str, Counter[str]] = {}
        for number in range(arguments.runs):
            for kind, fingerprints in kinds.items():
                progress(f"{distance} bits, round {number + 1}: {kind}")
                microseconds, judged[kind] = run(fingerprints, distance)
                times[kind].append(microseconds)
        for kind, rounds in times.items():
            ratio = statistics.median(
                mine / plain for mine, plain in zip(rounds, times[RANDOM], strict=True)
            )
            row = {
                "distance": distance,
                "kind": kind,
                "microseconds": statistics.median(rounds),
                "times_random": ratio,
                "judged": dict(judged[kind]),
            }
            rows.append(row)
            counts = ", ".join(f"{name} {number:,}" for name, number in judged[kind].items())
            cost = f"{row['microseconds']:,.0f} | {ratio:.2f}"
            print(f"| {distance} bits | {kind} | {cost} | {counts} |")
    write_result(arguments.output, ["scrapy-simhash", "lmdb", "numpy"], rows=rows)
    if arguments.most_times and any(row["times_random"] > arguments.most_times for row in rows):
        sys.exit(f"more than {arguments.most_times} times as long as random ones")


if __name__ == "__main__":
    main()
