"""Whether a checkout is slower than another one: three benchmarks, run with both in turns.

`python benchmarks/bench_versions.py BEFORE [--runs 5] [--documents 20000] [--pages 100]
[--output results/versions.json]`, from the checkout to be compared; BEFORE is the folder of the
other one, such as `git worktree add ../before 0f06f78` makes. Both run their own copies of
`bench_judging`, `bench_store` and `bench_crawl`, one after the other, so that noise of the machine
hits both; a ratio is the median of those of the rounds, and its spread their smallest and largest.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from machine import describe_machine

AFTER = Path(__file__).parent.parent


def read_judging(found: dict[str, Any]) -> dict[str, float]:
    """Milliseconds a page."""
    whole = found["figures"]["all pages"]
    return {name: whole[name] for name in ("extract", "fingerprint", "store")}


def read_store(found: dict[str, Any]) -> dict[str, float]:
    """Microseconds a call, of the four tables."""
    size, ours = found["sizes"][0], "ours, 4 tables"
    measured = {
        "probe without match": size["probe_without_match"],
        "probe with match": size["probe_with_match"],
        "find_and_add, groups of 64": size["find_and_add"]["64"],
    }
    return {name: figures[ours]["median_us"] for name, figures in measured.items()}


def read_crawl(found: dict[str, Any]) -> dict[str, float]:
    """Milliseconds a page of a crawl."""
    return {kind: 1_000 / found["medians"][kind]["pages_per_second"] for kind in ("flag", "drop")}


READERS = {"judging": read_judging, "store": read_store, "crawl": read_crawl}


def run(checkout: Path, name: str, options: list[str]) -> dict[str, float]:
    """Run one benchmark of a checkout; its figures, less is better."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "found.json"
        script = checkout / "benchmarks" / f"bench_{name}.py"
        command = [sys.executable, str(script), *options, "--runs", "1", "--output", str(output)]
        if name == "crawl" and "--rows" in script.read_text():  # all that 0.1.0 had
            command += ["--rows", "empty"]
        environment = os.environ | {"PYTHONPATH": str(checkout)}
        subprocess.run(command, check=True, capture_output=True, env=environment)
        return READERS[name](json.loads(output.read_text()))


def main() -> None:
    """Compare two checkouts."""
    parser = argparse.ArgumentParser(description="Time this checkout beside another one.")
    parser.add_argument("before", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--pages", type=int, default=100)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    benchmarks = {
        "judging": ["--count", str(options.pages)],
        "store": ["--documents", str(options.documents), "--designs", "4"],
        "crawl": ["--count", str(options.pages)],
    }
    table: dict[str, dict[str, Any]] = {}
    print("| figure | before | after | after / before | smallest, largest |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name, arguments in benchmarks.items():
        rounds = [
            (run(options.before.resolve(), name, arguments), run(AFTER, name, arguments))
            for _ in range(options.runs)
        ]
        for figure in rounds[0][0]:
            before = [first[figure] for first, _ in rounds]
            after = [second[figure] for _, second in rounds]
            ratios = sorted(b / a for a, b in zip(before, after, strict=True))
            row = {"before": median(before), "after": median(after), "ratio": median(ratios)}
            table[f"{name}: {figure}"] = row | {"ratios": ratios}
            print(
                f"| {name}: {figure} | {row['before']:.4g} | {row['after']:.4g} "
                f"| {row['ratio']:.3f} | {ratios[0]:.2f}, {ratios[-1]:.2f} |",
                flush=True,
            )
    if options.output:
        found = {"machine": describe_machine(), "runs": options.runs, "figures": table}
        options.output.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
