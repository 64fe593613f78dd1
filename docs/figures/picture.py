"""Take the picture of the report in README: a crawl of the example, in a headless Chromium.

python docs/figures/picture.py [--report FILE]
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
EXAMPLE = HERE.parent.parent / "example_project"
PICTURE = HERE / "report.png"
WIDTH_PIXELS, HEIGHT_PIXELS = 1_120, 740
MOST_BYTES = 150_000


def main() -> None:
    """Crawl, write the report, and take a picture of what its reader sees first."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--report", type=Path, help="take this one instead of a new crawl's")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = options.report or crawl_example(Path(folder))
        take_picture(report)
    if PICTURE.stat().st_size > MOST_BYTES:
        sys.exit(f"{PICTURE} has {PICTURE.stat().st_size:,} bytes; at most {MOST_BYTES:,} may be")


def crawl_example(folder: Path) -> Path:
    """Crawl a copy of the example in the folder, and return its report."""
    project = shutil.copytree(EXAMPLE, folder / "docs", ignore=shutil.ignore_patterns(".*"))
    for command in (
        ["crawl", "docs", "-s", "CONCURRENT_REQUESTS=1"],
        ["simhash", "report", "-o", "report.html"],
    ):
        subprocess.run([sys.executable, "-m", "scrapy", *command], cwd=project, check=True)
    return project / "report.html"


def take_picture(report: Path) -> None:
    """Take a picture of the first screen of a report."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        sys.exit("chromium is not installed")
    # Its sandbox does not work for root, nor in many containers.
    flags = ["--headless", "--no-sandbox", "--hide-scrollbars", f"--screenshot={PICTURE}"]
    size = f"--window-size={WIDTH_PIXELS},{HEIGHT_PIXELS}"
    subprocess.run([chromium, *flags, size, report.resolve().as_uri()], check=True)


if __name__ == "__main__":
    main()
