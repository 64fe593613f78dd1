"""What the installation costs, and what every `scrapy` command pays that has no use for it.

`python benchmarks/bench_install.py [--runs 15] [--output results/install.json]` makes two
environments, installs Scrapy into one and this checkout into the other by pip, and runs `scrapy
version` in both in turns. Times are of a core, user and system; sizes with bytecode, without pip.
Exit code 1: the median with the plugin is more than 1.1 times that without.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from statistics import median

from machine import write_result

ROOT = Path(__file__).parent.parent
MOST_TIMES = 1.1


def run(*command: str | Path) -> float:
    """Run a command; returns the seconds of a core that it took."""
    before = os.times()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    return sum(after[2:4]) - sum(before[2:4])


def install(folder: Path, what: str) -> dict[str, float]:
    """Install into a new environment; how many packages there are then, of which size."""
    venv.create(folder, with_pip=True)
    seconds = run(folder / "bin/python", "-m", "pip", "install", "--quiet", what)
    run(folder / "bin/python", "-m", "pip", "uninstall", "--quiet", "--yes", "setuptools", "pip")
    (site,) = folder.glob("lib/*/site-packages")
    files = [path for path in site.rglob("*") if path.is_file()]
    return {
        "seconds": round(seconds, 1),
        "packages": sum(path.name == "METADATA" for path in files),
        "mb": round(sum(path.stat().st_size for path in files) / 1e6),
    }


def main() -> int:
    """Measure and print; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--runs", type=int, default=15, help="of each command (default: %(default)s)"
    )
    parser.add_argument("--output", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        folders = {"scrapy": Path(work) / "without", str(ROOT): Path(work) / "with"}
        installed = {folder.name: install(folder, what) for what, folder in folders.items()}
        taken: dict[str, list[float]] = {folder.name: [] for folder in folders.values()}
        for _ in range(options.runs + 1):
            for folder in folders.values():
                taken[folder.name].append(run(folder / "bin/scrapy", "version"))
    seconds = {name: round(median(times[1:]), 3) for name, times in taken.items()}
    for name, figures in installed.items():
        print(
            f"{name} the plugin: {figures}; `scrapy version` takes {seconds[name]:.3f} s of a core"
        )
    times = seconds["with"] / seconds["without"]
    print(f"{times:.2f} times, at most {MOST_TIMES}")
    write_result(options.output, ["scrapy"], installed=installed, scrapy_version_seconds=seconds)
    return int(times > MOST_TIMES)


if __name__ == "__main__":
    sys.exit(main())
