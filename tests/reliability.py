"""Runs the tests that docs/reliability.md names.

`python -m tests.reliability [--long] [--only TEXT]`. With `--long` the variables beside a test are
set, and programs run as well: hours.
"""

import argparse
import ast
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.helpers.processes import ROOT, environment

DOCUMENT = ROOT / "docs" / "reliability.md"
_ROW = re.compile(r"\*\*(.+?)\*\*: (.+?) ((?:`[^`]+`(?: \([^)]+\))?[,;.] ?)+)")
_TEST = re.compile(r"(tests/[\w/]+\.py)?(?:::(\w+))?")
_VARIABLE = re.compile(r"(SIMHASH_TESTS?_[A-Z_]+)=(\d+)")


class Row(NamedTuple):
    """A promise: fault, promise and tests as written; what the tests name."""

    section: str
    cells: list[str]
    tests: list[str]
    programs: list[str]
    variables: dict[str, str]


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
    row, file = Row(section, list(found.groups()), [], [], {}), ""
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
    """Return True if there is a test, or the script of a program."""
    if named.startswith("tests/"):
        file, _, name = named.partition("::")
        return (ROOT / file).is_file() and name in _read_names(ROOT / file)
    script = re.sub(r"^-m (\S+)", lambda module: f"{module[1].replace('.', '/')}.py", named)
    return (ROOT / script.split()[0]).is_file()


def list_runs(rows: Iterable[Row], *, long: bool) -> Iterator[tuple[str, dict[str, str]]]:
    """List the arguments of Python that run what rows name, with the variables to set."""
    rows = list(rows)
    if tests := sorted({test for row in rows for test in row.tests}):
        yield f"-m pytest -m '' -n auto --dist worksteal {shlex.join(tests)}", {}
    for row in rows if long else ():
        if row.variables:  # without the limit on seconds that is for hangs
            yield (
                f"-m pytest -m '' -o faulthandler_timeout=0 {shlex.join(row.tests)}",
                row.variables,
            )
        yield from ((program, {}) for program in row.programs)


def main(*arguments: str) -> int:
    """Run what was asked for; returns 1 if anything failed or nothing is there."""
    parser = argparse.ArgumentParser(description="Run the tests of docs/reliability.md.")
    parser.add_argument("--long", action="store_true", help="long versions, programs; takes hours")
    parser.add_argument("--only", default="", metavar="TEXT", help="rows, or headings, with TEXT")
    options = parser.parse_args(arguments)
    rows = [row for row in read_rows(DOCUMENT.read_text()) if options.only in str(row[:2])]
    codes = {
        program: subprocess.call(
            [sys.executable, *shlex.split(program)], cwd=ROOT, env=environment(variables)
        )
        for program, variables in list_runs(rows, long=options.long)
    }
    failed = [program for program, code in codes.items() if code]
    print(*(f"failed: python {program}" for program in failed), sep="\n")  # noqa: T201
    return int(not codes or bool(failed))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
