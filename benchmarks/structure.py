"""How is the package built, and what must not grow: files by room, the way of a page, all numbers.

Prints the numbers that `structure.json` holds, too: `--check` ends with exit code 1 if one has
risen, `--write` holds what was measured from now on, unless one has risen. Rooms are the folders at
the top of the package; "ground" is for the files that lie there.

The way of a near-duplicate page, from the middleware to the errback, is traced by `sys.setprofile`
in all threads, and in the judge's process. It is the list of files in which the calls and the
returns of Python functions happen, in order; a generator or coroutine that goes on is called again,
one that waits returns. Every change from one file to another is a move, private files counted: A
calls B, and B returns to A, is two as soon as A does anything else. Each thread has its own way,
and a hand-over to another thread or process and back, if it meets more than one file there, is two
moves more: so the order in which threads run changes nothing. What runs while a file is loaded is
not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from dataclasses import fields
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from measuring import ROOT, print_table

from scrapy_simhash.commands.command import add_commands
from scrapy_simhash.config import Config
from scrapy_simhash.judging.documents import VERDICT
from scrapy_simhash.stores.keyvalues import SETS, VALUES, Engine, KeyValues

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

HERE = Path(__file__).parent
PACKAGE = ROOT / "scrapy_simhash"
HELD = HERE / "structure.json"
TOP_PAIRS = 15
MOST_CRAWLS = 9
# What the package is written in.
SUFFIXES = {".py", ".lua", ".html", ".css", ".js"}
TRACED = {
    "moves of a near-duplicate page, steady": ("steady", "moves"),
    "moves of a near-duplicate page, first of a store": ("page", "moves"),
    "files that a near-duplicate page meets": ("steady", "files"),
}


def count_lines(folder: Path, suffixes: set[str]) -> int:
    """Count the lines of the files below a folder whose names end so."""
    paths = (path for path in folder.rglob("*") if path.suffix in suffixes)
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def measure_held(trips: Mapping[str, Mapping[str, Any]] | None = None) -> dict[str, int]:
    """Measure what is held.

    Args:
        trips: of this package, as `trace_page` returns them; None leaves these out.
    """
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    meta = (ROOT / "docs" / "meta.md").read_text(encoding="utf-8")
    written = KeyValues.__abstractmethods__, Engine.__abstractmethods__
    everything, batch = (count_lines(path, SUFFIXES) for path in (PACKAGE, PACKAGE / "batch"))
    return {
        "lines of Python, Lua and templates outside of batch/": everything - batch,
        "lines of batch/": batch,
        "files": len(list(PACKAGE.rglob("*.py"))),
        **{name: trips[trip][key] for name, (trip, key) in TRACED.items() if trips is not None},
        "settings": len(fields(Config)),
        "commands": len(add_commands(argparse.ArgumentParser())),
        "stats": len(re.findall(r"^### simhash/", meta, re.MULTILINE)),
        "keys of a verdict": len(VERDICT),
        "tables of a store": len(VALUES) + len(SETS),
        "methods that a store kind writes": sum(map(len, written)),
        "lines of tests": count_lines(ROOT / "tests", {".py"}),
        "lines of benchmarks": count_lines(ROOT / "benchmarks", {".py"}),
        "words of docs": sum(len(page.read_text(encoding="utf-8").split()) for page in pages),
    }


class Step(NamedTuple):
    """A call or a return, as `tracer.py` writes it.

    Attributes:
        thread: process and thread.
        file: path below the package.
        function: its qualified name.
    """

    thread: str
    file: str
    function: str


def count_rooms() -> list[tuple[str, int, int]]:
    """Count files and lines of Python by room, the ground floor first, and all together."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for path in PACKAGE.rglob("*.py"):
        room = path.relative_to(PACKAGE).parts[0]
        lines = len(path.read_text(encoding="utf-8").splitlines())
        for name in ("ground" if room.endswith(".py") else room, "total"):
            counts[name] += Counter(files=1, lines=lines)
    order = sorted(counts, key=lambda room: (room == "total", room != "ground", room))
    return [(room, counts[room]["files"], counts[room]["lines"]) for room in order]


