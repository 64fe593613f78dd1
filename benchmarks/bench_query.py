"""Measure `store.query` where half of the queries meet documents, beside FAISS.

See README.md for what is measured and what is not.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from bench_store import fill, progress
from machine import write_result
from subjects import DISTANCE, FAISS, FAISS_HASH_BITS, FAISS_HASHES, draw, near

from scrapy_simhash.stores.opening import open_as_it_is, open_store

SEED = 20_070_508
QUERIES = 4_000


def make_store(folder: Path, documents: int, fingerprints: int) -> None:
    """Fill a store page by page, then bulk-load fingerprints without documents, and compact it."""
    random = np.random.default_rng([SEED, fingerprints])
    fill(folder, "4", documents, random)
    with open_store(str(folder), distance=DISTANCE) as store:
        store.bulk_load(draw(random, fingerprints - documents))
        store.compact()


def ask(folder: Path, subject: str, seed: int) -> float:
    """Ask a store, or FAISS, for random fingerprints and documents in turn; returns us a query."""
    random = np.random.default_rng([SEED, seed])
    with open_as_it_is(str(folder)) as store:
        documents: list[int] = []
        store.visit(lambda each: documents.extend(each.fingerprints))
        asked = np.stack(
            [draw(random, QUERIES), near(np.array(documents, np.uint64), random, QUERIES)], axis=1
        ).ravel()
        if subject == FAISS:
            import faiss  # noqa: PLC0415 - the store's process needs none

            faiss.omp_set_num_threads(1)
            fingerprints = store.fingerprints()
            index = faiss.IndexBinaryMultiHash(64, FAISS_HASHES, FAISS_HASH_BITS)
            index.add(fingerprints.view(np.uint8).reshape(-1, 8))
            rows = list(asked.view(np.uint8).reshape(-1, 1, 8))
            started = time.perf_counter(), time.process_time()
            for row in rows:
                index.range_search(row, DISTANCE + 1)
        else:
            numbers = asked.tolist()
            for number in numbers[:100]:
                store.query(number, DISTANCE)
            started = time.perf_counter(), time.process_time()
            for number in numbers:
                store.query(number, DISTANCE)
        # The processor's time, which other jobs on the machine do not lengthen.
        return 1e6 * (time.process_time() - started[1]) / asked.size


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=200_000, help="with records")
    parser.add_argument("--fingerprints", type=int, default=4_000_000, help="in all")
    parser.add_argument("--runs", type=int, default=5, help="rounds; medians are reported")
    parser.add_argument("--output", type=Path, help="JSON file")
    parser.add_argument("--ask", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.ask:
        print(json.dumps(ask(Path(given.ask[0]), given.ask[1], int(given.ask[2]))))
        return
    times: dict[str, list[float]] = {"ours": [], FAISS: []}
    with tempfile.TemporaryDirectory(prefix="bench_query-") as folder:
        make_store(Path(folder) / "store", given.documents, given.fingerprints)
        for number in range(given.runs):
            for name, found in times.items():
                progress(f"round {number + 1}: {name}")
                answer = subprocess.run(
                    [sys.executable, __file__, "--ask", f"{folder}/store", name, str(number)],
                    capture_output=True,
                    check=True,
                    text=True,
                )
                found.append(json.loads(answer.stdout))
    rows = []
    print("| | us of the processor a query | to FAISS |")
    print("| --- | ---: | ---: |")
    for name, rounds in times.items():
        ratio = statistics.median(
            mine / theirs for mine, theirs in zip(rounds, times[FAISS], strict=True)
        )
        rows.append({"subject": name, "rounds_us": rounds, "to_faiss": ratio})
        print(f"| {name} | {statistics.median(rounds):.1f} | {ratio:.2f} |")
    write_result(given.output, ["scrapy-simhash", "lmdb", "numpy", "faiss-cpu"], rows=rows)


if __name__ == "__main__":
    main()
