"""How is the package built: files by room, circles of imports, trips through its files?

Prints the numbers that `structure.json` holds, too: `--check` ends with exit code 1 if one has
risen, `--write` holds what was measured from now on, unless one has risen.

Rooms are the folders at the top of the package; "ground" is for the files that lie there.

Circles are strongly connected components of files (Tarjan), by where imports stand: at the top of
a file (load), within functions (late), under `if TYPE_CHECKING` (typed), and together. `from
package.room import Name` imports the face, `room/__init__.py`; where the name is that of a module,
it imports the module. What a face imports of its own room is left out, and of the package's own
face all. Modules that are loaded by names in strings are not seen. Among rooms each file of the
ground floor is a room of its own: it may stand below the rooms, as `config`, or above, as `addon`.

A trip is traced by `sys.setprofile` in all threads, and in the worker process. Its path is the list
of files in which the calls and the returns of Python functions happen, in order; a generator or
coroutine that goes on is called again, one that waits returns. Every change from one file to
another on this path is a move, private files counted: A calls B, and B returns to A, is two as soon
as A does anything else. Each thread has its own path, and a hand-over to another thread or process
and back, if it meets more than one file there, is two moves more: so the order in which threads run
changes nothing. What runs while a file is loaded is not counted; templates are counted apart.
Functions are counted once, lambdas and comprehensions as well (Python 3.12 inlines these).
"""

from __future__ import annotations

import argparse
import ast
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
from ratchet import TRACED, list_risen, measure_held, print_held, read_held, write_held

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

HERE = Path(__file__).parent
PACKAGE = HERE.parent / "scrapy_simhash"
GROUND = "ground"
KINDS = ("load", "late", "typed")
# As in `trips.py`, which cannot be imported without Scrapy and the package on the path.
TRIPS = {
    "page": "near-duplicate page, first of a store",
    "steady": "near-duplicate page",
    "query": "store.query",
    "explain": "explain URL",
    "report": "report",
}
TOP_PAIRS = 15
MOST_CRAWLS = 9


class Import(NamedTuple):
    """One file of the package imports another.

    Attributes:
        importer: path below the package.
        imported: path below the package.
        kind: one of KINDS.
    """

    importer: str
    imported: str
    kind: str


class Step(NamedTuple):
    """A call or a return, as `tracer.py` writes it.

    Attributes:
        thread: process and thread.
        seconds: of the monotonic clock.
        event: `call` or `return`.
        file: path below the package.
        function: its qualified name.
    """

    thread: str
    seconds: float
    event: str
    file: str
    function: str


def list_files(package: Path) -> list[str]:
    """List the Python files of a package, as paths below it."""
    return sorted(path.relative_to(package).as_posix() for path in package.rglob("*.py"))


def room_of(file: str) -> str:
    """Get the room of a file, `GROUND` of those at the top."""
    room, separator, _ = file.partition("/")
    return room if separator else GROUND


