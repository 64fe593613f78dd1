"""Measure the store beside FAISS, PyPI `simhash` and numpy brute force, all in one run.

The subjects take turns: in each round every subject answers a block of queries, so that noise of
the machine hits all of them. Times are medians over the rounds, ratios are medians of the ratios
within a round. See README.md for what is measured and what is not.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import faiss
import numpy as np
from machine import describe_machine, describe_versions
from simhash import Simhash, SimhashIndex
from subjects import (
    CRAWL,
    DISTANCE,
    FAISS,
    FAISS_HASH_BITS,
    FAISS_HASHES,
    FAISS_RADIUS,
    SIMHASH_INDEX,
    SYNC,
    Pages,
    Subject,
    brute_subject,
    draw,
    faiss_row,
    faiss_subject,
    near,
    our_subject,
    ours,
    simhash_subject,
)

from scrapy_simhash.stores.opening import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from scrapy_simhash.judging.documents import Document
    from scrapy_simhash.stores.store import Store

GROUPS = (1, 16, 64)
PAGES_PER_BLOCK = 256
VERIFIED_QUERIES = 200
# The index of PyPI `simhash` is Python sets of strings: about 1 kB and 20 us to build an entry.
MOST_FOR_SIMHASH_INDEX = 100_000
# Beyond, filling page by page takes minutes a design, and only the four tables are filled so.
MOST_FOR_ALL_DESIGNS = 100_000
PAGES_PER_FILL = 1_024
SEED = 20_070_508
GOAL_PROBE_US, GOAL_TABLE_BYTES = 30, 40


@dataclass
class Times:
    """Microseconds of the subjects, one for each round."""

    rounds: dict[str, list[float]] = field(default_factory=dict)

    def note(self, name: str, seconds: float, count: int) -> None:
        """Add a round."""
        self.rounds.setdefault(name, []).append(1e6 * seconds / count)

    def median(self, name: str) -> float:
        """Microseconds in the median round."""
        return statistics.median(self.rounds[name])

    def ratio(self, name: str, other: str) -> float:
        """How many times as long as the other, in the median round."""
        pairs = zip(self.rounds[name], self.rounds[other], strict=True)
        return statistics.median(mine / theirs for mine, theirs in pairs)

    def summary(self) -> dict[str, Any]:
        """Give medians and all rounds, for the JSON file."""
        return {
            name: {
                "median_us": round(self.median(name), 2),
                "rounds_us": [round(value, 2) for value in values],
            }
            for name, values in self.rounds.items()
        }


def verify(
    subjects: Sequence[Subject], fingerprints: NDArray[np.uint64], random: np.random.Generator
) -> int:
    """Check that all subjects find the same fingerprints; returns how many pairs that were."""
    pairs = 0
    expected = brute_subject(fingerprints)
    queries = [draw(random, VERIFIED_QUERIES), near(fingerprints, random, VERIFIED_QUERIES)]
    for query in np.concatenate(queries).tolist():
        found = expected.read(expected.search(expected.prepare(query)))
        pairs += len(found)
        for subject in subjects:
            answer = subject.read(subject.search(subject.prepare(query)))
            if answer != found:
                raise SystemExit(f"{subject.name} finds {answer}, not {found}, near {query:016x}")
    return pairs


def measure_probes(
    subjects: Sequence[Subject],
    runs: int,
    queries: Callable[[int], NDArray[np.uint64]],
) -> Times:
    """Let the subjects take turns in answering fresh queries, one at a time."""
    times = Times()
    for _ in range(runs):
        for subject in subjects:
            prepared = [subject.prepare(query) for query in queries(subject.queries).tolist()]
            start = time.perf_counter()
            for query in prepared:
                subject.search(query)
            times.note(subject.name, time.perf_counter() - start, len(prepared))
    return times


def measure_writes(
    stores: dict[str, Store],
    others: dict[str, Callable[[Sequence[Document]], float]],
    runs: int,
    pages: Pages,
) -> dict[int, Times]:
    """Let stores and others take turns in adding pages; groups matter to the stores only."""
    times = {group: Times() for group in GROUPS}
    for _ in range(runs):
        for group, noted in times.items():
            for design, store in stores.items():
                documents = pages.make(PAGES_PER_BLOCK)
                start = time.perf_counter()
                add_pages(store, documents, group)
                noted.note(ours(design), time.perf_counter() - start, len(documents))
        for name, add in others.items():
            times[1].note(name, add(pages.make(PAGES_PER_BLOCK)), PAGES_PER_BLOCK)
    return times


def add_pages(store: Store, documents: Sequence[Document], group: int) -> None:
    """Judge pages as a crawl does: each group's documents are marked done with the next group."""
    done: list[int] = []
    for start in range(0, len(documents), group):
        verdicts = store.find_and_add(documents[start : start + group], crawl=CRAWL, done=done)
        done = [verdict.document for verdict in verdicts if verdict.status == "new"]


