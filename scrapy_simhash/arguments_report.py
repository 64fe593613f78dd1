"""Arguments of the command report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse


def add_report(parser: argparse.ArgumentParser) -> None:
    """Add those of `report`."""
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        default=Path("report.html"),
        help="(default: report.html)",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace a file that is there")
    parser.add_argument("--log", metavar="PATH", dest="log_path", help="(default: SIMHASH_LOG)")
    parser.add_argument("--crawl", metavar="ID", help="only this crawl (default: all)")
    parser.add_argument(
        "--labels",
        type=Path,
        metavar="DIR|FILE",
        help="labelled pairs, as for evaluate: adds precision and recall by distance "
        "(default: calibration.csv beside the store's log, if it is there)",
    )
