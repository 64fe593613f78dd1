"""How fast are all pairs, beside simhash-pybind, and a batch of queries, beside FAISS?

`--pairs SIZES` finds all pairs within 3 bits, in a process of its own for each subject, so that its
memory can be read; simhash-pybind (seomoz's C++) only with `--pybind FOLDER`, made by `pip install
--no-deps --target FOLDER simhash-pybind`, because its package is named as PyPI's `simhash`. Then
`--queries` are looked up at once among `--documents`. The subjects take turns, and must find the
same. Not measured: reading fingerprints from a disk, crowds.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from machine import print_table, progress, write_result
from subjects import DISTANCE, SEED, draw, draw_with_near, load_faiss, near, search_faiss

if TYPE_CHECKING:
    from numpy.typing import NDArray

OURS, PYBIND = "ours", "simhash-pybind"
PYBIND_BLOCKS = 5  # 4 and 6 are slower at 10 million
CHUNK = 1 << 20


def join(name: str, count: int, pybind: str) -> dict[str, Any]:
    """Be the process of one subject: find all pairs."""
    fingerprints = draw_with_near(count)
    pairs: Any
    if name == PYBIND:
        sys.path.insert(0, pybind)
        sys.modules.pop("simhash", None)  # PyPI's, which `subjects` loads
        import simhash  # noqa: PLC0415 - not PyPI's simhash, but the one in that folder

        numbers = fingerprints.tolist()
        start = time.perf_counter()
        pairs = simhash.find_all(numbers, PYBIND_BLOCKS, DISTANCE)
    else:
        from scrapy_simhash.batch.joins import find_all  # noqa: PLC0415

        start = time.perf_counter()
        pairs = find_all(fingerprints, DISTANCE)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rows = np.sort(np.array(list(pairs), np.uint64).reshape(-1, 2), axis=1)
    rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
    digest = hashlib.sha256(rows.tobytes()).hexdigest()
    return {"seconds": seconds, "mb": peak, "pairs": len(rows), "digest": digest}


def measure_pairs(count: int, rounds: int, pybind: str) -> dict[str, Any]:
    """Let the subjects take turns at one size; ends the run if they find different pairs."""
    found: dict[str, list[dict[str, Any]]] = {}
    for _ in range(rounds):
        for name in [OURS, PYBIND] if pybind else [OURS]:
            progress(f"{count:,}: {name}")
            command = [sys.executable, __file__, "--subject", name, "--pairs", str(count)]
            done = subprocess.run(
                [*command, "--pybind", pybind], check=True, stdout=subprocess.PIPE, text=True
            )
            found.setdefault(name, []).append(json.loads(done.stdout))
    if len({each["digest"] for results in found.values() for each in results}) != 1:
        raise SystemExit(f"{count:,} fingerprints: the subjects find different pairs: {found}")
    subjects = {
        name: {
            "seconds": statistics.median(each["seconds"] for each in results),
            "peak_mb": max(each["mb"] for each in results),
        }
        for name, results in found.items()
    }
    return {"fingerprints": count, "pairs": found[OURS][0]["pairs"], "subjects": subjects}


def measure_queries(queries: int, documents: int, rounds: int) -> dict[str, Any]:
    """Look queries up at once; half of them are near to a stored fingerprint."""
    from scrapy_simhash.batch.joins import batch_query  # noqa: PLC0415

    random = np.random.default_rng([SEED, queries, documents])
    stored = np.unique(draw(random, documents))
    random.shuffle(stored)
    asked = [draw(random, queries // 2), near(stored, random, queries // 2)]
    asked_once = np.unique(np.concatenate(asked))
    chunks = [stored[start : start + CHUNK] for start in range(0, stored.size, CHUNK)]
    start = time.perf_counter()
    index = load_faiss(stored, os.cpu_count() or 1)
    build_seconds = time.perf_counter() - start
    times: dict[str, list[float]] = {"ours": [], "faiss": []}
    for _ in range(rounds):
        start = time.perf_counter()
        rows = batch_query(asked_once, chunks, DISTANCE)
        times["ours"].append(time.perf_counter() - start)
        start = time.perf_counter()
        found = search_faiss(index, asked_once)
        times["faiss"].append(time.perf_counter() - start)
        verify(found, asked_once, stored, rows)
    return {
        "queries": asked_once.size,
        "documents": stored.size,
        "pairs": len(rows),
        "faiss_build_seconds": build_seconds,
        **{f"{name}_seconds": statistics.median(each) for name, each in times.items()},
    }


def verify(found: Any, queries: NDArray[np.uint64], stored: NDArray[np.uint64], rows: Any) -> None:
    """End the run if both found different pairs."""
    limits, _, places = found
    owners = np.repeat(queries, np.diff(limits.astype(np.int64)))
    pairs = np.stack([owners, stored[places]], axis=1)
    pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
    if not np.array_equal(pairs, rows[:, :2]):
        raise SystemExit(f"FAISS finds {len(pairs):,} pairs, we find {len(rows):,}, not the same")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", default="1000000", help="numbers of fingerprints")
    parser.add_argument("--pybind", default="", help="folder with simhash-pybind")
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3, help="medians are reported")
    parser.add_argument("--subject", choices=[OURS, PYBIND], help=argparse.SUPPRESS)
    parser.add_argument("--output", type=Path, help="write the results as JSON")
    given = parser.parse_args()
    sizes = [int(size) for size in given.pairs.split(",")]
    if given.subject:
        print(json.dumps(join(given.subject, sizes[0], given.pybind)))
        return
    joined = [measure_pairs(size, given.rounds, given.pybind) for size in sizes]
    print_table(
        ["fingerprints", "pairs", "subject", "seconds", "peak MB"],
        [
            [size["fingerprints"], size["pairs"], name, each["seconds"], each["peak_mb"]]
            for size in joined
            for name, each in size["subjects"].items()
        ],
    )
    batch = measure_queries(given.queries, given.documents, given.rounds)
    print_table([*batch], [[*batch.values()]])
    names = ["scrapy-simhash", "numpy", "faiss-cpu"]
    write_result(given.output, names, rounds=given.rounds, pairs=joined, batch=batch)


if __name__ == "__main__":
    main()
