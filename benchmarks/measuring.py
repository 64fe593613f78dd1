"""How benchmarks run, compare and show: processes of their own, turns, medians, tables, files."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

ROOT = Path(__file__).resolve().parent.parent
Found = TypeVar("Found")


def make_parser(doc: str | None) -> argparse.ArgumentParser:
    """Make the parser of a script with this docstring."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, help="write the results as JSON, too")
    return parser


def split_numbers(text: str) -> list[int]:
    """Read numbers with commas between them."""
    return [int(number) for number in text.split(",")]


def run_apart(given: Mapping[str, Any], checkout: Path = ROOT) -> Any:
    """Let this script, in a process of its own, `answer` what is given; returns the answer.

    Args:
        given: what can be written as JSON.
        checkout: of the project, whose package that process has.
    """
    done = subprocess.run(
        [sys.executable, sys.argv[0], "--apart"],
        input=json.dumps(given),
        env=os.environ | {"PYTHONPATH": str(checkout)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def run_script(main: Callable[[], object], answer: Callable[[Any], Any]) -> None:
    """Run a script: `main`, or what its other process gives for what it is given."""
    if sys.argv[1:] == ["--apart"]:
        print(json.dumps(answer(json.load(sys.stdin))))
    else:
        sys.exit(bool(main()))


def take_turns(subjects: Mapping[str, Callable[[], Found]], runs: int) -> dict[str, list[Found]]:
    """Measure each subject so often, in turns, so that noise of the machine hits all of them."""
    found: dict[str, list[Found]] = {name: [] for name in subjects}
    for number in range(runs):
        for name, measure in subjects.items():
            progress(f"run {number + 1}: {name}")
            found[name].append(measure())
    return found


def take_medians(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Take the median of each figure."""
    return {name: median(run[name] for run in runs) for name in runs[0]}


def show_range(values: Sequence[float]) -> str:
    """Show the median of figures, and the smallest and largest if they differ."""
    low, middle, high = (_show(float(each)) for each in (min(values), median(values), max(values)))
    return middle if low == high else f"{middle} ({low} to {high})"


def progress(text: str) -> None:
    """Show on standard error what is being done."""
    print(text, file=sys.stderr, flush=True)


def print_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a Markdown table; numbers to two digits after the point or three in all."""
    print(f"\n| {' | '.join(head)} |\n| --- |{' ---: |' * (len(head) - 1)}")
    for row in rows:
        print(f"| {' | '.join(map(_show, row))} |", flush=True)


def print_figures(rows: Mapping[str, Mapping[str, Any]]) -> None:
    """Print a table of figures by subject, if there are any; a subject may lack some."""
    if not rows:
        return
    columns = list(dict.fromkeys(name for row in rows.values() for name in row))
    print_table(
        ["", *columns],
        ([name, *(row.get(column, "") for column in columns)] for name, row in rows.items()),
    )


def _show(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def write_result(path: Path | None, distributions: Sequence[str], **figures: Any) -> None:
    """Write what was measured as JSON: by which command, on what machine, with which versions.

    Args:
        path: of the file; None to write nothing.
        distributions: those that were measured.
        figures: the rest of the file.
    """
    if path is not None:
        script = Path(sys.argv[0]).resolve().relative_to(ROOT)
        # Of folders only their names: nobody has the same ones.
        arguments = (Path(each).name if each.startswith("/") else each for each in sys.argv[1:])
        result = {
            "command": " ".join(["python", str(script), *arguments]),
            "machine": _describe_machine(),
            "versions": {"python": platform.python_version()}
            | {name: version(name) for name in distributions},
            **figures,
        }
        path.write_text(json.dumps(result, indent=1) + "\n")


def _describe_machine() -> dict[str, str | int]:
    """Return what the numbers were measured on; no host name."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = names[0].partition(":")[2].strip() if names else model
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "model": model,
        "cores": os.cpu_count() or 0,
        "memory_gib": round(memory / 2**30),
        "system": platform.system(),
    }
