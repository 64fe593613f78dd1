"""How fast is the store beside FAISS, PyPI `simhash`, numpy and a bare sync, and how large?

The subjects take turns: in each round every subject answers a block of queries, so that noise of
the machine hits all of them. Times are medians over the rounds, ratios are medians of the ratios
within a round; all must find the same.

* probe: `store.query` within 3 bits, transaction included; random fingerprints, and stored ones
  with up to three bits flipped. FAISS answers one at a time on one thread.
* find and add: `store.find_and_add` of whole documents, a page, in synced groups; every tenth is a
  near-duplicate. FAISS and `SimhashIndex` keep nothing.
* bytes: of the tables a fingerprint, bulk-loaded and filled by groups; of the file a document.

Not measured: real pages (of one template they crowd), several processes, a cold disk cache. Above
100,000 documents `SimhashIndex` is left out.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import faiss
import numpy as np
from machine import print_table, progress, write_result
from simhash import Simhash, SimhashIndex
from subjects import (
    BRUTE_FORCE,
    DISTANCE,
    FAISS,
    SEED,
    SIMHASH_INDEX,
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
    search_faiss,
    simhash_subject,
    verify,
)

from scrapy_simhash.stores.opening import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from scrapy_simhash.judging.documents import Document
    from scrapy_simhash.stores.store import Store

SYNC = "a bare fsync of 4 kB"
GROUPS = (1, 16, 64)
PAGES_PER_BLOCK = 256
VERIFIED_QUERIES = 200
# The index of PyPI `simhash` is Python sets of strings: about 1 kB and 20 us to build an entry.
MOST_FOR_SIMHASH_INDEX = 100_000
PAGES_PER_FILL = 1_024


def measure_probes(
    subjects: dict[str, Subject], runs: int, queries: Callable[[int], NDArray[np.uint64]]
) -> Times:
    """Let the subjects take turns in answering fresh queries, one at a time."""
    times = Times()
    for _ in range(runs):
        for name, subject in subjects.items():
            prepared = [subject.prepare(query) for query in queries(subject.queries).tolist()]
            times.time(name, subject.search, prepared)
    return times


def measure_writes(
    stores: dict[str, Store],
    others: dict[str, Callable[[Sequence[Document]], object]],
    runs: int,
    pages: Pages,
) -> dict[int, Times]:
    """Let stores and others take turns in adding pages; groups matter to the stores only."""
    times = {group: Times() for group in GROUPS}
    for _ in range(runs):
        for group, noted in times.items():
            adding = {
                name: partial(add_pages, store, group=group) for name, store in stores.items()
            }
            for name, add in [*adding.items(), *(others.items() if group == 1 else ())]:
                documents = pages.make(PAGES_PER_BLOCK)
                start = time.perf_counter()
                add(documents)
                noted.note(name, time.perf_counter() - start, len(documents))
    return times


def add_to_faiss(index: Any, documents: Sequence[Document]) -> None:
    """Search, then add what is new."""
    for document in documents:
        row = np.array([document.facts.fingerprint], np.uint64)
        if not search_faiss(index, row)[2].size:
            index.add(row.view(np.uint8).reshape(1, 8))


def add_to_simhash_index(index: Any, documents: Sequence[Document]) -> None:
    """Search, then add what is new."""
    for document in documents:
        value = Simhash(document.facts.fingerprint)
        if not index.get_near_dups(value):
            index.add(str(value.value), value)


def sync(path: Path, documents: Sequence[Document]) -> None:
    """Append 4 kB and sync for each page: the floor of a durable write."""
    with path.open("ab", buffering=0) as file:
        for _ in documents:
            file.write(bytes(4096))
            os.fsync(file.fileno())


def fill(folder: Path, design: str, count: int, random: np.random.Generator) -> dict[str, Any]:
    """Fill a store by groups, and read its sizes."""
    with open_store(str(folder), distance=DISTANCE, tables=design) as store:
        pages = Pages(draw(random, 1_000_000), random)
        for start in range(0, count, PAGES_PER_FILL):
            documents = pages.make(min(PAGES_PER_FILL, count - start))
            add_pages(store, documents, PAGES_PER_FILL)
        return store.stats()


def measure(count: int, designs: Sequence[str], runs: int, folder: Path) -> dict[str, Any]:
    """Measure everything at one number of documents; returns figures by subject."""
    random = np.random.default_rng([SEED, count])
    fingerprints = np.unique(draw(random, count))
    stores: dict[str, Store] = {}
    rows: dict[str, dict[str, float]] = {}
    for design in designs:
        name = f"ours, {design} tables"
        progress(f"{count:,}: loading {name}")
        stores[name] = open_store(str(folder / design), distance=DISTANCE, tables=design)
        stores[name].bulk_load(fingerprints)
        filled = fill(folder / f"filled-{design}", design, count, random)
        rows[name] = {
            "bytes, loaded": round(stores[name].stats()["file_bytes"] / count, 1),
            "file": filled["bytes_per_document"],
        }
    index = load_faiss(fingerprints)
    rows[FAISS] = {"bytes, loaded": faiss.serialize_index_binary(index).size / count}
    subjects = {name: our_subject(store) for name, store in stores.items()}
    brute = brute_subject(fingerprints)
    subjects |= {FAISS: faiss_subject(index, fingerprints), BRUTE_FORCE: brute}
    others: dict[str, Callable[[Sequence[Document]], object]] = {
        FAISS: partial(add_to_faiss, index),
        SYNC: partial(sync, folder / "sync"),
    }
    if count <= MOST_FOR_SIMHASH_INDEX:
        entries = [(str(value), Simhash(value)) for value in fingerprints.tolist()]
        simhash_index = SimhashIndex(entries, k=DISTANCE)
        subjects[SIMHASH_INDEX] = simhash_subject(simhash_index)
        others[SIMHASH_INDEX] = partial(add_to_simhash_index, simhash_index)
    progress(f"{count:,}: probes and writes")
    queries = [draw(random, VERIFIED_QUERIES), near(fingerprints, random, VERIFIED_QUERIES)]
    pairs = verify([*subjects.values()], brute, np.concatenate(queries))
    misses = measure_probes(subjects, runs, lambda n: draw(random, n))
    matches = measure_probes(subjects, runs, lambda n: near(fingerprints, random, n))
    writes = measure_writes(stores, others, runs, Pages(fingerprints, random))
    for store in stores.values():
        store.close()
    for name in subjects:
        row = rows.setdefault(name, {})
        for what, times in {"no match": misses, "matches": matches}.items():
            row[f"probe, {what}, us"] = times.median(name)
            row[f"{what}, to FAISS"] = times.ratio(name, FAISS)
    for group, times in writes.items():
        for name in times.rounds:
            rows.setdefault(name, {})[f"add, groups of {group}, us"] = times.median(name)
    return {"documents": count, "pairs_verified": pairs, "subjects": rows}


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", default="10000,100000,1000000", help="numbers of documents")
    parser.add_argument("--designs", default="4", help="table designs, such as 4,10,16,20")
    parser.add_argument("--runs", type=int, default=5, help="rounds; medians are reported")
    parser.add_argument("--output", type=Path, help="write the results as JSON")
    arguments = parser.parse_args()
    sizes = []
    for count in map(int, arguments.documents.split(",")):
        with tempfile.TemporaryDirectory(prefix="bench_store-") as folder:
            designs = arguments.designs.split(",")
            sizes.append(measure(count, designs, arguments.runs, Path(folder)))
        rows = sizes[-1]["subjects"]
        columns = list(dict.fromkeys(name for row in rows.values() for name in row))
        print(f"\n{count:,} documents; all found the same {sizes[-1]['pairs_verified']:,} pairs")
        print_table(
            ["", *columns],
            [[name, *(row.get(c, "") for c in columns)] for name, row in rows.items()],
        )
    names = ["scrapy-simhash", "lmdb", "numpy", "faiss-cpu", "simhash"]
    write_result(arguments.output, names, runs=arguments.runs, sizes=sizes)


if __name__ == "__main__":
    main()