def add_to_faiss(index: Any, documents: Sequence[Document]) -> float:
    """Search, then add what is new; returns seconds."""
    rows = [faiss_row(document.fingerprints[0]) for document in documents]
    start = time.perf_counter()
    for row in rows:
        if not index.range_search(row, FAISS_RADIUS)[2].size:
            index.add(row)
    return time.perf_counter() - start


def add_to_simhash_index(index: Any, documents: Sequence[Document]) -> float:
    """Search, then add what is new; returns seconds."""
    hashes = [Simhash(document.fingerprints[0]) for document in documents]
    start = time.perf_counter()
    for value in hashes:
        if not index.get_near_dups(value):
            index.add(str(value.value), value)
    return time.perf_counter() - start


def time_syncs(path: Path, documents: Sequence[Document]) -> float:
    """Append 4 kB and sync for each page: the floor of a durable write; returns seconds."""
    with path.open("ab", buffering=0) as file:
        start = time.perf_counter()
        for _ in documents:
            file.write(bytes(4096))
            os.fsync(file.fileno())
        return time.perf_counter() - start


def fill(folder: Path, design: str, count: int, random: np.random.Generator) -> dict[str, Any]:
    """Fill a store page by page, without duplicates, and read its sizes."""
    with open_store(str(folder), distance=DISTANCE, tables=design) as store:
        store.start_crawl(CRAWL, "bench")
        pages = Pages(draw(random, 1_000_000), random)
        for start in range(0, count, PAGES_PER_FILL):
            documents = pages.make(min(PAGES_PER_FILL, count - start))
            add_pages(store, documents, PAGES_PER_FILL)
        return store.stats()


@dataclass
class Size:
    """What was measured at one number of documents."""

    documents: int
    pairs_verified: int
    misses: Times
    matches: Times
    writes: dict[int, Times]
    table_bytes: dict[str, float]
    faiss_bytes: float
    filled: dict[str, dict[str, float]]

    def summary(self) -> dict[str, Any]:
        """Give everything for the JSON file."""
        return {
            "documents": self.documents,
            "pairs_verified": self.pairs_verified,
            "probe_without_match": self.misses.summary(),
            "probe_with_match": self.matches.summary(),
            "find_and_add": {group: times.summary() for group, times in self.writes.items()},
            "table_bytes_per_fingerprint_bulk_loaded": self.table_bytes,
            "faiss_bytes_per_entry": self.faiss_bytes,
            "filled_page_by_page": self.filled,
        }

    def lines(self) -> Iterator[str]:
        """Write the results as Markdown."""
        yield f"### {self.documents:,} documents"
        yield ""
        yield (
            "| | probe, no match | to FAISS | probe, matches | to FAISS "
            "| find and add, groups of 1 | of 16 | of 64 | table bytes per fingerprint: loaded "
            "| page by page | file bytes per document |"
        )
        yield "| --- " + "| ---: " * 10 + "|"
        for name in self.misses.rounds:
            writes = [
                f"{times.median(name):,.0f} us" if name in times.rounds else ""
                for times in self.writes.values()
            ]
            yield self._row(
                name,
                f"{self.misses.median(name):,.1f} us",
                f"{self.misses.ratio(name, FAISS):.2f}",
                f"{self.matches.median(name):,.1f} us",
                f"{self.matches.ratio(name, FAISS):.2f}",
                *writes,
                *self._bytes(name),
            )
        yield self._row(SYNC, *[""] * 4, f"{self.writes[1].median(SYNC):,.0f} us", *[""] * 5)
        yield ""
        yield (
            f"For {2 * VERIFIED_QUERIES} queries all of them found the same "
            f"{self.pairs_verified:,} fingerprints. FAISS and PyPI simhash add in memory: "
            "nothing they add is durable."
        )
        yield ""

    def _bytes(self, name: str) -> list[str]:
        if name == FAISS:
            return [f"{self.faiss_bytes:.1f}", "", ""]
        if name not in self.table_bytes:
            return ["", "", ""]
        filled = self.filled.get(name)
        if filled is None:
            return [f"{self.table_bytes[name]:.1f}", "", ""]
        return [
            f"{self.table_bytes[name]:.1f}",
            f"{filled['table_bytes_per_fingerprint']:.1f}",
            f"{filled['bytes_per_document']:.0f}",
        ]

    @staticmethod
    def _row(*cells: str) -> str:
        return f"| {' | '.join(cells)} |"

    def goals(self) -> Iterator[str]:
        """Compare the four tables with what they are to reach."""
        name = ours("4")
        if name not in self.table_bytes:
            return
        size = self.table_bytes[name]
        probe, ratio = self.misses.median(name), self.misses.ratio(name, FAISS)
        for text, reached in (
            (f"probe {probe:.1f} us, goal under {GOAL_PROBE_US} us", probe < GOAL_PROBE_US),
            (f"probe {ratio:.2f} of FAISS in the same round, goal at most 1", ratio <= 1),
            (
                f"{size:.1f} bytes per fingerprint, goal under {GOAL_TABLE_BYTES}",
                size < GOAL_TABLE_BYTES,
            ),
        ):
            yield f"- {'reached' if reached else 'MISSED'}: {text}"


