"""How fast is the store beside FAISS, numpy and a bare sync, and how does it grow?

The subjects take turns: in each round every subject answers a block of queries, so that noise of
the machine hits all of them. Times are medians over the rounds, ratios are medians of the ratios
within a round; all must find the same.

* probe: `store.query` within 3 bits, transaction included; random fingerprints, and stored ones
  with up to three bits flipped; within 7 bits beside numpy. FAISS answers one at a time on one
  thread.
* find and add: `store.find_and_add` of whole documents, a page, in synced groups; every tenth is a
  near-duplicate. FAISS keeps nothing.
* bytes of the file a document without its text.

Not measured: real pages (of one template they crowd), several processes. Above 10 million
documents FAISS and numpy are left out; 10 million take 6 GB of disk.
"""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import faiss
import numpy as np
from measuring import make_parser, print_figures, progress, split_numbers, write_result
from subjects import (
    DISTANCE,
    SEED,
    Pages,
    Subject,
    Times,
    add_pages,
    brute_subject,
    draw,
    faiss_subject,
    fill,
    load_faiss,
    near,
    our_subject,
    search_faiss,
    time_probes,
    verify,
)

from scrapy_simhash.stores.opening import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from scrapy_simhash.judging.documents import Document
    from scrapy_simhash.stores.store import Store

    Add = Callable[[Sequence[Document]], object]

WIDE_BITS = 7
GROUPS = (1, 16, 64)
PAGES_PER_BLOCK = 256
VERIFIED_QUERIES, WIDE_QUERIES = 200, 300
FAISS, NUMPY = "FAISS", "numpy"
MOST_FOR_OTHERS = 10_000_000


def load(
    folder: Path, design: str, fingerprints: NDArray[np.uint64], pages: Pages
) -> dict[str, Any]:
    """Fill a store."""
    start = time.perf_counter()
    with open_store(str(folder), distance=DISTANCE, tables=design) as store:
        fill(store, pages, fingerprints)
        seconds = time.perf_counter() - start
        octets = store.stats()["bytes"] / len(fingerprints)
    return {"load, s": seconds, "bytes a document": octets}


def add_to_faiss(index: Any, documents: Sequence[Document]) -> None:
    """Search, then add what is new."""
    for document in documents:
        row = np.array([document.facts.fingerprint], np.uint64)
        if not search_faiss(index, row)[2].size:
            index.add(row.view(np.uint8).reshape(1, 8))


def sync(path: Path, documents: Sequence[Document]) -> None:
    """Append 4 kB and sync for each page: the floor of a durable write."""
    with path.open("ab", buffering=0) as file:
        for _ in documents:
            file.write(bytes(4096))
            os.fsync(file.fileno())


def time_writes(
    stores: dict[str, Store], others: dict[str, Add], runs: int, pages: Pages
) -> dict[int, Times]:
    """Let stores and others take turns in adding pages; groups matter to the stores only."""
    times = {group: Times() for group in GROUPS}
    for _ in range(runs):
        for group, noted in times.items():
            adding: dict[str, Add] = {
                name: partial(add_pages, store, group=group) for name, store in stores.items()
            }
            for name, add in (adding | (others if group == 1 else {})).items():
                noted.time(name, partial(add, pages.make(PAGES_PER_BLOCK)), PAGES_PER_BLOCK)
    return times


def measure(count: int, designs: Sequence[str], runs: int, folder: Path) -> dict[str, Any]:
    """Measure everything at one number of documents; returns figures by subject."""
    random = np.random.default_rng([SEED, count])
    fingerprints = np.unique(draw(random, count))
    progress(f"{count:,}: loading")
    pages = Pages(fingerprints, random)
    rows = {
        f"ours, {design} tables": load(folder / design, design, fingerprints, pages)
        for design in designs
    }
    with ExitStack() as stack:
        stores = {
            name: stack.enter_context(open_store(str(folder / design)))
            for name, design in zip(rows, designs, strict=True)
        }
        subjects = {name: our_subject(store) for name, store in stores.items()}
        wide = {name: our_subject(store, WIDE_BITS, WIDE_QUERIES) for name, store in stores.items()}
        others: dict[str, Add] = {"a bare fsync of 4 kB": partial(sync, folder / "sync")}
        if count <= MOST_FOR_OTHERS:
            index = load_faiss(fingerprints)
            size = faiss.serialize_index_binary(index).size
            rows[FAISS] = {"bytes a fingerprint": size / count}
            subjects |= {FAISS: faiss_subject(index, fingerprints)}
            subjects |= {NUMPY: brute_subject(fingerprints)}
            wide |= {NUMPY: brute_subject(fingerprints, WIDE_BITS)}
            others |= {FAISS: partial(add_to_faiss, index)}
        progress(f"{count:,}: probes and writes")
        pairs = verify_all(subjects, wide, fingerprints, random)
        probes = {
            "probe, no match": time_probes(subjects, runs, partial(draw, random)),
            "probe, matches": time_probes(subjects, runs, partial(near, fingerprints, random)),
            f"probe within {WIDE_BITS} bits": time_probes(wide, runs, partial(draw, random)),
        }
        writes = time_writes(stores, others, runs, pages)
    for what, times in probes.items():
        for name in times.rounds:
            row = rows.setdefault(name, {})
            row[f"{what}, us"] = times.median(name)
            if FAISS in times.rounds:
                row[f"{what}, to FAISS"] = times.ratio(name, FAISS)
    for group, times in writes.items():
        for name in times.rounds:
            rows.setdefault(name, {})[f"add, groups of {group}, us"] = times.median(name)
    print(f"\n{count:,} documents; all found the same {pairs:,} pairs")
    print_figures(rows)
    return {"documents": count, "pairs_verified": pairs, "subjects": rows}


def verify_all(
    subjects: dict[str, Subject],
    wide: dict[str, Subject],
    fingerprints: NDArray[np.uint64],
    random: np.random.Generator,
) -> int:
    """Verify that all find the same; returns how many pairs."""
    queries = [draw(random, VERIFIED_QUERIES), near(fingerprints, random, VERIFIED_QUERIES)]
    verify([*wide.values()], brute_subject(fingerprints, WIDE_BITS), queries[1][:20])
    return verify([*subjects.values()], brute_subject(fingerprints), np.concatenate(queries))


def main() -> None:
    """Run the command line."""
    parser = make_parser(__doc__)
    parser.add_argument("--documents", default="10000,100000,1000000", help="numbers of documents")
    parser.add_argument("--designs", default="4", help="table designs, such as 4,10,16,20")
    parser.add_argument("--runs", type=int, default=5, help="rounds (default 5)")
    parser.add_argument("--folder", help="where the stores are made")
    options = parser.parse_args()
    sizes = []
    for count in split_numbers(options.documents):
        with tempfile.TemporaryDirectory(prefix="bench_store-", dir=options.folder) as folder:
            sizes.append(measure(count, options.designs.split(","), options.runs, Path(folder)))
    names = ["scrapy-simhash", "lmdb", "numpy", "faiss-cpu"]
    write_result(options.output, names, sizes=sizes)


if __name__ == "__main__":
    main()
