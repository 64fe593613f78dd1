"""How fast are all pairs, beside simhash-pybind, and a batch of queries, beside FAISS?

`--pairs SIZES` finds all pairs within 3 bits, in a process of its own for each subject, so that its
memory can be read; simhash-pybind (seomoz's C++) only with `--pybind FOLDER`, made by `pip install
--no-deps --target FOLDER simhash-pybind`. Then
`--queries` are looked up at once among `--documents`. The subjects take turns, and must find the
same. Not measured: reading fingerprints from a disk, crowds.
"""

from __future__ import annotations

import hashlib
import os
import resource
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from measuring import (
    make_parser,
    print_figures,
    run_apart,
    run_script,
    split_numbers,
    take_medians,
    take_turns,
    write_result,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

DISTANCE = 3
PYBIND_BLOCKS = 5  # 4 and 6 are slower at 10 million
CHUNK = 1 << 20


def draw_with_near(count: int) -> NDArray[np.uint64]:
    """Draw fingerprints, a tenth of them near to another one: 1 to 5 bits flipped."""
    random = np.random.default_rng(count)
    fingerprints = random.integers(0, 2**64, count, np.uint64)
    copies = fingerprints[: count // 10].copy()
    for _ in range(5):
        flipped = random.integers(0, 64, copies.size, np.uint64)
        copies ^= np.left_shift(np.uint64(1), flipped) * (random.random(copies.size) < 0.6)
    fingerprints[count - copies.size :] = copies
    return fingerprints


def join_here(given: dict[str, Any]) -> dict[str, Any]:
    """Find all pairs of so many (`count`), by what is in the folder `pybind`, or by ours."""
    fingerprints = draw_with_near(given["count"])
    pairs: Any
    if given["pybind"]:
        sys.path.insert(0, given["pybind"])
        import simhash  # noqa: PLC0415 - of that folder

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
    # As many hexadecimal digits as a float holds.
    digest = int(hashlib.sha256(rows.tobytes()).hexdigest()[:12], 16)
    return {"seconds": seconds, "peak MB": peak, "pairs": len(rows), "digest": digest}


def measure_pairs(count: int, runs: int, pybind: str) -> dict[str, dict[str, Any]]:
    """Let the subjects take turns at one size; ends the run if they find different pairs."""
    folders = {"ours": ""} | ({"simhash-pybind": pybind} if pybind else {})
    subjects = {
        f"{count:,}: {name}": partial(run_apart, {"count": count, "pybind": folder})
        for name, folder in folders.items()
    }
    medians = {name: take_medians(found) for name, found in take_turns(subjects, runs).items()}
    if len({found.pop("digest") for found in medians.values()}) != 1:
        raise SystemExit(f"{count:,} fingerprints: the subjects find different pairs: {medians}")
    return medians


def measure_queries(queries: int, documents: int, runs: int) -> dict[str, dict[str, Any]]:
    """Look queries up at once; half of them are near to a stored fingerprint."""
    # Not in the processes whose memory is read.
    from subjects import SEED, draw, load_faiss, near, search_faiss  # noqa: PLC0415

    from scrapy_simhash.batch.joins import batch_query  # noqa: PLC0415

    random = np.random.default_rng([SEED, queries, documents])
    stored = np.unique(draw(random, documents))
    random.shuffle(stored)
    asked = [draw(random, queries // 2), near(stored, random, queries // 2)]
    asked_once = np.unique(np.concatenate(asked))
    chunks = [stored[start : start + CHUNK] for start in range(0, stored.size, CHUNK)]
    start = time.perf_counter()
    index = load_faiss(stored, os.cpu_count() or 1)
    building = time.perf_counter() - start

    def look_up() -> dict[str, Any]:
        start = time.perf_counter()
        rows = batch_query(asked_once, chunks, DISTANCE)
        between = time.perf_counter()
        limits, _, places = search_faiss(index, asked_once)
        ended = time.perf_counter()
        owners = np.repeat(asked_once, np.diff(limits.astype(np.int64)))
        pairs = np.stack([owners, stored[places]], axis=1)
        pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
        if not np.array_equal(pairs, rows[:, :2]):
            raise SystemExit(f"FAISS finds {len(pairs):,} pairs, we {len(rows):,}, not the same")
        return {"pairs": len(pairs), "ours, s": between - start, "FAISS, s": ended - between}

    name = f"{asked_once.size:,} queries to {stored.size:,}"
    found = take_turns({name: look_up}, runs)[name]
    return {name: take_medians(found) | {"FAISS, building, s": building}}


def main() -> None:
    """Run the command line."""
    parser = make_parser(__doc__)
    parser.add_argument("--pairs", default="1000000", help="numbers of fingerprints")
    parser.add_argument("--pybind", default="", help="folder with simhash-pybind")
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=3, help="rounds (default 3)")
    options = parser.parse_args()
    pairs: dict[str, dict[str, Any]] = {}
    for count in split_numbers(options.pairs):
        pairs |= measure_pairs(count, options.runs, options.pybind)
    print_figures(pairs)
    batch = measure_queries(options.queries, options.documents, options.runs)
    print_figures(batch)
    names = ["scrapy-simhash", "numpy", "faiss-cpu"]
    write_result(options.output, names, pairs=pairs, batch=batch)


if __name__ == "__main__":
    run_script(main, join_here)