def measure_size(count: int, designs: Sequence[str], runs: int, folder: Path) -> Size:
    """Measure everything at one number of documents."""
    random = np.random.default_rng([SEED, count])
    fingerprints = np.unique(draw(random, count))
    stores: dict[str, Store] = {}
    try:
        for design in designs:
            progress(f"{count:,}: loading {ours(design)}")
            stores[design] = open_store(str(folder / design), distance=DISTANCE, tables=design)
            stores[design].bulk_load(fingerprints)
            stores[design].start_crawl(CRAWL, "bench")
        index = faiss.IndexBinaryMultiHash(64, FAISS_HASHES, FAISS_HASH_BITS)
        index.add(fingerprints.view(np.uint8).reshape(-1, 8))
        subjects = [our_subject(store, design) for design, store in stores.items()]
        subjects += [faiss_subject(index, fingerprints), brute_subject(fingerprints)]
        others: dict[str, Callable[[Sequence[Document]], float]] = {
            FAISS: partial(add_to_faiss, index),
            SYNC: partial(time_syncs, folder / "sync"),
        }
        if count <= MOST_FOR_SIMHASH_INDEX:
            entries = [(str(value), Simhash(value)) for value in fingerprints.tolist()]
            simhash_index = SimhashIndex(entries, k=DISTANCE)
            subjects.append(simhash_subject(simhash_index))
            others[SIMHASH_INDEX] = partial(add_to_simhash_index, simhash_index)
        table_bytes = {
            ours(design): store.stats()["table_bytes_per_fingerprint"]
            for design, store in stores.items()
        }
        progress(f"{count:,}: probes")
        return Size(
            documents=count,
            pairs_verified=verify(subjects, fingerprints, random),
            misses=measure_probes(subjects, runs, lambda n: draw(random, n)),
            matches=measure_probes(subjects, runs, lambda n: near(fingerprints, random, n)),
            table_bytes=table_bytes,
            faiss_bytes=faiss.serialize_index_binary(index).size / count,
            writes=measure_writes(stores, others, runs, Pages(fingerprints, random)),
            filled=measure_filled(count, designs, folder, random),
        )
    finally:
        for store in stores.values():
            store.close()


def measure_filled(
    count: int, designs: Sequence[str], folder: Path, random: np.random.Generator
) -> dict[str, dict[str, float]]:
    """Fill a store of each design page by page and read its sizes."""
    filled = {}
    for design in designs:
        if count > MOST_FOR_ALL_DESIGNS and design != "4":
            continue
        progress(f"{count:,}: filling {ours(design)}")
        stats = fill(folder / f"filled-{design}", design, count, random)
        filled[ours(design)] = {
            name: stats[name] for name in ("table_bytes_per_fingerprint", "bytes_per_document")
        }
    return filled


def progress(text: str) -> None:
    """Show on standard error what is being done."""
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", default="10000,100000,1000000", help="numbers of documents")
    parser.add_argument("--designs", default="4,10,16,20", help="table designs")
    parser.add_argument("--runs", type=int, default=5, help="rounds; medians are reported")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results/store.json")
    arguments = parser.parse_args()
    faiss.omp_set_num_threads(1)
    command = " ".join(["python benchmarks/bench_store.py", *sys.argv[1:]])
    machine = describe_machine()
    versions = describe_versions("scrapy-simhash", "lmdb", "numpy", "faiss-cpu", "simhash")
    sizes = []
    for count in map(int, arguments.documents.split(",")):
        with tempfile.TemporaryDirectory(prefix="bench_store-") as folder:
            sizes.append(
                measure_size(count, arguments.designs.split(","), arguments.runs, Path(folder))
            )
    print(f"`{command}`, medians of {arguments.runs} rounds\n")
    print(", ".join(f"{name} {value}" for name, value in machine.items()) + "  ")
    print(", ".join(f"{name} {value}" for name, value in versions.items()) + "\n")
    for size in sizes:
        print("\n".join(size.lines()))
    goals = [goal for size in sizes if size.documents == 1_000_000 for goal in size.goals()]
    if goals:
        print("Goals at 1,000,000 documents, four tables:\n")
        print("\n".join(goals))
    result = {
        "command": command,
        "machine": machine,
        "versions": versions,
        "runs": arguments.runs,
        "sizes": [size.summary() for size in sizes],
        "goals": goals,
    }
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
