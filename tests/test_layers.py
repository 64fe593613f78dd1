"""The layers of the package: a row imports rows below it, never above; nobody imports too much."""

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import scrapy_simhash
from tests.processes import ROOT, run_python

PACKAGE = Path(scrapy_simhash.__file__).parent
MOST_LINES = 350

# From top to bottom, as in docs/design.md.
LAYERS = {
    "scrapy": {
        *(
            "addon",
            "downloadermiddlewares",
            "spidermiddlewares",
            "eligibility",
            "delivery",
            "actions",
            "refetch",
            "logstats",
        ),
        *("exceptions", "signals"),
        *(
            "commands",
            "arguments",
            "arguments_batch",
            "arguments_inspect",
            "arguments_upkeep",
            "inspection",
            "explanation",
            "planning",
            "evaluation",
            "plots",
            "output",
            "output_batch",
            "output_evaluate",
            "output_inspect",
            "output_upkeep",
            "logreader",
            "joining",
            "joinedpages",
            "upkeep",
            "exchange",
            "importing",
            "crawled",
            "handover",
            "undo",
            "whatif",
            "spelling",
            "progress",
            "calibration",
            "survey",
            "advice",
            "asking",
            "output_calibrate",
            "stored_pairs",
            "explanation_page",
            "report",
            "report_input",
            "report_figures",
            "report_groups",
            "report_pairs",
            "report_table",
            "report_sections",
            "report_page",
            "report_plots",
            "arguments_report",
            "output_report",
            "paths",
        ),
        *("spark_command", "spark_job"),
    },
    "service": {
        *("detector", "workers", "confinement", "writer", "decisionlog", "documents"),
        *("spark_pages", "spark_sources", "replay"),
        *("seeding", "seeding_documents", "journal", "source_kinds"),
    },
    "store": {
        *("stores", "judge", "lease", "records", "lmdb_store", "lmdb_documents", "lmdb_tables"),
        *("lmdb_header", "lmdb_environment", "lmdb_check", "lmdb_stats"),
        *("store_documents", "store_header", "store_joins", "store_queries", "store_rows"),
        *("store_stats", "store_upkeep", "probing"),
        *(
            "redis_check",
            "redis_commit",
            "redis_connection",
            "redis_documents",
            "redis_header",
            "redis_keys",
            "redis_lease",
            "redis_numbers",
            "redis_prefetch",
            "redis_reading",
            "redis_rebuild",
            "redis_scripts",
            "redis_server",
            "redis_slots",
            "redis_snapshot",
            "redis_store",
            "redis_tables",
            "redis_writes",
        ),
        *(
            "lmdb_probe",
            "lmdb_compact",
            "lmdb_rebuild",
            "lmdb_rows",
            "lmdb_archived",
            "lmdb_backup",
            "store_urls",
            "lmdb_connection",
            "lmdb_reading",
            "lost",
            "archive_probe",
            "lmdb_users",
            "lmdb_guard",
            "stored",
            "checks",
        ),
        *("archive", "archive_file", "archive_format", "archive_writer"),
        *("spark_engine", "spark_pairs", "spark_batch", "spark_clusters", "spark_confirm"),
        *("matching", "merging", "store_transfer", "lmdb_transfer", "redis_transfer"),
    },
    "pure": {
        *("text", "features", "simhash", "permutation", "designs", "completeness", "buckets"),
        *("planner", "costs", "optimum", "fingerprint", "recipe", "scopes"),
        *(
            "config",
            "shared",
            "sketch",
            "confirm",
            "links",
            "chinese",
            "kinds",
            "corpus",
            "quality",
            "jointables",
            "selfjoin",
            "joincells",
            "clusters",
            "batch",
            "numbers",
            "wholefile",
            "untrusted",
            "labels",
            "sampling",
            "estimates",
            "pairing",
            "nearindex",
            "difference",
            "comparison",
            "mirrors",
            "report_paper",
        ),
        *("huffman", "blocks", "interpolation"),
        *("sources", "source_warc", "source_feed", "source_folder", "source_parquet"),
    },
}
# What a row must do without; the one above may have it.
FORBIDDEN = {
    "scrapy": {"twisted.internet.reactor", "lmdb", "pebble", "redis"},
    "service": {"scrapy", "twisted", "lmdb", "redis"},
    "store": {"scrapy", "twisted", "trafilatura", "lxml", "pebble", "asyncio"},
    "pure": {"scrapy", "twisted", "lmdb", "redis", "pebble", "asyncio", "filelock"},
}


