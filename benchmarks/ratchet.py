"""The numbers by which the package may not grow, and the file that holds them.

`structure.py` prints them beside what `structure.json` holds, `tests/project/test_ratchet.py` fails
where one is larger. They are about the checkout that this file is in.
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
DESIGN = ROOT / "docs" / "design.md"
REASONS = "## Numbers that were raised"
# Beside Python, what the package is written in.
TEMPLATES = (".html", ".css", ".js")
OTHERS = (".lua", *TEMPLATES)
TRACED = {
    "moves of a near-duplicate page, steady": ("steady", "moves"),
    "moves of a near-duplicate page, first of a store": ("page", "moves"),
    "files that a near-duplicate page meets": ("steady", "files"),
}


def count_text(folder: Path, *suffixes: str) -> int:
    """Count the lines of the files below a folder whose names end so."""
    paths = (path for path in folder.rglob("*") if path.suffix in suffixes)
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def measure_held(
    rooms: Mapping[str, Mapping[str, int]], trips: Mapping[str, Mapping[str, Any]] | None = None
) -> dict[str, int]:
    """Measure what is held; what the trips say only where they were taken.

    Args:
        rooms: of this package, as `structure.count_rooms` counts.
        trips: of this package, as `structure.run_trips` does.
    """
    held = {
        "lines of Python": rooms["total"]["lines"],
        "lines of Python outside batch/": rooms["total"]["lines"] - rooms["batch"]["lines"],
        "lines of Lua": count_text(PACKAGE, ".lua"),
        "lines of templates": count_text(PACKAGE, *TEMPLATES),
    }
    for room, counts in rooms.items():
        if room != "total":
            # Of a room the Lua and the templates, too; the ground is no folder.
            others = count_text(PACKAGE / room, *OTHERS) if (PACKAGE / room).is_dir() else 0
            held[f"lines of {room}"] = counts["lines"] + others
    held["files"] = rooms["total"]["files"]
    for name, (trip, key) in TRACED.items():
        if trips is not None:
            held[name] = trips[trip][key]
    held["settings"] = len(list(_list_fields("config.py", "Config")))
    held["keys of a verdict"] = len(list(_list_fields("detector/log.py", "Published")))
    held["commands"] = _count_commands()
    held["stats"] = _count_stats()
    held["methods that a store kind writes"] = _count_abstract("stores/keyvalues.py")
    held["lines of tests"] = count_text(ROOT / "tests", ".py")
    return held


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


def _count_commands() -> int:
    for node in _parse("commands/command.py").body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if ast.unparse(target) == "COMMANDS":
                return len(node.value.keys)
    raise ValueError("commands/command.py has no table COMMANDS")


def _count_stats() -> int:
    """Count the stats of the reference: its bold names."""
    reference = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    return len(re.findall(r"\*\*`simhash/", reference))


def _count_abstract(file: str) -> int:
    """Count the methods that a subclass has to write; 0 where there is no such file."""
    if not (PACKAGE / file).exists():
        return 0
    return sum(
        any(ast.unparse(each) == "abstractmethod" for each in node.decorator_list)
        for node in ast.walk(_parse(file))
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


def write_held(measured: Mapping[str, int], reason: str) -> None:
    """Hold these numbers from now on; a reason for those that rise goes to docs/design.md."""
    risen = list_risen(measured, read_held()) if HELD.exists() else []
    if risen and reason:
        text = DESIGN.read_text(encoding="utf-8").rstrip("\n")
        if REASONS not in text:
            text += f"\n\n{REASONS}\n"
        entries = "".join(f"\n- {line}: {reason}" for line in risen)
        DESIGN.write_text(f"{text}{entries}\n", encoding="utf-8")
    elif risen:
        raise SystemExit(
            "these would rise; make them smaller, or give the reason by --because, which writes "
            "it to docs/design.md:\n" + "\n".join(risen)
        )
    HELD.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")


def print_held(measured: Mapping[str, int], held: Mapping[str, int]) -> None:
    """Print both as a Markdown table."""
    print("\n| what | held | now |\n| --- | ---: | ---: |")
    for name in dict.fromkeys([*held, *measured]):
        cells = (f"{side[name]:,}" if name in side else "" for side in (held, measured))
        print(f"| {name} | {' | '.join(cells)} |")
