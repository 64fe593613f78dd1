"""Arguments of the commands that look at pages, drops and their quality."""

from __future__ import annotations

import argparse
from pathlib import Path

# As long as lines of `--help` may be, and of `stats`.
STATS_TERMS = """\
near duplicates: dropped or flagged, at these distances (bits); in no table
done: their items came through; pending: not yet, or never (their crawl died)
stubs: too short for a simhash; only an equal page is a near-duplicate of one
lost: dropped for a page whose items never came through; see `undo --lost`
complete for bits: largest SIMHASH_DISTANCE within which the tables miss nothing
buckets too full: prefixes that too many fingerprints share; passed over"""
WHAT_IF_LIMITS = (
    "Nothing is fetched or changed. The stored pages are judged one after the other, in the order "
    "in which they came, as if into an empty store; imported fingerprints are there from the "
    "beginning. A page that was fetched again is judged as it was last. What is not in the store "
    "cannot be judged: pages that were unjudged, and pages that only dropped pages would have led "
    "to. Left out are pages whose items did not come through, what was dropped for them, and, with "
    "--confirm none, pages whose main text is too short. Of pages that a crawl in plain simhash "
    "judged, whole texts have no fingerprint: they are found by their main texts only."
)
_TOP = 10
_STATUSES = ("new", "near_duplicate", "revisit", "unjudged")


def add_log(parser: argparse.ArgumentParser) -> None:
    """Add those of `log`."""
    _add_log_path(parser)
    parser.add_argument("--status", choices=_STATUSES, help="only these")
    parser.add_argument("--url", metavar="TEXT", help="only URLs (or matched URLs) with this text")
    parser.add_argument("--distance", type=int, metavar="BITS", help="only this distance")
    parser.add_argument("--crawl", metavar="ID", help="only this crawl; last for the newest one")
    parser.add_argument("--last", type=_read_count, metavar="N", help="only the last N")
    parser.add_argument("--follow", action="store_true", help="go on as the crawl goes on")
    parser.add_argument(
        "--summary", action="store_true", help="counts, and the pages with most near-duplicates"
    )
    parser.add_argument(
        "--top",
        type=_read_count,
        default=_TOP,
        metavar="N",
        help=f"with --summary: so many of these pages (default: {_TOP}); what was found in "
        "several crawls counts once there",
    )


def add_query(parser: argparse.ArgumentParser) -> None:
    """Add those of `query`."""
    asked = parser.add_mutually_exclusive_group(required=True)
    asked.add_argument(
        "what",
        nargs="?",
        metavar="URL|FILE|FINGERPRINT",
        help="- for an HTML page on standard input",
    )
    asked.add_argument("--text", help="words, as they stand on a page")
    parser.add_argument("--distance", type=int, metavar="BITS", help="(default: SIMHASH_DISTANCE)")


def add_fingerprint(parser: argparse.ArgumentParser) -> None:
    """Add those of `fingerprint`."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="- for standard input")


def add_explain(parser: argparse.ArgumentParser) -> None:
    """Add those of `explain`."""
    parser.add_argument("what", nargs="+", metavar="URL|FILE", help="a URL, or two URLs or files")
    _add_log_path(parser)
    parser.add_argument(
        "--html",
        type=Path,
        metavar="FILE",
        dest="html_path",
        help="write the texts side by side into an HTML file",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace a file that is there")


def add_what_if(parser: argparse.ArgumentParser) -> None:
    """Add those of `what-if`."""
    parser.add_argument(
        "--distance",
        type=int,
        metavar="BITS",
        help="0 to 15 (default: SIMHASH_DISTANCE; 3 if `--confirm none` is new)",
    )
    parser.add_argument(
        "--confirm",
        type=_read_similarity,
        metavar="S",
        help="0 to 1, or none for plain simhash (default: SIMHASH_CONFIRM)",
    )
    parser.add_argument(
        "--scope",
        choices=("global", "site", "host"),
        help="(default: the scopes the pages were judged in)",
    )
    parser.add_argument(
        "--top", type=_read_count, metavar="N", help="list N changes (default: 20; --json: all)"
    )


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
        help="as many pairs at each distance from 0 to 10 bits; the paper took 1 to 10 (4.1)",
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="of the order of the pairs (default: 0)"
    )
    parser.add_argument(
        "--results", action="store_true", help="ask for no labels, say what there are say"
    )


def _add_log_path(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--log", metavar="PATH", dest="log_path", help="(default: SIMHASH_LOG)")


def _read_count(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number, 0 or more")
    return int(text)


def _read_similarity(text: str) -> float | str:
    if text.lower() == "none":
        return "none"
    try:
        similarity = float(text)
    except ValueError:
        similarity = -1.0
    if not 0 <= similarity <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is neither 0 to 1 nor none")
    return similarity
