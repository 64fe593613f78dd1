"""Runs the tests that docs/reliability.md names, and prints in tables what was found.

`python -m tests.reliability [--long] [--only TEXT] [--resume FILE]`. With `--long` the variables
beside a test are set, and programs run as well: hours. Tables go to the standard output, progress
to the other.
"""

import argparse
import ast
import json
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import groupby
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

from tests.helpers.processes import ROOT, environment

DOCUMENT = ROOT / "docs" / "reliability.md"
_ROW = re.compile(r"\*\*(.+?)\*\*: (.+?) ((?:`[^`]+`(?: \([^)]+\))?[,;.] ?)+)(?:Without: (.+))?")
_TEST = re.compile(r"(tests/[\w/]+\.py)?(?:::(\w+))?")
_VARIABLE = re.compile(r"(SIMHASH_TESTS?_[A-Z_]+)=(\d+)")


class Row(NamedTuple):
    """A promise: fault, promise, tests and what was removed, as written; what the tests name."""

    section: str
    cells: list[str]
    tests: list[str]
    programs: list[str]
    variables: dict[str, str]


class Case(NamedTuple):
    """What became of a test, with one set of parameters, or of a program."""

    name: str
    outcome: str
    seconds: float


def read_rows(document: str) -> Iterator[Row]:
    """Read the paragraphs that begin with a fault in bold; others are passed over."""
    section = ""
    for paragraph in re.split(r"\n\n+", document):
        if paragraph.startswith("#"):
            section = paragraph.lstrip("# ")
        elif paragraph.startswith("**"):
            yield _read_row(section, " ".join(paragraph.split()))


def _read_row(section: str, paragraph: str) -> Row:
    found = _ROW.fullmatch(paragraph)
    if found is None:
        raise ValueError(f"{section}: {paragraph!r} is no fault, promise and tests")
    row, file = Row(section, [cell or "not tried" for cell in found.groups()], [], [], {}), ""
    for code in re.findall(r"`([^`]+)`", found[3]):
        if code.startswith("python "):
            row.programs.append(code.removeprefix("python "))
        elif variable := _VARIABLE.fullmatch(code):
            row.variables[variable[1]] = variable[2]
        elif (test := _TEST.fullmatch(code)) and (file := test[1] or file):  # or the file before
            row.tests.append(f"{file}::{test[2]}" if test[2] else file)
        else:
            raise ValueError(f"{section}: {code!r} is no test, variable or program")
    return row


@cache
def _read_names(file: Path) -> set[str]:
    """Read the names of the tests of a file, and the empty one, which stands for all."""
    return {"", *(getattr(each, "name", "") for each in ast.parse(file.read_text()).body)}


def exists(named: str) -> bool:
    """Say whether there is a test, or the script of a program."""
    if named.startswith("tests/"):
        file, _, name = named.partition("::")
        return (ROOT / file).is_file() and name in _read_names(ROOT / file)
    script = re.sub(r"^-m (\S+)", lambda module: f"{module[1].replace('.', '/')}.py", named)
    return (ROOT / script.split()[0]).is_file()


def read_report(report: str) -> Iterator[Case]:
    """Read pytest's JUnit XML."""
    for case in ET.fromstring(report).iter("testcase"):  # noqa: S314 - pytest wrote it
        kinds = {child.tag for child in case}
        outcome = "failed" if kinds & {"failure", "error"} else "passed"
        name = f"{case.get('classname')}.{case.get('name', '').partition('[')[0]}"
        yield Case(name, "skipped" if "skipped" in kinds else outcome, float(case.get("time", 0)))


