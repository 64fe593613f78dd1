"""Golden verdicts: made, and compared.

`python -m tests.golden make [PART ...]` writes the golden files of parts, `compare` judges again
and prints the first difference of each part with the page that led to it; the exit code is 1 then,
and `make` is for differences whose reason is known. Parts are `labelled` and `docsite`.
"""

from __future__ import annotations

import argparse
import lzma
import sys
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tests.golden.pages import RULES, SHIPPED, Line, run_pages

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

HERE = Path(__file__).parent
LINES_BEFORE = 3


def read_golden(part: str) -> Iterator[Line]:
    """Read the lines of a golden file."""
    with lzma.open(HERE / f"{part}.txt.xz", "rt", encoding="utf-8") as file:
        for line in file:
            yield Line(line.rstrip("\n"))


def find_difference(expected: Iterable[Line], found: Iterable[Line]) -> str:
    """Compare lines; returns the first difference for people, "" for none."""
    before: list[str] = []
    for count, (old, new) in enumerate(zip_longest(expected, found, fillvalue=Line("(none)")), 1):
        if old.text != new.text:
            lines = [f"line {count}, after", *(f"    {line}" for line in before)]
            lines += [f"  expected: {old.text}", f"  found:    {new.text}", f"  by: {new.cause}"]
            return "\n".join(lines)
        before = [*before[1 - LINES_BEFORE :], old.text]
    return ""


def compare_part(part: str, urls: Sequence[str]) -> str:
    """Judge the pages of a part in new stores at these URLs; returns the first difference."""
    return find_difference(read_golden(part), run_pages(SHIPPED[part], urls))


def main() -> int:
    """Make or compare."""
    parser = argparse.ArgumentParser(
        "python -m tests.golden", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("action", choices=("make", "compare"))
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(SHIPPED))
    options = parser.parse_args()
    different = False
    for part in options.parts or SHIPPED:
        with TemporaryDirectory() as folder:
            urls = [f"{folder}/{rule}" for rule in RULES]
            if options.action == "make":
                lines = [line.text for line in run_pages(SHIPPED[part], urls)]
                with lzma.open(HERE / f"{part}.txt.xz", "wt", preset=9, encoding="utf-8") as file:
                    file.writelines(f"{line}\n" for line in lines)
                print(f"{part}: {len(lines):,} lines")
            else:
                difference = compare_part(part, urls)
                print(f"{part}: {difference or 'same'}", flush=True)
                different = different or bool(difference)
    return int(different)


if __name__ == "__main__":
    sys.exit(main())