class Import(NamedTuple):
    """One name that a module imports.

    Attributes:
        name: with dots; of `from a import b`, `a.b`.
        typed: for the type checker only.
    """

    name: str
    typed: bool
    line: int


def modules() -> list[str]:
    return sorted(path.stem for path in PACKAGE.glob("*.py") if path.stem != "__init__")


def layer_of(module: str) -> str:
    return next(layer for layer, names in LAYERS.items() if module in names)


def imports_of(module: str) -> list[Import]:
    """List what a module imports, at its top, within functions, and for the type checker."""
    source = (PACKAGE / f"{module}.py").read_text(encoding="utf-8")
    return list(_imports(ast.parse(source), typed=False))


def _imports(node: ast.AST, *, typed: bool) -> Iterator[Import]:
    if isinstance(node, ast.Import):
        yield from (Import(alias.name, typed, node.lineno) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, "relative imports hide where a name comes from"
        yield from (Import(f"{node.module}.{a.name}", typed, node.lineno) for a in node.names)
    elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        for statement in node.body:
            yield from _imports(statement, typed=True)
        for statement in node.orelse:
            yield from _imports(statement, typed=typed)
    else:
        for child in ast.iter_child_nodes(node):
            yield from _imports(child, typed=typed)


def own_module(name: str) -> str | None:
    """Get the module of this package that an import loads, or None."""
    root, _, rest = name.partition(".")
    module = rest.partition(".")[0]
    return module if root == PACKAGE.name and module in modules() else None


def test_every_module_has_its_row() -> None:
    placed = [module for names in LAYERS.values() for module in names]
    assert sorted(placed) == modules()
    assert {path.name for path in PACKAGE.iterdir() if path.is_dir()} <= {
        "__pycache__",
        "templates",
    }


@pytest.mark.parametrize("module", modules())
def test_no_module_imports_a_row_above(module: str) -> None:
    rows = list(LAYERS)
    row = rows.index(layer_of(module))
    above = [
        f"{module}:{found.line} imports {found.name}"
        for found in imports_of(module)
        if not found.typed and (own := own_module(found.name))
        if rows.index(layer_of(own)) < row
    ]
    assert above == []


@pytest.mark.parametrize("module", modules())
def test_no_module_imports_what_its_row_must_do_without(module: str) -> None:
    forbidden = FORBIDDEN[layer_of(module)]
    found = [
        f"{module}:{found.line} imports {found.name}"
        for found in imports_of(module)
        if not found.typed
        if any(found.name == name or found.name.startswith(f"{name}.") for name in forbidden)
    ]
    assert found == []


def test_no_module_is_too_long() -> None:
    lengths = {m: len((PACKAGE / f"{m}.py").read_text("utf-8").splitlines()) for m in modules()}
    assert {module: lines for module, lines in lengths.items() if lines > MOST_LINES} == {}


LOADED = """
import json, sys
import {module}
print(json.dumps(sorted({{name.partition(".")[0] for name in sys.modules}})))
"""


@pytest.mark.parametrize(
    ("module", "without"),
    [
        (
            "scrapy_simhash",
            {"trafilatura", "lmdb", "redis", "lxml", "numpy", "scrapy", "pebble"},
        ),
        (
            "scrapy_simhash.commands",
            {"trafilatura", "lmdb", "redis", "pebble", "numpy", "rich", "tqdm", "tldextract"},
        ),
        ("scrapy_simhash.workers", {"scrapy", "twisted", "lmdb", "trafilatura"}),
        ("scrapy_simhash.fingerprint", {"scrapy", "twisted", "lmdb"}),
        ("scrapy_simhash.lmdb_store", {"scrapy", "twisted", "trafilatura", "lxml", "redis"}),
        ("scrapy_simhash.redis_store", {"scrapy", "twisted", "trafilatura", "lxml", "lmdb"}),
    ],
)
def test_what_an_import_does_not_load(module: str, without: set[str]) -> None:
    done = run_python("-c", LOADED.format(module=module), cwd=ROOT)
    assert done.returncode == 0, done.stderr
    loaded = set(json.loads(done.stdout))
    assert "scrapy_simhash" in loaded
    assert loaded & without == set()