def judge(row: Row, cases: Sequence[Case]) -> tuple[bool, str]:
    """Say whether all that a row names was run and nothing failed, and what was found."""
    found: dict[str, list[Case]] = {}
    for name in (*row.tests, *row.programs):
        key = re.sub(r"\.py(::)?", ".", name).replace("/", ".") if name in row.tests else name
        found[name] = [case for case in cases if f"{case.name}.".startswith(f"{key.strip('.')}.")]
    of_row = [case for of_name in found.values() for case in of_name]
    counted = sorted(Counter(case.outcome for case in of_row).items())
    said = [f"{count} {outcome}" for outcome, count in counted]
    said += [f"{sum(case.seconds for case in of_row):.1f} s"] if of_row else []
    not_run = [f"not run: {name}" for name, of_name in found.items() if not of_name]
    return "failed" not in dict(counted) and not not_run, ", ".join(said + not_run) or "--long only"


def run(program: str, variables: Mapping[str, str]) -> Case:
    """Run arguments of Python to their end."""
    command, began = [sys.executable, *shlex.split(program)], time.monotonic()
    code = subprocess.call(command, cwd=ROOT, env=environment(variables), stdout=sys.stderr)
    return Case(program, "failed" if code else "passed", time.monotonic() - began)


def run_rows(rows: Sequence[Row], kept: Path | None) -> Iterator[Case]:
    """Run what rows name: short tests together, then what takes long, one after the other."""
    # What a file has is not run again, so a run of hours can be cut into parts.
    lines = kept.read_text().splitlines() if kept is not None and kept.exists() else []
    done = {name: [Case(*case) for case in cases] for name, cases in map(json.loads, lines)}
    of_all = [test for row in rows if not row.variables for test in row.tests if exists(test)]
    parts: dict[str, Callable[[], list[Case]]] = {}
    if of_all:
        parts["short"] = partial(run_tests, sorted(set(of_all)), {})
    for row in rows:
        for test in row.tests if row.variables else ():
            if exists(test):
                parts[f"{test} {row.variables}"] = partial(run_tests, [test], row.variables)
        for program in row.programs:
            parts[program] = partial(_run_alone, program)
    for name, part in parts.items():
        if name not in done:
            done[name] = part()
            if kept is not None:
                with kept.open("a") as file:
                    print(json.dumps([name, done[name]]), file=file)
        yield from done[name]


def _run_alone(program: str) -> list[Case]:
    return [run(program, {})]


def run_tests(tests: Iterable[str], variables: Mapping[str, str]) -> list[Case]:
    """Run tests in one go; long versions without the limit on seconds that is for hangs."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        limit = "-o faulthandler_timeout=0" if variables else ""
        command = f"-m pytest -m '' --quiet -n auto --dist worksteal --junitxml={report} {limit}"
        run(f"{command} {shlex.join(tests)}", variables)
        return list(read_report(report.read_text())) if report.exists() else []


def write_tables(rows: Iterable[Row], cases: Sequence[Case]) -> Iterator[str]:
    """Write a table for each section, with what was found."""
    for section, of_section in groupby(rows, lambda row: row.section):
        yield f"\n## {section}\n\n| fault | promise | test | found |\n| --- | --- | --- | --- |"
        for row in of_section:
            yield f"| {' | '.join([*row.cells[:3], judge(row, cases)[1]])} |"


def main(*arguments: str) -> int:
    """Run what was asked for and print it; 1 if anything failed or is not there."""
    parser = argparse.ArgumentParser(description="Run the tests of docs/reliability.md.")
    parser.add_argument("--long", action="store_true", help="long versions, programs; takes hours")
    parser.add_argument("--only", default="", metavar="TEXT", help="rows, or headings, with TEXT")
    parser.add_argument(
        "--resume", type=Path, metavar="FILE", help="keep what was found there, and go on from it"
    )
    options = parser.parse_args(arguments)
    rows = [row for row in read_rows(DOCUMENT.read_text()) if options.only in str(row[:2])]
    rows = rows if options.long else [row._replace(programs=[], variables={}) for row in rows]
    cases = list(run_rows(rows, options.resume))
    print(*write_tables(rows, cases), sep="\n")  # noqa: T201
    return int(not rows or not all(judge(row, cases)[0] for row in rows))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
