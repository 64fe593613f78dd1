"""Measure `store.find_document` beside looking through all records, as a store without index does.

See README.md for what is measured and what is not.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from bench_store import fill
from machine import write_result

from scrapy_simhash.stores.opening import open_as_it_is

SEED = 20_070_508
QUERIES = 200


def measure(folder: Path, documents: int) -> dict[str, float]:
    """Look up URLs by the index, and one by reading all; returns milliseconds of each."""
    random = np.random.default_rng(SEED)
    with open_as_it_is(str(folder)) as store:
        urls: list[str] = []
        store.visit(lambda each: urls.append(each.url))
        asked = [urls[place] for place in random.integers(documents, size=QUERIES).tolist()]
        times = []
        for url in asked:
            started = time.perf_counter()
            found = store.find_document(url)
            times.append(1000 * (time.perf_counter() - started))
            assert [each.url for each in found] == [url]  # noqa: S101
        started = time.perf_counter()
        matching: list[int] = []
        store.visit(lambda each: matching.append(each.document) if each.url == asked[0] else None)
        read = 1000 * (time.perf_counter() - started)
    return {"index_ms": statistics.median(times), "reading_all_ms": read}


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=1_000_000, help="with records")
    parser.add_argument("--runs", type=int, default=3, help="rounds; medians are reported")
    parser.add_argument("--output", type=Path, help="write the results to this file as JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench_lookup-") as folder:
        fill(Path(folder), "4", options.documents, np.random.default_rng(SEED))
        runs = [measure(Path(folder), options.documents) for _ in range(options.runs)]
    medians = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    print(f"{options.documents:,} documents: {medians['index_ms']:.3f} ms by the index, ", end="")
    print(f"{medians['reading_all_ms']:,.0f} ms reading every record")
    write_result(options.output, ["scrapy-simhash", "lmdb"], documents=options.documents, **medians)


if __name__ == "__main__":
    main()
