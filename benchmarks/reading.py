"""Reads and judges pages as a worker does, for bench_crawl to look at its memory meanwhile.

Of its own, because a worker has not loaded Scrapy, and gets one page at a time. Prints a line when
the pages are read, waits for one, reads a few of them by the second opinion, and prints another.
"""

from __future__ import annotations

import pickle
import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy_simhash.errors import UnjudgedError
from scrapy_simhash.pages.fingerprint import fingerprint_page, make_recipe
from scrapy_simhash.pages.recipe import DEFAULT_EXTRACTOR, DEFAULT_FEATURES, SECOND_EXTRACTOR

if TYPE_CHECKING:
    from collections.abc import Iterator

_PAGES_OF_SECOND_OPINION = 20


def write_pages(pages: list[bytes], path: Path) -> Path:
    """Write pages one after the other."""
    with path.open("wb") as file:
        for page in pages:
            pickle.dump(page, file)
    return path


def read_pages(path: Path) -> Iterator[bytes]:
    """Read them one by one."""
    with path.open("rb") as file:
        while file.peek(1):
            yield pickle.load(file)  # noqa: S301 - our own file


def judge(pages: Iterator[bytes], extractor: str) -> None:
    """Make the fingerprints of pages."""
    recipe = make_recipe(extractor, DEFAULT_FEATURES)
    for page in pages:
        try:
            fingerprint_page(page, None, recipe)
        except UnjudgedError:
            continue


def main() -> None:
    """Judge the pages of a file."""
    path = Path(sys.argv[1])
    judge(read_pages(path), DEFAULT_EXTRACTOR)
    print("judged", flush=True)
    sys.stdin.readline()
    judge(islice(read_pages(path), _PAGES_OF_SECOND_OPINION), SECOND_EXTRACTOR)
    print("read again", flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main()