def count_rooms(package: Path) -> dict[str, dict[str, int]]:
    """Count files and lines of Python by room, the ground floor first, and all together."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for file in list_files(package):
        lines = len((package / file).read_text(encoding="utf-8").splitlines())
        for room in (room_of(file), "total"):
            counts[room] += Counter(files=1, lines=lines)
    order = sorted(counts, key=lambda room: (room == "total", room != GROUND, room))
    return {room: dict(counts[room]) for room in order}


def list_imports(package: Path) -> list[Import]:
    """List the imports among the files of a package, but not those of a face in its own room."""
    files = list_files(package)
    modules = {_module_of(package.name, file): file for file in files}
    found = set()
    for file in files:
        module = _module_of(package.name, file)
        is_face = file.endswith("__init__.py")
        parent = module if is_face else module.rpartition(".")[0]
        tree = ast.parse((package / file).read_text(encoding="utf-8"))
        for names, kind in _walk_imports(tree, "load", parent):
            # The name itself where it is a module, or else where it is taken from.
            own = next((modules[name] for name in names if name in modules), None)
            if own is None or own == file:
                continue
            if is_face and (file == "__init__.py" or room_of(own) == room_of(file)):
                continue
            found.add(Import(file, own, kind))
    return sorted(found)


def _module_of(package: str, file: str) -> str:
    parts = [package, *file.removesuffix(".py").split("/")]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _walk_imports(node: ast.AST, kind: str, parent: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """List imported names, each with the module it is of, and the kind of import."""
    if isinstance(node, ast.Import):
        yield from (((alias.name,), kind) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            above = parent.split(".")[: len(parent.split(".")) - node.level + 1]
            base = ".".join([*above, *([base] if base else [])])
        yield from (((f"{base}.{alias.name}", base), kind) for alias in node.names)
    elif isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
        for statement in node.body:
            yield from _walk_imports(statement, "typed", parent)
        for statement in node.orelse:
            yield from _walk_imports(statement, kind, parent)
    else:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            kind = "late" if kind == "load" else kind
        for child in ast.iter_child_nodes(node):
            yield from _walk_imports(child, kind, parent)


def find_circles(edges: Iterable[tuple[str, str]]) -> list[list[str]]:
    """Find the strongly connected components of two or more, largest first (Tarjan)."""
    following: defaultdict[str, set[str]] = defaultdict(set)
    for start, end in edges:
        following[start].add(end)
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    circles: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for after in sorted(following.get(node, ())):
            if after not in index:
                visit(after)
                low[node] = min(low[node], low[after])
            elif after in stack:
                low[node] = min(low[node], index[after])
        if low[node] == index[node]:
            start = stack.index(node)
            if len(stack) - start > 1:
                circles.append(sorted(stack[start:]))
            del stack[start:]

    for node in sorted(following):
        if node not in index:
            visit(node)
    return sorted(circles, key=lambda circle: (-len(circle), circle))


def count_circles(imports: Collection[Import]) -> dict[str, list[list[str]]]:
    """Find the circles of files by kind of import and of all, and those among rooms."""
    circles = {k: find_circles((a, b) for a, b, kind in imports if kind == k) for k in KINDS}
    circles["load and late"] = find_circles((a, b) for a, b, kind in imports if kind != "typed")
    circles["all"] = find_circles((a, b) for a, b, _ in imports)
    rooms = {(_wing_of(a), _wing_of(b)) for a, b, _ in imports}
    circles["rooms"] = find_circles((a, b) for a, b in rooms if a != b)
    return circles


def _wing_of(file: str) -> str:
    room = room_of(file)
    return file if room == GROUND else room


def run_trips(package: Path, trips: Iterable[str] = TRIPS) -> dict[str, dict[str, Any]]:
    """Take trips, each in a process of its own, and count what they met."""
    results = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "site").mkdir()
        shutil.copy(HERE / "tracer.py", folder / "site" / "sitecustomize.py")
        trace = folder / "trace.tsv"
        paths = [str(folder / "site"), str(package.parent)]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(paths),
            "PYTHONDONTWRITEBYTECODE": "1",
            "STRUCTURE_PACKAGE": f"{package}{os.sep}",
            "STRUCTURE_TRACE": str(trace),
        }
        for trip in trips:
            # The one crawl of both trips of a page.
            if trip == "steady":
                continue
            trace.unlink(missing_ok=True)
            command = [sys.executable, str(HERE / "trips.py"), trip, str(folder)]
            done = subprocess.run(
                command, check=False, capture_output=True, text=True, cwd=folder, env=environment
            )
            if done.returncode:
                sys.exit(f"{trip} failed with {package}:\n{done.stdout}{done.stderr}")
            known = json.loads((folder / "trip.json").read_text())
            if not trace.exists():
                sys.exit(f"nothing was traced: another {package.name} came first on the path")
            for taken in ("page", "steady") if trip == "page" else (trip,):
                steps = list(_read_steps(trace, known[taken]["begin"], known[taken]["end"]))
                results[taken] = count_trip(steps)
    return results


def _read_steps(trace: Path, begin: float, end: float) -> Iterator[Step]:
    """Read the steps between two times, without those taken while a file was loaded."""
    loading: Counter[str] = Counter()
    for line in trace.read_text().splitlines():
        thread, seconds, event, file, function = line.split("\t")
        step = Step(thread, float(seconds), event, file, function)
        if function == "<module>":
            loading[thread] += 1 if event == "call" else -1
        elif not loading[thread] and begin <= step.seconds <= end:
            yield step


def count_trip(steps: Collection[Step]) -> dict[str, Any]:
    """Count files, moves, functions and rooms of a trip, and moves by pair of files."""
    threads: defaultdict[str, list[str]] = defaultdict(list)
    python = [step for step in steps if step.file.endswith(".py")]
    for step in python:
        threads[step.thread].append(step.file)
    pairs = Counter(
        pair for path in threads.values() for pair in pairwise(path) if pair[0] != pair[1]
    )
    others = sum(len(set(path)) > 1 for path in threads.values()) - 1
    files = sorted({step.file for step in python})
    return {
        "files": len(files),
        "moves": pairs.total() + 2 * others,
        "functions": len({(step.file, step.function) for step in python}),
        "rooms": len({room_of(file) for file in files}),
        "templates": len({step.file for step in steps} - set(files)),
        "threads": others + 1,
        "names": files,
        "pairs": [[*pair, count] for pair, count in pairs.most_common()],
    }


def measure(package: Path, *, trips: bool) -> dict[str, Any]:
    """Measure one package."""
    imports = list_imports(package)
    kinds = Counter(kind for _, _, kind in imports)
    measured: dict[str, Any] = {
        "rooms": count_rooms(package),
        "imports": {kind: kinds[kind] for kind in KINDS},
        "circles": count_circles(imports),
    }
    if trips:
        measured["trips"] = run_trips(package)
    return measured


def print_measured(measured: Mapping[str, Any]) -> None:
    """Print rooms, circles and trips."""
    rooms = measured["rooms"].items()
    print_table(["room", "files", "lines"], [[name, *counts.values()] for name, counts in rooms])
    print_table(
        ["circles of files, by imports", "files of each"],
        [
            [kind, ", ".join(map(str, map(len, found)))]
            for kind, found in measured["circles"].items()
        ],
    )
    if trips := measured.get("trips"):
        keys = ("files", "moves", "functions", "rooms", "templates")
        rows = [[TRIPS[trip], *(each[key] for key in keys)] for trip, each in trips.items()]
        print_table(["trip", *keys], rows)
        print("\nMost moves of the near-duplicate page:\n")
        for start, end, count in trips["page"]["pairs"][:TOP_PAIRS]:
            print(f"{count:4} {start} -> {end}")


def trace_page() -> dict[str, dict[str, Any]]:
    """Trace the page, again while it takes more than is held: what waits adds a move or two."""
    held, best = read_held(), run_trips(PACKAGE, ["page"])
    for _ in range(MOST_CRAWLS - 1):
        if all(best[trip][key] <= held.get(name, 0) for name, (trip, key) in TRACED.items()):
            break
        again = run_trips(PACKAGE, ["page"])
        best = {trip: min(best[trip], again[trip], key=itemgetter("moves")) for trip in best}
    return best


def hold(options: argparse.Namespace) -> int:
    """Print, check or write the numbers of this checkout that may not rise."""
    measured = measure_held(trace_page() if options.trips or options.write else None)
    if options.write:
        write_held(measured)
    held = read_held()
    print_held(measured, held)
    risen = list_risen(measured, held)
    if risen:
        print("\nThese have risen:\n" + "\n".join(risen))
    return int(bool(risen))


def main() -> int:
    """Measure the package and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("package", nargs="?", type=Path, help="folder of another package")
    parser.add_argument("--trips", action="store_true", help="trace four trips, too; a minute")
    parser.add_argument("--output", type=Path, help="write the results as JSON, too")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a number has risen")
    parser.add_argument("--write", action="store_true", help="hold the numbers of this checkout")
    options = parser.parse_args()
    if options.check or options.write:
        return hold(options)
    package = options.package or PACKAGE
    if not (package / "__init__.py").exists():
        parser.error(f"{package} is no folder of a package: it has no __init__.py")
    measured = measure(package.resolve(), trips=options.trips)
    print_measured(measured)
    if options.package is None:
        print_held(measure_held(measured.get("trips")), read_held())
    write_result(options.output, ["scrapy"], **measured)
    return 0


if __name__ == "__main__":
    sys.exit(main())
