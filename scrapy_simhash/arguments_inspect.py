"""Arguments of the commands that look at pages, drops and their quality."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

_STATUSES = ("new", "near_duplicate", "revisit", "unjudged")


def add_log(parser: argparse.ArgumentParser) -> None:
    """Add those of `log`."""
    parser.add_argument("--log", metavar="PATH", dest="log_path", help="(default: SIMHASH_LOG)")
    parser.add_argument("--status", choices=_STATUSES, help="only these")
    parser.add_argument("--url", metavar="TEXT", help="only URLs (or matched URLs) with this text")
    parser.add_argument("--distance", type=int, metavar="BITS", help="only this distance")
    parser.add_argument("--crawl", metavar="ID", help="only this crawl")
    parser.add_argument("--last", type=int, metavar="N", help="only the last N")
    parser.add_argument("--follow", action="store_true", help="go on as the crawl goes on")
    parser.add_argument("--summary", action="store_true", help="counts instead of lines")


def add_query(parser: argparse.ArgumentParser) -> None:
    """Add those of `query`."""
    parser.add_argument("what", help="URL, file, hex fingerprint (16 digits), or text")
    parser.add_argument("--distance", type=int, metavar="BITS", help="(default: SIMHASH_DISTANCE)")


def add_fingerprint(parser: argparse.ArgumentParser) -> None:
    """Add those of `fingerprint`."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="- for standard input")


def add_explain(parser: argparse.ArgumentParser) -> None:
    """Add those of `explain`."""
    parser.add_argument("what", nargs="+", metavar="URL|FILE", help="a URL, or two files")
    parser.add_argument("--log", metavar="PATH", dest="log_path", help="(default: SIMHASH_LOG)")


def add_evaluate(parser: argparse.ArgumentParser) -> None:
    """Add those of `evaluate`."""
    parser.add_argument(
        "labelled",
        type=Path,
        metavar="DIR|CSV",
        help="folder of labelled pages, or the labels that calibrate wrote about the store",
    )
    parser.add_argument("--errors", action="store_true", help="list the wrong pairs, and why")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="Figure 1 as PNG, SVG, PDF")
    parser.add_argument(
        "--workers", type=int, metavar="N", help="processes (default: SIMHASH_WORKERS)"
    )


def add_calibrate(parser: argparse.ArgumentParser) -> None:
    """Add those of `calibrate`."""
    parser.add_argument(
        "--labels",
        type=Path,
        metavar="FILE",
        dest="labels_path",
        help="CSV, goes on where it ends (default: calibration.csv beside the store's log)",
    )
    parser.add_argument(
        "--by-distance",
        action="store_true",
        help="as many pairs at each distance from 0 to 10 bits, as the paper did (4.1)",
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="of the order of the pairs (default: 0)"
    )
    parser.add_argument(
        "--results", action="store_true", help="ask for no labels, say what there are say"
    )
