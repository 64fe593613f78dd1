"""Precision and recall of plain simhash on labelled pairs of pages, for each feature set.

Takes a folder with `pages.csv` (columns id, path), `pairs.csv` (columns id_a, id_b, label: dup or
distinct) and the pages, HTML files, gzipped or not. Each pair is judged on its own: a match is a
distance of at most k bits with at least so many features on both pages. Pages without text and
pages that are too short match nothing, as in a crawl.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

from scrapy_simhash.features import FEATURE_SETS
from scrapy_simhash.simhash import hamming_distance, simhash
from scrapy_simhash.text import UnjudgedError, read_page


class Made(NamedTuple):
    """Of one page with one feature set."""

    fingerprint: int
    features: int


def read_rows(path: Path) -> list[dict[str, str]]:
    """Read a CSV file."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def fingerprint(folder: Path, row: dict[str, str]) -> dict[str, Made]:
    """Fingerprint a page with every feature set; nothing where it has no text."""
    path = folder / row["path"]
    body = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    try:
        text = read_page(body, None).text
    except UnjudgedError:
        return {}
    made = {}
    for name, feature_set in FEATURE_SETS.items():
        features = feature_set.extract(text)
        fingerprint = simhash(features.hashes, features.weights)
        made[name] = Made(fingerprint, len(features.hashes))
    return made


def matches(pair: tuple[dict[str, Made], ...], name: str, distance: int, least: int) -> bool:
    """Judge a pair."""
    first, second = (page.get(name) for page in pair)
    if first is None or second is None or min(first.features, second.features) < least:
        return False
    return hamming_distance(first.fingerprint, second.fingerprint) <= distance


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="with pages.csv, pairs.csv and the pages")
    parser.add_argument("--distance", type=int, default=3, help="k, in bits (default 3)")
    parser.add_argument("--min-features", default="1,16,32,64", help="least numbers of features")
    options = parser.parse_args()
    pages = read_rows(options.folder / "pages.csv")
    with ProcessPoolExecutor() as pool:
        all_made = pool.map(partial(fingerprint, options.folder), pages, chunksize=16)
        made = dict(zip((row["id"] for row in pages), all_made, strict=True))
    pairs = [row for row in read_rows(options.folder / "pairs.csv") if row["label"] != "unknown"]
    if not pairs:
        sys.exit(f"no labelled pairs in {options.folder}")
    print(f"{len(pages):,} pages, {len(pairs):,} labelled pairs, k = {options.distance}\n")
    print("| features | at least | precision | recall | wrong | missed |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name in FEATURE_SETS:
        for least in map(int, options.min_features.split(",")):
            counts = {(True, True): 0, (True, False): 0, (False, True): 0, (False, False): 0}
            for row in pairs:
                pair = made[row["id_a"]], made[row["id_b"]]
                found = matches(pair, name, options.distance, least)
                counts[found, row["label"] == "dup"] += 1
            right, wrong, missed = counts[True, True], counts[True, False], counts[False, True]
            print(
                f"| {name} | {least} | {right / max(1, right + wrong):.3f} | "
                f"{right / max(1, right + missed):.3f} | {wrong} | {missed} |"
            )


if __name__ == "__main__":
    main()
