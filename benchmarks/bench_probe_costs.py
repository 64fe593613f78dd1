"""The constants of the planner: probes of several designs and sizes, and the costs that fit them.

Microseconds of a probe are taken as a + b * keys looked up + c * candidates read, fitted by least
squares of the relative error. Random fingerprints, warm cache, one query at a time.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
from machine import describe_machine, describe_versions

from scrapy_simhash.stores.opening import open_store
from scrapy_simhash.tables.costs import expected_candidates, keys_per_table
from scrapy_simhash.tables.designs import parse_design

if TYPE_CHECKING:
    from scrapy_simhash.stores.store import Store

# Designs and distances: few keys and many, few candidates and many.
_PROBES = {"4": (3, 7), "10": (3, 4), "2:1": (3,), "20": (3,)}
# Larger stores only with fewer tables; loading the others would take most of the time.
_MOST_ROWS = 40_000_000
_SCANNED = 10_000_000


def time_probe(store: Store, distance: int, runs: int, random: np.random.Generator) -> float:
    """Take the median over queries, each asked once; in microseconds."""
    queries = random.integers(0, 2**64, runs, np.uint64).tolist()
    seconds = []
    for query in queries:
        start = time.perf_counter()
        store.query(query, distance)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds) * 1e6


def time_scan(random: np.random.Generator) -> float:
    """Compare one fingerprint with ten million; in microseconds per fingerprint."""
    fingerprints = random.integers(0, 2**64, _SCANNED, np.uint64)
    seconds = []
    for query in random.integers(0, 2**64, 9, np.uint64):
        start = time.perf_counter()
        (np.bitwise_count(fingerprints ^ query) <= 3).nonzero()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds) * 1e6 / _SCANNED


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", default="100000,1000000,10000000")
    parser.add_argument("--runs", type=int, default=2_000, help="queries of each probe")
    parser.add_argument("--output", type=Path, help="JSON")
    arguments = parser.parse_args()
    random = np.random.default_rng(0)
    rows = []
    for count in map(int, arguments.documents.split(",")):
        fingerprints = random.integers(0, 2**64, count, np.uint64)
        for name, distances in _PROBES.items():
            design = parse_design(name)
            if count * len(design.tables) > _MOST_ROWS:
                continue
            with (
                TemporaryDirectory() as folder,
                open_store(folder, distance=3, tables=name) as store,
            ):
                store.bulk_load(fingerprints)
                for distance in distances:
                    measured = time_probe(store, distance, arguments.runs, random)
                    flips = design.flips_for(distance)
                    keys = keys_per_table(design.key_bytes, flips) * len(design.tables)
                    read = expected_candidates(count, design.key_bytes) * keys
                    rows.append((count, name, distance, keys, read, measured))
    factors = np.array([(1, keys, read) for *_, keys, read, _ in rows])
    times = np.array([row[-1] for row in rows])
    fitted, *_ = np.linalg.lstsq(factors / times[:, None], np.ones(len(rows)), rcond=None)
    for row, predicted in zip(rows, factors @ fitted, strict=True):
        print("{:>11,} {:>4} k={} {:>5} keys {:>9.1f} read {:>8.1f} us".format(*row), end="")
        print(f" predicted {predicted:8.1f}")
    costs = dict(zip(("probe_us", "key_us", "candidate_us"), fitted.tolist(), strict=True))
    costs["scanned_us"] = time_scan(random)
    print(costs)
    if arguments.output:
        result = {
            "machine": describe_machine(),
            "versions": describe_versions("numpy", "lmdb"),
            "costs": costs,
            "rows": rows,
        }
        arguments.output.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
