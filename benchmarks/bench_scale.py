"""How does a store grow: bytes, probes and writes from 10 thousand fingerprints upwards?

Each size is a store of its own: bulk-loaded, then 10,000 pages are found and added in groups of 64.
Beside it FAISS answers within 3 bits (one at a time, one thread, in memory) and numpy within 7, in
turns, up to 10 million fingerprints. Cold means that nothing of the store's file is in the system's
cache. docs/offline.md says what follows. 100 million take 7 GB of memory and 3.3 GB of disk.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import faiss
import numpy as np
from machine import print_table, progress, write_result
from subjects import (
    SEED,
    Pages,
    Subject,
    Times,
    add_pages,
    brute_subject,
    draw,
    faiss_subject,
    load_faiss,
    near,
    our_subject,
    verify,
)

from scrapy_simhash.stores.opening import open_store

if TYPE_CHECKING:
    from numpy.typing import NDArray

NARROW_BITS, WIDE_BITS = 3, 7
COLD_QUERIES, WIDE_QUERIES, BRUTE_QUERIES = 200, 300, 5
PAGES, GROUP, ROUNDS = 10_000, 64, 5
MOST_BESIDE = 10_000_000


def forget_pages(path: Path) -> None:
    """Drop a file from the system's cache; nobody must have it mapped."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(file)


def measure_probes(
    subjects: dict[str, tuple[Subject, int]], random: np.random.Generator
) -> dict[str, float]:
    """Let subjects take turns in answering so many queries; returns microseconds a query."""
    times = Times()
    for _ in range(ROUNDS):
        for name, (subject, queries) in subjects.items():
            prepared = [subject.prepare(query) for query in draw(random, queries).tolist()]
            times.time(name, subject.search, prepared)
    return {name: times.median(name) for name in subjects}


def measure(folder: Path, count: int, tables: str) -> dict[str, Any]:
    """Measure one size."""
    random = np.random.default_rng([SEED, count])
    fingerprints = draw(random, count)
    progress(f"{count:,}: loading")
    with open_store(str(folder), tables=tables) as store:
        start = time.perf_counter()
        store.bulk_load(fingerprints)
        row: dict[str, Any] = {
            "documents": count,
            "load, s": time.perf_counter() - start,
            "bytes a fingerprint": round(store.stats()["file_bytes"] / count, 1),
        }
    forget_pages(folder / "data.mdb")
    with open_store(str(folder), tables=tables) as store:
        progress(f"{count:,}: probing")
        row |= measure_cold(our_subject(store), random)
        store.check()  # reads every page: warm from here on
        ours = our_subject(store, NARROW_BITS)
        subjects = {
            "probe within 3 bits, us": (ours, ours.queries),
            "within 7 bits, us": (our_subject(store, WIDE_BITS), WIDE_QUERIES),
        }
        if count <= MOST_BESIDE:
            subjects |= load_beside(ours, fingerprints, random, row)
        row |= measure_probes(subjects, random)
        documents = Pages(fingerprints, random).make(PAGES)
        start = time.perf_counter()
        add_pages(store, documents, GROUP)
        row["find and add, us"] = 1e6 * (time.perf_counter() - start) / PAGES
        afterwards = {"probe afterwards, us": (ours, ours.queries)}
        row |= measure_probes(afterwards, random)
    # Of the largest so far, and of FAISS: the system has no other.
    row["peak MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return row


def measure_cold(ours: Subject, random: np.random.Generator) -> dict[str, float]:
    """Return microseconds a query, nothing of the file in memory."""
    times = Times()
    times.time("cold", ours.search, draw(random, COLD_QUERIES).tolist())
    return {"cold probe, us": times.median("cold")}


def load_beside(
    ours: Subject,
    fingerprints: NDArray[np.uint64],
    random: np.random.Generator,
    row: dict[str, Any],
) -> dict[str, tuple[Subject, int]]:
    """Load the opponents, which must find what the store finds."""
    index = load_faiss(fingerprints)
    beside = faiss_subject(index, fingerprints)
    verify([ours, beside], brute_subject(fingerprints), near(fingerprints, random, 20))
    row["bytes, FAISS"] = faiss.serialize_index_binary(index).size / len(fingerprints)
    return {
        "FAISS within 3, us": (beside, beside.queries),
        "numpy within 7, us": (brute_subject(fingerprints, WIDE_BITS), BRUTE_QUERIES),
    }


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", default="10000,100000,1000000", help="numbers of documents")
    parser.add_argument("--tables", default="4", help="table design")
    parser.add_argument("--folder", type=Path, help="where the stores are made")
    parser.add_argument("--output", type=Path, help="write the results as JSON")
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for count in map(int, arguments.documents.split(",")):
        with tempfile.TemporaryDirectory(prefix="bench_scale-", dir=arguments.folder) as folder:
            rows.append(measure(Path(folder), count, arguments.tables))
    columns = list(rows[0])
    print_table(columns, [[row.get(column, "") for column in columns] for row in rows])
    names = ["scrapy-simhash", "lmdb", "numpy", "faiss-cpu"]
    write_result(arguments.output, names, rows=rows)


if __name__ == "__main__":
    main()
