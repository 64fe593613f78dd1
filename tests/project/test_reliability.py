"""docs/reliability.md names tests that exist; `tests.reliability` prints what became of them."""

import re
from pathlib import Path

import pytest

from tests import reliability
from tests.helpers.needing import EVERYTHING
from tests.helpers.processes import ROOT
from tests.reliability import DOCUMENT, Case, exists, judge, main, read_report, read_rows

PROMISES = """\
# Title

A paragraph with **bold** text.

## First

**one**: kept `for` a long time. `tests/test_a.py::test_1`, `::test_2` (why),
`SIMHASH_TEST_KILLS=500`.
Without: care.

**two**: kept. `tests/test_b.py`, `python -m tests.fuzz.fuzz_page --minutes 30`.

## Second

**three**: kept. `python benchmarks/bench_long_run.py`. Without: closing.
"""
REPORT = """\
<testsuites><testsuite>
<testcase classname="tests.test_a" name="test_1[a.b]" time="1.5" />
<testcase classname="tests.test_a" name="test_1[c]" time="0.5"><skipped /></testcase>
<testcase classname="tests.test_a" name="test_2" time="1"><failure /></testcase>
<testcase classname="tests.test_a" name="test_10" time="9"><error /></testcase>
<testcase classname="tests.test_b.TestMachine" name="runTest" time="2.25" />
</testsuite></testsuites>
"""
FUZZ = "-m tests.fuzz.fuzz_page --minutes 30"


def test_whatever_the_document_names_exists() -> None:
    rows = list(read_rows(DOCUMENT.read_text()))
    assert len({row.section for row in rows}) > 5
    assert all(row.tests or row.programs for row in rows)
    assert all(len(row.cells) == 4 and all(row.cells) for row in rows)
    named = {name for row in rows for name in (*row.tests, *row.programs)}
    assert [name for name in sorted(named) if not exists(name)] == []


def is_quick(named: str) -> bool:
    """Say whether the first tier runs a test, or some case of it."""
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
    read: dict[str, list[Path]] = {}
    for path in (ROOT / "tests").rglob("*.py"):
        for name in re.findall(r'environ\.get\("(SIMHASH_TESTS?_\w+)"', path.read_text()):
            read.setdefault(name, []).append(path)
    assert EVERYTHING not in read
    assert set(read) == {name for row in rows for name in row.variables}
    for row in rows:
        sources = "".join((ROOT / test.partition("::")[0]).read_text() for test in row.tests)
        for name in row.variables:
            assert any(
                path.read_text() in sources or f"tests.helpers.{path.stem} import" in sources
                for path in read[name]
            )


def test_rows_are_read() -> None:
    one, two, three = read_rows(PROMISES)
    assert (one.section, one.cells[:2]) == ("First", ["one", "kept `for` a long time."])
    assert [row.cells[3] for row in (one, two, three)] == ["care.", "not tried", "closing."]
    assert one.tests == ["tests/test_a.py::test_1", "tests/test_a.py::test_2"]
    assert one.variables == {"SIMHASH_TEST_KILLS": "500"}
    assert (two.tests, two.programs) == (["tests/test_b.py"], [FUZZ])
    assert (three.section, three.programs) == ("Second", ["benchmarks/bench_long_run.py"])


@pytest.mark.parametrize(
    "tests", ["", "`test_1`.", "`::test_1`.", "`A=5`.", "`tests/a.py` Why: x."]
)
def test_what_names_no_test_is_refused(tests: str) -> None:
    with pytest.raises(ValueError, match=r"Third: .* is no (test|fault), "):
        list(read_rows(f"{PROMISES}\n## Third\n\n**four**: kept. {tests}\n"))


def test_what_was_found_is_judged() -> None:
    one, two, three = read_rows(PROMISES)
    cases = list(read_report(REPORT))
    assert judge(one, cases) == (False, "1 failed, 1 passed, 1 skipped, 3.0 s")
    assert judge(one, cases[:2]) == (
        False,
        "1 passed, 1 skipped, 2.0 s, not run: tests/test_a.py::test_2",
    )
    assert judge(two, cases) == (False, f"1 passed, 2.2 s, not run: {FUZZ}")
    assert judge(two, [*cases, Case(FUZZ, "passed", 60)]) == (True, "2 passed, 62.2 s")
    assert judge(two, [*cases, Case(FUZZ, "failed", 60)]) == (False, "1 failed, 1 passed, 62.2 s")
    assert judge(three._replace(programs=[]), cases) == (True, "--long only")


def test_what_is_kept_is_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[str] = []

    def run_tests(tests: list[str], variables: dict[str, str]) -> list[Case]:
        ran.append(f"{tests} {variables}")
        return list(read_report(REPORT))

    def run(program: str, _: object) -> Case:
        ran.append(program)
        if len(ran) == 4:
            raise KeyboardInterrupt
        return Case(program, "passed", 5)

    monkeypatch.setattr(reliability, "DOCUMENT", tmp_path / "reliability.md")
    (tmp_path / "reliability.md").write_text(PROMISES)
    monkeypatch.setattr(reliability, "exists", lambda _: True)
    monkeypatch.setattr(reliability, "run_tests", run_tests)
    monkeypatch.setattr(reliability, "run", run)
    options = ["--long", "--resume", str(tmp_path / "kept")]
    with pytest.raises(KeyboardInterrupt):
        main(*options)
    main(*options)
    long = " {'SIMHASH_TEST_KILLS': '500'}"
    of_first = [f"['tests/test_a.py::test_1']{long}", f"['tests/test_a.py::test_2']{long}"]
    rest = ["benchmarks/bench_long_run.py"]
    assert ran == ["['tests/test_b.py'] {}", *of_first, FUZZ, FUZZ, *rest]
    first = capsys.readouterr().out
    ran.clear()
    main(*options)
    assert not ran
    assert capsys.readouterr().out == first
