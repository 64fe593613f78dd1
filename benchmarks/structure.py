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
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from machine import print_table, write_result
from ratchet import PACKAGE, TRACED, list_risen, measure_held, print_held, read_held, write_held

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

HERE = Path(__file__).parent
TOP_PAIRS = 15
MOST_CRAWLS = 9


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


def trace_page() -> dict[str, dict[str, Any]]:
    """Trace the page, again while it takes more than is held: what waits adds a move or two."""
    held, best = read_held(), trace_once()
    for _ in range(MOST_CRAWLS - 1):
        if all(best[trip][key] <= held.get(name, 0) for name, (trip, key) in TRACED.items()):
            break
        again = trace_once()
        best = {trip: min(best[trip], again[trip], key=itemgetter("moves")) for trip in best}
    return best


def main() -> int:
    """Measure, print, and hold the numbers where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--trips", action="store_true", help="trace a page, too")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a number has risen")
    parser.add_argument("--write", action="store_true", help="hold the numbers of this checkout")
    parser.add_argument("--output", type=Path, help="write the results as JSON, too")
    options = parser.parse_args()
    trips = trace_page() if options.trips or options.write else None
    measured, rooms = measure_held(trips), count_rooms()
    if options.write:
        write_held(measured)
    print_table(["room", "files", "lines"], rooms)
    if trips:
        print("\nMost moves of the near-duplicate page:\n")
        for start, end, count in trips["steady"]["pairs"][:TOP_PAIRS]:
            print(f"{count:4} {start} -> {end}")
    print_held(measured, read_held())
    write_result(options.output, ["scrapy"], rooms=rooms, numbers=measured, trips=trips)
    if risen := list_risen(measured, read_held()):
        print("\nThese have risen:\n" + "\n".join(risen))
    return int(options.check and bool(risen))


if __name__ == "__main__":
    sys.exit(main())
