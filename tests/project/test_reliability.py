"""docs/reliability.md names tests that exist, and `tests.reliability` runs them."""

import re
from collections import defaultdict
from pathlib import Path

from tests.helpers.needing import EVERYTHING
from tests.helpers.processes import ROOT
from tests.reliability import DOCUMENT, exists, list_runs, read_rows

PROMISES = """\
# Title

A paragraph with **bold** text.

## First

**one**: kept `for` a long time. `tests/test_a.py::test_1`, `::test_2` (why),
`SIMHASH_TEST_KILLS=500`.

**two**: kept. `tests/test_b.py`, `python -m tests.fuzz.fuzz_page --minutes 30`.

## Second

**three**: kept. `python benchmarks/bench_long_run.py`.
"""
FUZZ = "-m tests.fuzz.fuzz_page --minutes 30"


def test_whatever_the_document_names_exists() -> None:
    rows = list(read_rows(DOCUMENT.read_text()))
    assert len({row.section for row in rows}) > 5
    assert all(row.tests or row.programs for row in rows)
    assert all(len(row.cells) == 3 and all(row.cells) for row in rows)
    named = {name for row in rows for name in (*row.tests, *row.programs)}
    assert [name for name in sorted(named) if not exists(name)] == []


def is_quick(named: str) -> bool:
    """Return True if the first tier runs a test, or some case of it."""
    file, _, name = named.partition("::")
    source = (ROOT / file).read_text()
    head = source.partition(f"def {name}(")[0].rpartition("\n\n\n")[2] if name else ""
    whole = re.search(r"^pytestmark = [^)]*pytest\.mark\.slow", source, re.MULTILINE)
    return not whole and "@pytest.mark.slow\n" not in head


def test_every_promise_has_a_test_in_the_first_tier() -> None:
    """But those about Redis and Spark, whose tests need a server or Java."""
    rows = [row for row in read_rows(DOCUMENT.read_text()) if row.tests]
    without = [row for row in rows if not any(map(is_quick, row.tests))]
    elsewhere = [row.cells[0] for row in without if re.search("redis|valkey|spark", str(row))]
    assert [row.cells[0] for row in without if row.cells[0] not in elsewhere] == []
    assert 10 < len(elsewhere) < 25


def test_every_long_version_is_in_the_document() -> None:
    """Each variable that a test reads stands beside a test of its file, or of who imports it."""
    rows = list(read_rows(DOCUMENT.read_text()))
    read = defaultdict[str, list[Path]](list)
    for path in (ROOT / "tests").rglob("*.py"):
        for name in re.findall(r'environ\.get\("(SIMHASH_TESTS?_\w+)"', path.read_text()):
            read[name].append(path)
    assert EVERYTHING not in read
    assert set(read) == {name for row in rows for name in row.variables}
    for row in rows:
        sources = "".join((ROOT / test.partition("::")[0]).read_text() for test in row.tests)
        for name in row.variables:
            assert any(
                path.read_text() in sources or f"tests.helpers.{path.stem} import" in sources
                for path in read[name]
            )


def test_long_versions_and_programs_are_run_when_they_are_asked_for() -> None:
    rows = list(read_rows(PROMISES))
    short = "-m pytest -m '' -n auto --dist worksteal"
    tests = "tests/test_a.py::test_1 tests/test_a.py::test_2"
    first: tuple[str, dict[str, str]] = (f"{short} {tests} tests/test_b.py", {})
    assert list(list_runs(rows, long=False)) == [first]
    assert list(list_runs(rows, long=True)) == [
        first,
        (f"-m pytest -m '' -o faulthandler_timeout=0 {tests}", {"SIMHASH_TEST_KILLS": "500"}),
        (FUZZ, {}),
        ("benchmarks/bench_long_run.py", {}),
    ]
