"""Labelled pages for the study, read by the product's default reader; imported by its scripts."""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labels import read_corpus
from msgspec import structs

from scrapy_simhash._progress import show_steps
from scrapy_simhash.errors import NotJudgedError
from scrapy_simhash.pages.fingerprint import read_page
from scrapy_simhash.pages.text import PageText

# `machine` is one folder up, beside the benchmarks.
sys.path.append(str(Path(__file__).parent.parent))
from machine import describe_machine, describe_versions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from labels import Corpus

Pages = dict[str, PageText]


def make_parser(about: str | None, output: str) -> argparse.ArgumentParser:
    """Make the parser of a study: folders and output.

    Args:
        about: docstring of the script; its first line describes it.
        output: help for `--output`.
    """
    parser = argparse.ArgumentParser(description=(about or "").splitlines()[0])
    parser.add_argument(
        "folders",
        type=Path,
        nargs="+",
        metavar="FOLDER",
        help="with pages.csv, pairs.csv and the pages",
    )
    parser.add_argument("--output", type=Path, help=output)
    parser.add_argument(
        "--without-addresses", action="store_true", help="judge pages as if they had none"
    )
    return parser


def describe_run(script: str, versions: Sequence[str]) -> dict[str, Any]:
    """Say what the figures of a study were made with, and print the versions."""
    about: dict[str, Any] = {
        "command": f"python benchmarks/study/{script}.py",
        "machine": describe_machine(),
        "versions": describe_versions(*versions),
    }
    print(", ".join(f"{name} {value}" for name, value in about["versions"].items()))
    return about


def forget_addresses(corpus: Corpus) -> Corpus:
    """Take the addresses of all pages away."""
    pages = {name: structs.replace(page, url="") for name, page in corpus.pages.items()}
    return replace(corpus, pages=pages)


def load(folder: Path, *, without_addresses: bool = False) -> tuple[Corpus, Pages]:
    """Read a corpus and the texts of its pages; pages without text are left out."""
    corpus = read_corpus(folder)
    if without_addresses:
        corpus = forget_addresses(corpus)
    pages = {}
    with show_steps("pages", len(corpus.pages)) as advance:
        for page in corpus.pages.values():
            with suppress(NotJudgedError):
                pages[page.id] = read_page(page.read(), None)
            advance()
    return corpus, pages