def trace_once() -> dict[str, dict[str, Any]]:
    """Crawl a few pages, and count what two near-duplicates met, the first one of a store first."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "site").mkdir()
        shutil.copy(HERE / "tracer.py", folder / "site" / "sitecustomize.py")
        trace = folder / "trace.tsv"
        paths = [str(folder / "site"), str(PACKAGE.parent)]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(paths),
            "PYTHONDONTWRITEBYTECODE": "1",
            "STRUCTURE_PACKAGE": f"{PACKAGE}{os.sep}",
            "STRUCTURE_TRACE": str(trace),
        }
        command = [sys.executable, str(HERE / "trips.py"), str(folder)]
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, cwd=folder, env=environment
        )
        if done.returncode:
            sys.exit(f"the crawl failed:\n{done.stdout}{done.stderr}")
        if not trace.exists():
            sys.exit(f"nothing was traced: another {PACKAGE.name} came first on the path")
        times = json.loads((folder / "trip.json").read_text())
        return {
            trip: count_trip(list(_read_steps(trace, found["begin"], found["end"])))
            for trip, found in times.items()
        }


def _read_steps(trace: Path, begin: float, end: float) -> Iterator[Step]:
    """Read the steps between two times, without those taken while a file was loaded."""
    loading: Counter[str] = Counter()
    for line in trace.read_text().splitlines():
        thread, seconds, event, file, function = line.split("\t")
        if function == "<module>":
            loading[thread] += 1 if event == "call" else -1
        elif not loading[thread] and begin <= float(seconds) <= end and file.endswith(".py"):
            yield Step(thread, file, function)


def count_trip(steps: Collection[Step]) -> dict[str, Any]:
    """Count files, moves and functions of a trip, and moves by pair of files."""
    threads: defaultdict[str, list[str]] = defaultdict(list)
    for step in steps:
        threads[step.thread].append(step.file)
    pairs = Counter(
        pair for path in threads.values() for pair in pairwise(path) if pair[0] != pair[1]
    )
    others = sum(len(set(path)) > 1 for path in threads.values()) - 1
    return {
        "files": len({step.file for step in steps}),
        "moves": pairs.total() + 2 * others,
        "functions": len({(step.file, step.function) for step in steps}),
        "pairs": [[*pair, count] for pair, count in pairs.most_common()],
    }


def trace_page(held: Mapping[str, int]) -> dict[str, dict[str, Any]]:
    """Trace the page, again while it takes more than is held: what waits adds a move or two."""
    best = trace_once()
    for _ in range(MOST_CRAWLS - 1):
        if all(best[trip][key] <= held.get(name, 0) for name, (trip, key) in TRACED.items()):
            break
        again = trace_once()
        best = {trip: min(best[trip], again[trip], key=itemgetter("moves")) for trip in best}
    return best


def list_risen(measured: Mapping[str, int], held: Mapping[str, int]) -> list[str]:
    """List the numbers that are larger than those held, for people."""
    return [
        f"{name}: {measured[name]:,}, held at {number:,}"
        for name, number in held.items()
        if measured.get(name, 0) > number
    ]


def main() -> int:
    """Measure, print, and hold the numbers where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--trips", action="store_true", help="trace a page, too")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a number has risen")
    parser.add_argument("--write", action="store_true", help="hold the numbers of this checkout")
    options = parser.parse_args()
    held: dict[str, int] = json.loads(HELD.read_text(encoding="utf-8"))
    trips = trace_page(held) if options.trips or options.write else None
    measured = measure_held(trips)
    risen = list_risen(measured, held)
    print_table(["room", "files", "lines"], count_rooms())
    if trips:
        print("\nMost moves of the near-duplicate page:\n")
        for start, end, count in trips["steady"]["pairs"][:TOP_PAIRS]:
            print(f"{count:4} {start} -> {end}")
    print_table(
        ["what", "held", "now"],
        ([name, held.get(name, ""), number] for name, number in measured.items()),
    )
    if risen:
        print(
            "\nThese have risen; make them smaller, or edit benchmarks/structure.json and say why "
            "in the commit:\n" + "\n".join(risen)
        )
    elif options.write:
        HELD.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    return int((options.check or options.write) and bool(risen))


if __name__ == "__main__":
    sys.exit(main())
