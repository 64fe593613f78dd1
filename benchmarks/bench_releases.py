"""Whether two releases of turbohtml read pages alike, and judge labelled pairs alike.

`python benchmarks/bench_releases.py FOLDER... --releases TARGET TARGET... [--output FILE]`. FOLDER
is as `scrapy simhash evaluate` takes it; `pip install --target TARGET turbohtml==VERSION` makes a
TARGET. Each release reads all pages in a process of its own (seed 0); the first one is what the
others are compared with. Counted are pages

* whose main text, whole text, or names and links are others;
* that are not near-duplicates of themselves: what a store made with the one release and asked with
  the other would miss;

and pairs whose answer is another. Not measured: time, hostile pages.
"""

from __future__ import annotations

import argparse
import logging
import os
import pickle
import subprocess
import sys
import tempfile
from dataclasses import replace
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from machine import write_result

from scrapy_simhash._progress import track
from scrapy_simhash.config import Config
from scrapy_simhash.errors import UnjudgedError
from scrapy_simhash.inspection.contexts import FolderContexts
from scrapy_simhash.inspection.evaluation.evaluation import judge_pairs
from scrapy_simhash.inspection.evaluation.labels import locate, read_corpus
from scrapy_simhash.inspection.evaluation.quality import tally
from scrapy_simhash.judging.comparison import compare
from scrapy_simhash.judging.documents import Document, make_document
from scrapy_simhash.pages.fingerprint import (
    PageFingerprint,
    fingerprint_text,
    load_features,
    read_page,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy_simhash.inspection.evaluation.labels import Corpus
    from scrapy_simhash.inspection.evaluation.quality import Judged

READER = "turbohtml"


class ReadPage(NamedTuple):
    """What a release made of a page; of texts and names a digest."""

    main: bytes
    whole: bytes
    names: bytes
    made: PageFingerprint


# By the pages' ids; a `str` says why a page is unjudged.
Pages = dict[str, ReadPage | str]


def read_pages(folders: list[Path]) -> tuple[str, list[Pages]]:
    """Read the pages of all folders in this process; also the version that did."""
    config = Config()
    features = load_features(config.features)

    def read(body: bytes, url: str) -> ReadPage | str:
        try:
            text = read_page(body, None, READER)
        except UnjudgedError as error:
            return error.reason
        names = (text.title, text.heading, text.language, text.canonical, text.base, text.links)
        made = replace(fingerprint_text(text, features, 0, url), text="")
        return ReadPage(_digest(text.main), _digest(text.whole), _digest(repr(names)), made)

    corpora = [list(read_corpus(folder).pages.values()) for folder in folders]
    read_by_folder = [
        {page.id: read(page.read(), page.url) for page in track(pages, "pages", len(pages))}
        for pages in corpora
    ]
    return version(READER), read_by_folder


def _digest(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=16).digest()


def read_by_release(target: Path, folders: list[Path]) -> tuple[str, list[Pages]]:
    """Read the pages of all folders in a process that imports turbohtml from a target folder."""
    # Before everything that is installed.
    paths = [str(target), *filter(None, [os.environ.get("PYTHONPATH")])]
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "pages"
        command = [sys.executable, __file__, *map(str, folders), "--read-into", str(output)]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
        subprocess.run(command, check=True, env=environment)
        found: tuple[str, list[Pages]] = pickle.loads(output.read_bytes())  # noqa: S301 - our own
    if not (target / f"{READER}-{found[0]}.dist-info").is_dir():
        sys.exit(f"{READER} {found[0]} was read with, which is not the one of {target}")
    return found


def make_documents(corpus: Corpus, pages: Pages, config: Config) -> dict[str, Document | None]:
    """Make what the rule compares."""
    return {
        name: None
        if isinstance(page, str)
        else make_document(page.made, config.rule, url=locate(corpus.pages[name]))
        for name, page in pages.items()
    }


def _judge(
    corpus: Corpus, documents: Mapping[str, Document | None], config: Config
) -> list[Judged]:
    contexts = FolderContexts(corpus, documents)
    judged, _ = judge_pairs(
        corpus.pairs, documents, config, lambda pair: contexts.find(pair.first, pair.second)
    )
    return judged


def compare_releases(corpus: Corpus, first: Pages, second: Pages) -> dict[str, Any]:
    """Count what differs between two releases."""
    config = Config()
    documents, others = (make_documents(corpus, pages, config) for pages in (first, second))
    judged, judged_by_other = (_judge(corpus, made, config) for made in (documents, others))
    both = [
        (one, other)
        for one, other in ((first[name], second[name]) for name in first)
        if not isinstance(one, str) and not isinstance(other, str)
    ]
    itself = (
        (one, other)
        for one, other in ((documents[name], others[name]) for name in first)
        if one is not None and other is not None
    )
    counted = tally(judged_by_other)
    return {
        "pages": len(first),
        "unjudged by one only": sum(
            isinstance(first[name], str) != isinstance(second[name], str) for name in first
        ),
        "other main text": sum(one.main != other.main for one, other in both),
        "other whole text": sum(one.whole != other.whole for one, other in both),
        "other names or links": sum(one.names != other.names for one, other in both),
        "not near itself": sum(
            not compare(one, other, config.rule).duplicate for one, other in itself
        ),
        "pairs": len(judged),
        "other answer": sum(
            one.duplicate != other.duplicate
            for one, other in zip(judged, judged_by_other, strict=True)
        ),
        "precision": counted.precision,
        "recall": counted.recall,
    }


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    parser.add_argument("--releases", type=Path, nargs="+", default=[], metavar="TARGET")
    parser.add_argument("--output", type=Path, help="write the figures as JSON")
    parser.add_argument("--read-into", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    folders = [folder.resolve() for folder in options.folders]
    if options.read_into:
        options.read_into.write_bytes(pickle.dumps(read_pages(folders)))
        return
    if not options.releases:
        parser.error("name at least one folder with a release: --releases TARGET")
    releases = [read_by_release(target.resolve(), folders) for target in options.releases]
    figures: dict[str, dict[str, Any]] = {}
    for place, folder in enumerate(folders):
        corpus = read_corpus(folder)
        for number, pages in releases:
            found = compare_releases(corpus, releases[0][1][place], pages[place])
            figures.setdefault(f"corpus {place + 1}", {})[number] = found
            if len(figures) == len(figures[f"corpus {place + 1}"]) == 1:
                print(f"| corpus | {READER} | {' | '.join(found)} |")
                print(f"| --- | --- |{' ---: |' * len(found)}")
            cells = (f"{v:.4f}" if isinstance(v, float) else f"{v:,}" for v in found.values())
            print(f"| {place + 1} | {number} | {' | '.join(cells)} |", flush=True)
    write_result(options.output, ("numpy",), figures=figures)


if __name__ == "__main__":
    main()
