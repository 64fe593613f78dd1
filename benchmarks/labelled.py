"""Labelled pages for the study: read and extract them once, keep the texts in a cache file.

Imported by bench_features and bench_methods. The cache is a pickle of page texts: it belongs to
whoever runs the study, and must not be published with the results.
"""

from __future__ import annotations

import argparse
import pickle
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import trafilatura
from machine import describe_machine, describe_versions
from resiliparse.extract.html2text import extract_plain_text
from tqdm import tqdm

from scrapy_simhash.corpus import read_corpus
from scrapy_simhash.recipe import DEFAULT_EXTRACTOR
from scrapy_simhash.text import PageText, UnjudgedError, decode, read_page, whole_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scrapy_simhash.corpus import Corpus, LabelledPage

_PROCESSES = 2


def _whole(html: str) -> str | None:
    tree = trafilatura.load_html(html)
    return None if tree is None else whole_text(tree)


# Each from decoded HTML to text, parsing included.
_trafilatura = partial(trafilatura.extract, include_comments=False)
EXTRACTORS: dict[str, Callable[[str], str | None]] = {
    "trafilatura, as it comes": trafilatura.extract,
    "trafilatura, no comments": _trafilatura,
    "trafilatura, no comments, fast": partial(_trafilatura, fast=True),
    "trafilatura, no comments, favor_recall": partial(_trafilatura, favor_recall=True),
    "trafilatura, no comments, favor_precision": partial(_trafilatura, favor_precision=True),
    "trafilatura, no comments, no tables": partial(_trafilatura, include_tables=False),
    "trafilatura, no comments, fast, no tables": partial(
        _trafilatura, fast=True, include_tables=False
    ),
    "resiliparse, main content": partial(extract_plain_text, main_content=True),
    "whole visible text": _whole,
    "resiliparse, whole text": extract_plain_text,
}
DEFAULT = "trafilatura, no comments, fast"


class Page(NamedTuple):
    """What the study needs of a page.

    Attributes:
        text: as the product reads it, with its default extractor.
        mains: main text by extractor of `EXTRACTORS`; "" where one found none.
        extract_ms: milliseconds that each took, parsing included.
        headings: text of all `<h1>` to `<h3>`.
        images: alternative texts and file names of all images.
    """

    text: PageText
    mains: dict[str, str]
    extract_ms: dict[str, float]
    headings: str
    images: str

    def read_by(self, extractor: str) -> PageText:
        """Get the page as the product would read it with another extractor."""
        main = self.mains[extractor]
        return self.text._replace(main=main or self.text.whole, fell_back=not main)


Pages = dict[str, Page]


def make_parser(about: str | None, output: str) -> argparse.ArgumentParser:
    """Make the parser of a study: folder, cache and output.

    Args:
        about: docstring of the script; its first line describes it.
        output: help for `--output`.
    """
    parser = argparse.ArgumentParser(description=(about or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="with pages.csv, pairs.csv and the pages")
    parser.add_argument("--cache", type=Path, help="file that keeps the extracted texts")
    parser.add_argument("--output", type=Path, help=output)
    return parser


def describe_run(
    script: str, versions: Sequence[str], corpus: Corpus, pages: Pages
) -> dict[str, Any]:
    """Say what the figures of a study were made with, and print the versions."""
    about: dict[str, Any] = {
        "command": f"python benchmarks/{script}.py",
        "machine": describe_machine(),
        "versions": describe_versions(*versions),
        "pages": len(pages),
        "pairs": len(corpus.pairs),
    }
    print(", ".join(f"{name} {value}" for name, value in about["versions"].items()))
    return about


def load(folder: Path, cache: Path | None) -> tuple[Corpus, Pages]:
    """Read a corpus and the texts of its pages; pages without text are left out.

    Args:
        folder: with `pages.csv`, `pairs.csv` and the pages.
        cache: file to take the texts from, or to keep them in when it does not exist.
    """
    corpus = read_corpus(folder)
    if cache is not None and cache.exists():
        with cache.open("rb") as file:
            return corpus, pickle.load(file)  # noqa: S301 - the user's own file
    labelled = list(corpus.pages.values())
    with ProcessPoolExecutor(_PROCESSES) as pool:
        read = tqdm(
            pool.map(_read, labelled, range(len(labelled)), chunksize=4), total=len(labelled)
        )
        pages = {
            page.id: texts for page, texts in zip(labelled, read, strict=True) if texts is not None
        }
    if cache is not None:
        cache.write_bytes(pickle.dumps(pages))
    return corpus, pages


def _read(page: LabelledPage, number: int) -> Page | None:
    body = page.read()
    try:
        text = read_page(body, None, DEFAULT_EXTRACTOR)
        html = decode(body, None)
    except UnjudgedError:
        return None
    names = list(EXTRACTORS)
    mains, extract_ms = {}, {}
    # Each page begins with another extractor, so that none always meets a cold cache.
    for place in range(len(names)):
        name = names[(place + number) % len(names)]
        started = time.perf_counter()
        main = EXTRACTORS[name](html)
        extract_ms[name] = 1000 * (time.perf_counter() - started)
        mains[name] = (main or "").encode("utf-8", "replace").decode().strip()
    headings, images = _read_names(html)
    return Page(text, mains, extract_ms, headings, images)


def _read_names(html: str) -> tuple[str, str]:
    tree = trafilatura.load_html(html)
    if tree is None:
        return "", ""
    headings = [" ".join(heading.itertext()) for heading in tree.iter("h1", "h2", "h3")]
    images = []
    for image in tree.iter("img"):
        images += [image.get("alt", ""), _file_name(image.get("src", ""))]
    return _printable(headings), _printable(images)


def _file_name(address: str) -> str:
    try:
        return "" if address.startswith("data:") else PurePosixPath(urlsplit(address).path).stem
    except ValueError:
        return ""


def _printable(parts: list[str]) -> str:
    return "\n".join(parts).encode("utf-8", "replace").decode()
