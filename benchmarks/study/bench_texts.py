"""How good the texts are that readers hand over, beside those that people marked.

`python benchmarks/study/bench_texts.py FOLDER [--readers turbohtml,trafilatura] [--output FILE]`.
They are those of SIMHASH_HAND_OVER_TEXT. FOLDER has pages.csv (id, path, kind) and texts.jsonl (id,
text). Prints word F1, as WCXB's own script counts it, as means by kind of page, and the CPU time of
a page.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from statistics import fmean
from typing import Any

from scrapy_simhash._progress import show_steps
from scrapy_simhash.errors import NotJudgedError
from scrapy_simhash.pages.main_text import READERS, read_text
from scrapy_simhash.pages.turbohtml_reader import read

# `machine` is one folder up, beside the benchmarks.
sys.path.append(str(Path(__file__).parent.parent))
from machine import write_result

JUDGED = "the text that is judged"


def read_judged(html: str) -> str:
    """Read the main text by which pages are compared."""
    return read(html).main


def count_words(text: str) -> Counter[str]:
    """Count the words of a text as the authors of WCXB do."""
    return Counter(re.findall(r"\w+", text.lower()))


def score(found: Counter[str], marked: Counter[str]) -> float:
    """Measure word F1."""
    if not found or not marked:
        return float(not found and not marked)
    return 2 * (found & marked).total() / (found.total() + marked.total())


def measure(folder: Path, reader: str) -> dict[str, Any]:
    """Read all pages by one reader: F1 by kind and in all, and milliseconds."""
    with (folder / "texts.jsonl").open(encoding="utf-8") as lines:
        marked = {row["id"]: count_words(row["text"]) for row in map(json.loads, lines)}
    with (folder / "pages.csv").open(encoding="utf-8") as file:
        pages = list(csv.DictReader(file))
    name = f"{__name__}.read_judged" if reader == JUDGED else reader
    by_kind: dict[str, list[float]] = defaultdict(list)
    spent_ms = []
    with show_steps(reader, len(pages)) as advance:
        for page in pages:
            body = (folder / page["path"]).read_bytes()
            began = time.process_time()
            try:
                text = read_text(body, "utf-8", name)
            except NotJudgedError:
                text = ""
            spent_ms.append(1_000 * (time.process_time() - began))
            for kind in ("all", page["kind"]):
                by_kind[kind].append(score(count_words(text), marked[page["id"]]))
            advance(1)
    means = {kind: round(fmean(scores), 3) for kind, scores in sorted(by_kind.items())}
    return {"f1": means, "pages": len(pages), "ms": round(fmean(spent_ms), 1)}


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--readers", default=",".join(READERS), help="names or import paths")
    parser.add_argument("--output", type=Path, help="write the figures as JSON")
    options = parser.parse_args()
    results = {
        reader: measure(options.folder, reader) for reader in (*options.readers.split(","), JUDGED)
    }
    kinds = list(next(iter(results.values()))["f1"])
    print(f"| reader | {' | '.join(kinds)} | ms |")
    print(f"| --- |{' ---: |' * (len(kinds) + 1)}")
    for reader, found in results.items():
        scores = (f"{found['f1'][kind]:.3f}".lstrip("0") for kind in kinds)
        print(f"| {reader} | {' | '.join(scores)} | {found['ms']:.1f} |")
    if options.output:
        write_result(options.output, ("turbohtml", "trafilatura"), readers=results)


if __name__ == "__main__":
    main()
