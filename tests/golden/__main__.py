"""Golden verdicts: made, compared, and two checkouts run side by side.

`python -m tests.golden make [PART ...]` writes the golden files of parts, `compare` judges again
and prints the first difference of each part with the documents that led to it; the exit code is 1
then, and `make` is for differences whose reason is known.
Parts are `random`, `labelled`, `docsite`, `crawl`, and with `--corpora` four labelled corpora.

`compare --beside CHECKOUT` compares with what the code of another checkout says here and now,
of random documents that are in no golden file (`--first` chooses others).
"""

from __future__ import annotations

import argparse
import lzma
import os
import secrets
import subprocess
import sys
import time
from contextlib import ExitStack
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tests.golden.crawl import run_crawl
from tests.golden.documents import Episode, list_episodes, run_episode
from tests.golden.lines import Line
from tests.golden.pages import CORPORA, RULES, SHIPPED, find_corpus, run_pages

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ALL_DOCUMENTS = 50_000
LINES_BEFORE = 3
PARTS = ("random", *SHIPPED, "crawl", *CORPORA)


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
    return [episode for episode in episodes if options.reopening or not episode.reopens]


def run_part(part: str, stores: Stores, options: argparse.Namespace) -> Iterator[Line]:
    """Judge what belongs to a part; ends early where the golden file is longer."""
    if part == "random":
        for episode in choose_episodes(options):
            yield from run_episode(episode, stores.make_url())
    elif part == "crawl":
        yield from run_crawl("" if stores.kind in {"lmdb", "memory:"} else stores.make_url())
    elif folder := find_corpus(part, options.corpora):
        yield from run_pages(folder, [stores.make_url() for _ in RULES])


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


def read_beside(part: str, options: argparse.Namespace) -> Iterator[Line]:
    """Read the lines of another checkout, which runs the same part in a process of its own."""
    package = options.beside.resolve() / "scrapy_simhash"
    if not (package / "__init__.py").exists():
        raise SystemExit(f"{options.beside} is no checkout: it has no folder scrapy_simhash")
    arguments = [f"--documents={options.documents}", f"--first={options.first}"]
    arguments += [f"--corpora={options.corpora}"] * bool(options.corpora)
    # The other code may have no such store.
    in_memory = options.store == "memory:"
    arguments += ["--no-reopening"] if in_memory else [f"--store={options.store}"]
    with TemporaryDirectory() as name:
        # Its package, but the tests of this checkout.
        (Path(name) / "scrapy_simhash").symlink_to(package)
        paths = os.pathsep.join([name, str(ROOT)])
        command = [sys.executable, "-P", "-m", "tests.golden", "print", part, *arguments]
        environment = os.environ | {"PYTHONPATH": paths, "PYTHONSAFEPATH": "1"}
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=environment, cwd=name
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                yield Line(line.rstrip("\n"))
        if process.returncode:
            raise SystemExit(f"{options.beside} ended with exit code {process.returncode}")


def find_difference(expected: Iterator[Line], found: Iterator[Line]) -> tuple[int, str]:
    """Compare lines; returns how many, and the first difference for people, "" for none."""
    causes: dict[str, list[str]] = {}
    before: list[str] = []
    count = 0
    for count, (old, new) in enumerate(zip_longest(expected, found), 1):
        if new is not None and new.cause:
            number = _numbers_in(new.text)[:1]
            causes.setdefault(number[0] if number else "", []).append(new.cause)
        if old is not None and new is not None and old.text == new.text:
            before = [*before[-LINES_BEFORE:], old.text]
            if new.text.startswith("episode "):
                causes.clear()
            continue
        lines = [f"line {count}, after", *(f"    {line}" for line in before)]
        lines += [f"  expected: {old.text if old else '(nothing)'}"]
        lines += [f"  found:    {new.text if new else '(nothing)'}"]
        if new is not None and new.cause:
            lines += [f"  by: {new.cause}"]
        texts = [line.text for line in (old, new) if line is not None]
        named = sorted({number for text in texts for number in _numbers_in(text)})
        lines += [f"  {number}: {cause}" for number in named for cause in causes.get(number, ())]
        return count, "\n".join(lines)
    return count, ""


def _numbers_in(text: str) -> list[str]:
    """List the numbers of documents in the line of a verdict."""
    words = text.partition("[")[0].split()
    return [word for word in words[:4] if word.isdigit()][:2]


def compare_part(part: str, options: argparse.Namespace) -> tuple[int, str]:
    """Compare a part with its golden file, or with another checkout."""
    with TemporaryDirectory() as name:
        stores = Stores(options.store, Path(name))
        found = run_part(part, stores, options)
        if options.beside is not None:
            return find_difference(read_beside(part, options), found)
        return find_difference(read_golden(part, options), found)


def make_part(part: str, options: argparse.Namespace) -> None:
    """Write the golden file of a part."""
    with TemporaryDirectory() as name, ExitStack() as opened:
        target = HERE / f"{part}.txt.xz"
        lines = [line.text for line in run_part(part, Stores(options.store, Path(name)), options)]
        file = opened.enter_context(lzma.open(target, "wt", preset=9, encoding="utf-8"))
        file.writelines(f"{line}\n" for line in lines)
    print(f"{part}: {len(lines):,} lines, {target.stat().st_size:,} bytes")


def list_parts(options: argparse.Namespace) -> list[str]:
    """List the parts that were named, or all those that can be judged here."""
    if options.parts:
        unknown = set(options.parts) - set(PARTS)
        if unknown:
            raise SystemExit(f"unknown part {min(unknown)!r}; known are {', '.join(PARTS)}")
        return list(options.parts)
    if options.beside is not None:
        return ["random"]
    return [part for part in PARTS if part not in CORPORA or options.corpora]


def main(arguments: list[str] | None = None) -> int:
    """Make or compare."""
    parser = argparse.ArgumentParser(
        "python -m tests.golden", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("action", choices=("make", "compare", "print"))
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--documents", type=int, metavar="N", help="random ones; 50,000")
    parser.add_argument("--first", type=int, metavar="EPISODE", help="of the random documents")
    parser.add_argument("--corpora", type=Path, metavar="DIR", help="folder of labelled corpora")
    parser.add_argument("--store", default="lmdb", metavar="URL", help="lmdb, memory: or a server")
    parser.add_argument("--beside", type=Path, metavar="CHECKOUT", help="compare with this code")
    parser.add_argument("--no-reopening", dest="reopening", action="store_false")
    options = parser.parse_intermixed_args(arguments)
    options.reopening = options.reopening and options.store != "memory:"
    beside = options.beside is not None
    options.documents = options.documents or (5_000 if beside else ALL_DOCUMENTS)
    options.first = options.first if options.first is not None else 1_000 * beside
    if options.action == "print":
        with TemporaryDirectory() as name:
            stores = Stores(options.store, Path(name))
            for part in list_parts(options):
                for line in run_part(part, stores, options):
                    print(line.text)
        return 0
    different = False
    for part in list_parts(options):
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
