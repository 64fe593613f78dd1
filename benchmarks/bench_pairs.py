"""Measure all pairs within 3 bits beside simhash-pybind (seomoz's C++), all in one run.

Every subject runs in a process of its own, so that its memory can be told, and the subjects take
turns. See README.md for what is measured and what is not.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from machine import describe_machine, describe_versions

if TYPE_CHECKING:
    from numpy.typing import NDArray

DISTANCE = 3
OURS, PYBIND = "ours", "simhash-pybind"
AUTO = 0
SEED = 20_070_508


def draw(count: int) -> NDArray[np.uint64]:
    """Draw fingerprints, a tenth of them near to another one: 1 to 5 bits flipped."""
    random = np.random.default_rng([SEED, count])
    fingerprints = random.integers(0, 2**64, count, np.uint64)
    near = fingerprints[: count // 10].copy()
    for _ in range(5):
        flipped = random.integers(0, 64, near.size, np.uint64)
        near ^= np.left_shift(np.uint64(1), flipped) * (random.random(near.size) < 0.6)
    fingerprints[count - near.size :] = near
    return fingerprints


def run_subject(name: str, count: int, blocks: int, pybind: str) -> None:
    """Be the process of one subject: join, print seconds, pairs, their digest and peak memory."""
    import resource  # noqa: PLC0415 - not on every system

    fingerprints = draw(count)
    pairs: Any
    if name == PYBIND:
        sys.path.insert(0, pybind)
        import simhash  # noqa: PLC0415 - not PyPI's simhash, but the one in that folder

        numbers = fingerprints.tolist()
        del fingerprints
        start = time.perf_counter()
        pairs = simhash.find_all(numbers, blocks, DISTANCE)
    else:
        from scrapy_simhash.batch.joins import find_all  # noqa: PLC0415

        start = time.perf_counter()
        pairs = find_all(fingerprints, DISTANCE, blocks or None)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rows = np.sort(np.array(list(pairs), np.uint64).reshape(-1, 2), axis=1)
    rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
    digest = hashlib.sha256(rows.tobytes()).hexdigest()
    print(json.dumps({"seconds": seconds, "mb": peak, "pairs": len(rows), "digest": digest}))


def call_subject(name: str, count: int, blocks: int, pybind: str) -> dict[str, Any]:
    """Run a subject in a process of its own."""
    arguments = ["--subject", name, "--sizes", str(count), "--blocks", str(blocks)]
    command = [sys.executable, __file__, *arguments, "--pybind", pybind]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def measure(count: int, blocks: list[int], rounds: int, pybind: str) -> dict[str, Any]:
    """Let the subjects take turns at one size; ends the run if they find different pairs."""
    subjects = [(OURS, AUTO), *((OURS, each) for each in blocks)]
    subjects += [(PYBIND, each) for each in blocks] if pybind else []
    results: dict[str, list[dict[str, Any]]] = {}
    for _ in range(rounds):
        for name, each in subjects:
            label = f"{name}, {each or 'chosen'} blocks"
            print(f"{count:,}: {label}", file=sys.stderr, flush=True)
            results.setdefault(label, []).append(call_subject(name, count, each, pybind))
    found = {result["digest"] for each in results.values() for result in each}
    if len(found) != 1:
        raise SystemExit(f"{count:,} fingerprints: the subjects find different pairs: {results}")
    return {
        "fingerprints": count,
        "pairs": next(iter(results.values()))[0]["pairs"],
        "subjects": {
            label: {
                "median_seconds": round(statistics.median(r["seconds"] for r in each), 4),
                "rounds_seconds": [round(r["seconds"], 4) for r in each],
                "peak_mb": round(max(r["mb"] for r in each)),
            }
            for label, each in results.items()
        },
    }


def show(size: dict[str, Any]) -> None:
    """Print the results as Markdown."""
    subjects = size["subjects"]
    ours = next(iter(subjects.values()))["median_seconds"]
    print(f"### {size['fingerprints']:,} fingerprints, {size['pairs']:,} pairs\n")
    print("| | seconds | to ours, chosen | peak memory |\n| --- | ---: | ---: | ---: |")
    for label, each in subjects.items():
        seconds = each["median_seconds"]
        print(f"| {label} | {seconds:.3f} | {seconds / ours:.1f} | {each['peak_mb']:,} MB |")
    print()


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="100000,1000000", help="numbers of fingerprints")
    parser.add_argument("--blocks", default="4,5,6,7", help="numbers of blocks")
    parser.add_argument("--rounds", type=int, default=3, help="medians are reported")
    parser.add_argument("--pybind", default="", help="folder with simhash-pybind; see README.md")
    parser.add_argument("--subject", choices=[OURS, PYBIND], help=argparse.SUPPRESS)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results/pairs.json")
    given = parser.parse_args()
    sizes, blocks = ([int(n) for n in text.split(",")] for text in (given.sizes, given.blocks))
    if given.subject:
        run_subject(given.subject, sizes[0], blocks[0], given.pybind)
        return
    command = " ".join(["python benchmarks/bench_pairs.py", *sys.argv[1:]])
    machine, versions = describe_machine(), describe_versions("scrapy-simhash", "numpy")
    measured = [measure(count, blocks, given.rounds, given.pybind) for count in sizes]
    print(f"medians of {given.rounds} rounds\n")
    print(", ".join(f"{name} {value}" for name, value in {**machine, **versions}.items()) + "\n")
    for size in measured:
        show(size)
    report = {"command": command, "machine": machine, "versions": versions, "sizes": measured}
    given.output.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
