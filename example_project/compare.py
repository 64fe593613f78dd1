"""Run the example crawl with the plugin off and on, and print what differs as Markdown.

Every run begins with an empty store in a temporary folder; the last columns are a second crawl
on the store of the first, and a third one after the site moved to another host.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parent
COLUMNS = ("off", "on", "on, second crawl", "on, site moved")
MOVED = "moved.example"
ROWS = {
    "requests": "requests",
    "pages kept (items)": "kept",
    "of these known from the crawl before": "revisits",
    "near-duplicates dropped": "dropped",
    "dropped for a page of another document": "dropped_for_another_document",
    "distinct documents on the site": "documents",
    "distinct documents kept": "documents_kept",
    "distinct documents lost": "documents_lost",
    "seconds": "seconds",
}


def crawl(folder: Path, *, enabled: bool, host: str = "") -> dict[str, Any]:
    """Crawl once with the store in `folder`, on a host or its usual one.

    Returns:
        The figures of the crawl's summary, lists as their lengths, and its seconds from the
        start of the command to its end.
    """
    summary = folder / "summary.json"
    command = [sys.executable, "-m", "scrapy", "crawl", "docs", "-a", f"summary={summary}"]
    settings = ["-s", f"SIMHASH_STORE={folder / 'store'}", "-s", f"SIMHASH_ENABLED={enabled}"]
    started = time.perf_counter()
    moved = os.environ | ({"DOCSITE_HOST": host} if host else {})
    done = subprocess.run(
        [*command, *settings], cwd=PROJECT, env=moved, capture_output=True, text=True, check=False
    )
    seconds = time.perf_counter() - started
    if done.returncode or not summary.exists():
        sys.exit(f"the crawl failed:\n{done.stderr}")
    figures = json.loads(summary.read_text(encoding="utf-8"))
    counted = {name: len(v) if isinstance(v, list) else v for name, v in figures.items()}
    return counted | {"seconds": seconds, "revisits": figures["statuses"].get("revisit", 0)}


def crawl_in_all_ways() -> dict[str, dict[str, Any]]:
    """One crawl for each column of the table."""
    with tempfile.TemporaryDirectory() as off, tempfile.TemporaryDirectory() as on:
        runs = [(off, False, ""), (on, True, ""), (on, True, ""), (on, True, MOVED)]
        figures = [
            crawl(Path(folder), enabled=enabled, host=host) for folder, enabled, host in runs
        ]
    return dict(zip(COLUMNS, figures, strict=True))


def take_median(found: list[Any]) -> Any:
    """The median of figures, one by one where they are by kind."""
    if isinstance(found[0], dict):
        names = dict.fromkeys(name for figures in found for name in figures)
        return {name: take_median([each.get(name, 0) for each in found]) for name in names}
    return round(statistics.median_low(found), 1)


def table(heads: list[str], rows: list[list[Any]]) -> str:
    """A Markdown table; numbers to the right."""
    rules = ["---", *["---:"] * (len(heads) - 1)]
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in [heads, rules, *rows])


def main() -> None:
    """Run the crawls and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="crawls for each column (default: 3)")
    repeats = parser.parse_args().runs
    if repeats < 1:
        parser.error("--runs must be 1 or more")
    runs = [crawl_in_all_ways() for _ in range(repeats)]
    medians = {column: take_median([run[column] for run in runs]) for column in COLUMNS}
    rows = [[row, *(medians[column][name] for column in COLUMNS)] for row, name in ROWS.items()]
    print(table([f"plugin (median of {repeats})", *COLUMNS], rows))

    off, on = medians["off"]["kept_by_variant"], medians["on"]
    kept, dropped = on["kept_by_variant"], on["dropped_by_variant"]
    kinds = [
        [kind, off[kind], kept.get(kind, 0) + dropped.get(kind, 0), dropped.get(kind, 0)]
        for kind in sorted(off)
    ]
    print()
    print(table(["kind of page", "fetched, off", "fetched, on", "dropped, on"], kinds))


if __name__ == "__main__":
    main()
