"""The rooms of the package: their order, their faces, no circles, and what an import costs."""

import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import scrapy_simhash
from tests.helpers.processes import ROOT, run_python

PACKAGE = Path(scrapy_simhash.__file__).parent
# A room imports rooms that stand before it, but those that are apart import not each other.
ORDER = (
    *("ground", "pages", "tables", "judging", "stores", "config", "judge", "crawl"),
    *("transfer", "batch", "inspection", "commands", "doors"),
)
APART = {"transfer", "batch", "inspection"}
# What Scrapy and users name, made of the rooms; no room imports them.
DOORS = {"", "addon", "downloadermiddlewares", "spidermiddlewares"}


def _module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {_module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}
FAMILIES = ("look", "batch", "upkeep")
FACES = {name for name, path in MODULES.items() if path.name == "__init__.py"}


def find_room(module: str) -> str:
    if module in DOORS:
        return "doors"
    top = module.partition(".")[0]
    return top if top in ORDER else "ground"


def list_imports(module: str) -> Iterator[tuple[str, int]]:
    """List what a module imports, such as `json.loads`, and the lines: at its top or further in."""
    for node in ast.walk(ast.parse(MODULES[module].read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide where a name comes from"
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)


@cache
def list_own_imports() -> list[tuple[str, int, str]]:
    """List which module imports which other one of this package, at which line."""
    return [
        (module, line, own)
        for module in MODULES
        for dotted, line in list_imports(module)
        for own in [find_module(dotted)]
        if own is not None
    ]


def find_module(dotted: str) -> str | None:
    """Get the module of this package that an import loads, or None, as for its version."""
    if dotted == f"{PACKAGE.name}.__version__":
        return None
    for name in (dotted, dotted.rpartition(".")[0]):
        root, _, rest = name.partition(".")
        if root == PACKAGE.name and rest in MODULES:
            return rest
    return None


def test_every_folder_is_a_room_of_the_order() -> None:
    rooms = {path.parent.relative_to(PACKAGE).parts[0] for path in PACKAGE.glob("*/*.py")}
    assert rooms == set(ORDER) - {"ground", "tables", "config", "transfer", "doors"}


def test_no_room_imports_one_that_stands_after_it() -> None:
    ranks = {room: rank for rank, room in enumerate(ORDER)}
    wrong = [
        f"{module}:{line} imports {own}"
        for module, line, own in list_own_imports()
        for room, its in [(find_room(module), find_room(own))]
        if ranks[its] > ranks[room] or len({its, room} & APART) == 2
    ]
    assert wrong == []


def test_no_circles_of_files() -> None:
    """Over imports of every kind; those that a face makes of its own room aside."""
    graph: dict[str, set[str]] = {}
    for module, line, own in list_own_imports():
        if not (module in FACES and is_within(own, module)):
            graph.setdefault(module, set()).add(own)
        its_face = own in FACES - {"", module} and is_within(module, own)
        assert not its_face, f"{module}:{line} imports the face of its own room"
    TopologicalSorter(graph).prepare()  # raises CycleError, which names a circle


def is_within(module: str, face: str) -> bool:
    return not face or module.startswith(f"{face}.")


def test_one_file_uses_what_is_private_in_scrapy() -> None:
    """Ruff refuses private names but where a comment allows them; `getattr` gets round it."""
    pattern = re.compile(r"noqa: .*SLF001|getattr\([^\"]*\"_(?!_)")
    using = {path for path in PACKAGE.rglob("*.py") if pattern.search(path.read_text("utf-8"))}
    names = {path.relative_to(PACKAGE).as_posix() for path in using}
    # PySpark has no public way to its JVM, and lmdb's databases have no other class.
    others = {"batch/spark/pairs.py", "batch/spark/tasks.py", "stores/lmdb.py"}
    assert names - others == {"crawl/running.py"}


FIRST_LOADED = """
import importlib, json, sys
for module, without in json.loads(sys.argv[1]):
    importlib.import_module(module)
    if loaded := {name.partition(".")[0] for name in sys.modules} & set(without):
        print(module, "loads", *sorted(loaded))
        break
"""
_PURE = {"scrapy", "twisted", "lmdb", "redis", "lxml", "rich"}
_COMMANDS = {"lmdb", "redis", "rich"}
_STORES = {"scrapy", "twisted", "lxml"}


@pytest.mark.parametrize(
    "imports",
    [
        {
            "": {"lmdb", "redis", "lxml", "numpy", "scrapy"},
            "commands": _COMMANDS | {"numpy", "tldextract", "jinja2"},
            **{f"commands.{family}": _COMMANDS for family in FAMILIES},
        },
        {
            # What is in the process of a crawl.
            **{door: {"numpy", "lmdb", "regex", "redis"} for door in sorted(DOORS)},
            **{module: {"numpy", "lmdb"} for module in MODULES if module.startswith("crawl.")},
        },
        {
            "judge.client": {"scrapy", "twisted", "lmdb", "numpy", "regex"},
            **dict.fromkeys(("pages.fingerprint", "judging.matching"), _PURE),
        },
        *({"stores.lmdb": _STORES | {"redis"}}, {"stores.redis": _STORES | {"lmdb"}}),
        {face: {"numpy"} for face in sorted(FACES) if not face.startswith("batch")},
    ],
    ids=["commands", "crawls", "judges", "lmdb", "redis", "faces"],
)
def test_what_an_import_does_not_load(imports: dict[str, set[str]]) -> None:
    """One after the other in one process, which names the first one that loads too much."""
    names = {f"{PACKAGE.name}.{module}".rstrip("."): each for module, each in imports.items()}
    named = [(name, sorted(without)) for name, without in names.items()]
    done = run_python("-c", FIRST_LOADED, json.dumps(named), cwd=ROOT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
