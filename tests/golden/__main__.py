"""Golden verdicts: made, and compared.

`python -m tests.golden make [PART ...]` writes the golden files of parts, `compare` judges again
and prints the first difference of each part with the document that led to it; the exit code is 1
then, and `make` is for differences whose reason is known.
Parts are `random`, `labelled` and `docsite`.
"""

from __future__ import annotations

import argparse
import lzma
import secrets
import sys
import time
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tests.golden.documents import Episode, list_episodes, run_episode
from tests.golden.lines import Line
from tests.golden.pages import RULES, SHIPPED, run_pages

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
ALL_DOCUMENTS = 50_000
LINES_BEFORE = 3
PARTS = ("random", *SHIPPED)


class Stores:
    """Gives the URLs of new stores of one kind: `lmdb`, `memory:`, or a server."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind, self._folder, self._made = kind, folder, 0

    def make_url(self) -> str:
        """Make the URL of a store that is not there yet."""
        self._made += 1
        if self.kind == "lmdb":
            return str(self._folder / f"store-{self._made}")
        if self.kind == "memory:":
            return self.kind
        name = f"golden-{secrets.token_hex(8)}"
        if "prefix=" in self.kind:
            return f"{self.kind}-{name}"
        return f"{self.kind}{'&' if '?' in self.kind else '?'}prefix={name}"


def choose_episodes(options: argparse.Namespace) -> list[Episode]:
    """List the episodes of the random documents, for a store in memory those that never reopen."""
    episodes = list_episodes(options.documents, options.first)
    reopening = options.store != "memory:"
    return [episode for episode in episodes if reopening or not episode.reopens]


def run_part(part: str, stores: Stores, options: argparse.Namespace) -> Iterator[Line]:
    """Judge what belongs to a part; ends early where the golden file is longer."""
    if part == "random":
        for episode in choose_episodes(options):
            yield from run_episode(episode, stores.make_url())
    else:
        yield from run_pages(SHIPPED[part], [stores.make_url() for _ in RULES])


def read_golden(part: str, options: argparse.Namespace) -> Iterator[Line]:
    """Read the lines of a golden file, as far as they are compared."""
    wanted = {f"episode {episode.number}:" for episode in choose_episodes(options)}
    take = True
    with lzma.open(HERE / f"{part}.txt.xz", "rt", encoding="utf-8") as file:
        for line in file:
            if part == "random" and line.startswith("episode "):
                take = line[: line.index(":") + 1] in wanted
            if take:
                yield Line(line.rstrip("\n"))


def find_difference(expected: Iterator[Line], found: Iterator[Line]) -> tuple[int, str]:
    """Compare lines; returns how many, and the first difference for people, "" for none."""
    before: list[str] = []
    count = 0
    for count, (old, new) in enumerate(zip_longest(expected, found, fillvalue=Line("(none)")), 1):
        if old.text != new.text:
            lines = [f"line {count}, after", *(f"    {line}" for line in before)]
            lines += [f"  expected: {old.text}", f"  found:    {new.text}", f"  by: {new.cause}"]
            return count, "\n".join(lines)
        before = [*before[1 - LINES_BEFORE :], old.text]
    return count, ""


def compare_part(part: str, options: argparse.Namespace) -> tuple[int, str]:
    """Compare a part with its golden file."""
    with TemporaryDirectory() as name:
        found = run_part(part, Stores(options.store, Path(name)), options)
        return find_difference(read_golden(part, options), found)


def make_part(part: str, options: argparse.Namespace) -> None:
    """Write the golden file of a part."""
    target = HERE / f"{part}.txt.xz"
    with TemporaryDirectory() as name:
        lines = [line.text for line in run_part(part, Stores(options.store, Path(name)), options)]
    with lzma.open(target, "wt", preset=9, encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
    print(f"{part}: {len(lines):,} lines, {target.stat().st_size:,} bytes")


def main(arguments: list[str] | None = None) -> int:
    """Make or compare."""
    parser = argparse.ArgumentParser(
        "python -m tests.golden", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("action", choices=("make", "compare"))
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument(
        "--documents", type=int, default=ALL_DOCUMENTS, metavar="N", help="random ones; 50,000"
    )
    parser.add_argument(
        "--first", type=int, default=0, metavar="EPISODE", help="of the random documents"
    )
    parser.add_argument("--store", default="lmdb", metavar="URL", help="lmdb, memory: or a server")
    options = parser.parse_intermixed_args(arguments)
    different = False
    for part in options.parts or PARTS:
        if options.action == "make":
            make_part(part, options)
            continue
        started = time.perf_counter()
        lines, difference = compare_part(part, options)
        seconds = time.perf_counter() - started
        print(f"{part}: {difference or 'same'} ({lines:,} lines, {seconds:.0f} s)", flush=True)
        different = different or bool(difference)
    return int(different)


if __name__ == "__main__":
    sys.exit(main())
