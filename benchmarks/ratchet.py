"""The numbers by which the project may not grow, and the file that holds them.

`structure.py` prints them beside what `structure.json` holds, `tests/project/test_ratchet.py` fails
where one is larger. One rises only by a commit that edits `structure.json`.
"""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "scrapy_simhash"
HELD = Path(__file__).parent / "structure.json"
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
        trips: of this package, as `structure.run_trips` returns them; None leaves these out.
    """
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    reference = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    keyvalues = _parse("stores/keyvalues.py")
    everything, batch = (count_lines(path, SUFFIXES) for path in (PACKAGE, PACKAGE / "batch"))
    return {
        "lines of Python, Lua and templates outside of batch/": everything - batch,
        "lines of batch/": batch,
        "files": len(list(PACKAGE.rglob("*.py"))),
        **{name: trips[trip][key] for name, (trip, key) in TRACED.items() if trips is not None},
        "settings": len(list(_list_fields("config.py", "Config"))),
        "commands": _count_elements(_parse("commands/command.py"), "COMMANDS"),
        "stats": len(re.findall(r"\*\*`simhash/", reference)),
        "keys of a verdict": len(list(_list_fields("judge/log.py", "Published"))),
        "tables of a store": sum(_count_elements(keyvalues, name) for name in ("VALUES", "SETS")),
        "methods that a store kind writes": _count_abstract(keyvalues),
        "lines of tests": count_lines(ROOT / "tests", {".py"}),
        "lines of benchmarks": count_lines(ROOT / "benchmarks", {".py"}),
        "words of docs": sum(len(page.read_text(encoding="utf-8").split()) for page in pages),
    }


def _parse(file: str) -> ast.Module:
    return ast.parse((PACKAGE / file).read_text(encoding="utf-8"))


def _list_fields(file: str, name: str) -> Iterator[str]:
    """List the annotated fields of a class, but not its class variables."""
    for node in ast.walk(_parse(file)):
        if isinstance(node, ast.ClassDef) and node.name == name:
            for part in node.body:
                if not isinstance(part, ast.AnnAssign):
                    continue
                if not ast.unparse(part.annotation).startswith("ClassVar"):
                    yield ast.unparse(part.target)


def _count_elements(module: ast.Module, name: str) -> int:
    """Count the elements of a tuple or dict that a module has under a name."""
    for node in module.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if ast.unparse(target) != name:
                continue
            if isinstance(node.value, ast.Dict):
                return len(node.value.keys)
            if isinstance(node.value, ast.Tuple):
                return sum(
                    _count_elements(module, ast.unparse(each.value))
                    if isinstance(each, ast.Starred)
                    else 1
                    for each in node.value.elts
                )
    raise ValueError(f"there is no tuple or dict {name}")


def _count_abstract(module: ast.Module) -> int:
    """Count the methods that a subclass has to write."""
    return sum(
        any(ast.unparse(each) == "abstractmethod" for each in node.decorator_list)
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef)
    )


def read_held() -> dict[str, int]:
    """Read the numbers that are held."""
    held: dict[str, int] = json.loads(HELD.read_text(encoding="utf-8"))
    return held


def list_risen(measured: Mapping[str, int], held: Mapping[str, int]) -> list[str]:
    """List the numbers that are larger than those held, for people."""
    return [
        f"{name}: {measured[name]:,}, held at {number:,}"
        for name, number in held.items()
        if measured.get(name, 0) > number
    ]


def write_held(measured: Mapping[str, int]) -> None:
    """Hold these numbers from now on.

    Raises:
        SystemExit: one is larger than what is held.
    """
    if risen := list_risen(measured, read_held()):
        raise SystemExit(
            "these would rise; make them smaller, or edit benchmarks/structure.json and say why in "
            "the commit:\n" + "\n".join(risen)
        )
    HELD.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")


def print_held(measured: Mapping[str, int], held: Mapping[str, int]) -> None:
    """Print both as a Markdown table."""
    print("\n| what | held | now |\n| --- | ---: | ---: |")
    for name in dict.fromkeys([*held, *measured]):
        cells = (f"{side[name]:,}" if name in side else "" for side in (held, measured))
        print(f"| {name} | {' | '.join(cells)} |")
