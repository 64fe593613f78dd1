"""Arguments of the commands that work on many fingerprints at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_simhash.config import PLAIN_DISTANCE_BITS

if TYPE_CHECKING:
    import argparse

URLS_OF_STORES = """\
Input and output are those of seomoz/simhash-cpp. With --store and --urls the
pages that have the fingerprints are shown instead; with --json as objects."""


def add_plan(parser: argparse.ArgumentParser) -> None:
    """Add those of `plan`."""
    parser.add_argument("--documents", required=True, metavar="N", help="such as 8e9 or 10M")
    parser.add_argument(
        "--distance", type=int, metavar="BITS", help="k (default: SIMHASH_DISTANCE)"
    )
    parser.add_argument("--max-bytes", metavar="N", help="of all tables, after compact")
    parser.add_argument("--max-candidates", metavar="N", help="that a query reads, on average")
    parser.add_argument("--max-tables", metavar="N", help="that the design may have")


def add_find_all(parser: argparse.ArgumentParser) -> None:
    """Add those of `find-all`."""
    _add_streams(parser)
    parser.add_argument(
        *("-b", "--blocks"),
        type=int,
        metavar="M",
        help="of the 64 bits, more than the distance (default: what is quickest)",
    )
    parser.add_argument(
        "--urls", action="store_true", help="pages instead of fingerprints; needs --store"
    )


def add_find_clusters(parser: argparse.ArgumentParser) -> None:
    """Add those of `find-clusters`."""
    add_find_all(parser)
    parser.add_argument(
        "--representative",
        action="store_true",
        help="clusters around one that all others are near to: no chains",
    )


def add_batch_query(parser: argparse.ArgumentParser) -> None:
    """Add those of `batch-query`."""
    parser.add_argument(
        "--queries",
        required=True,
        metavar="FILE",
        dest="queries_path",
        help="fingerprints to be looked up, a decimal number a line",
    )
    _add_streams(parser)


def add_spark(parser: argparse.ArgumentParser) -> None:
    """Add those of `spark`."""
    parser.add_argument(
        "task",
        choices=["fingerprint", "pairs", "query", "clusters", "confirm"],
        help="documents of pages; all pairs of fingerprints; fingerprints near to --queries; "
        "clusters of pairs; near-duplicate documents of --pairs",
    )
    parser.add_argument(
        "inputs",
        nargs="+",
        metavar="INPUT",
        help="for fingerprint WARC files, Parquet or JSON Lines; else Parquet",
    )
    parser.add_argument(
        *("-o", "--output"), required=True, metavar="FOLDER", help="Parquet; must not be there"
    )
    second = parser.add_mutually_exclusive_group()
    second.add_argument("--queries", metavar="PATH", dest="second_input", help="of query: Parquet")
    second.add_argument("--pairs", metavar="PATH", dest="second_input", help="of confirm: Parquet")
    _add_distance(parser)
    parser.add_argument(
        *("-b", "--blocks"),
        type=int,
        metavar="M",
        help="of the 64 bits, more than the distance (default: what is quickest)",
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="of the token hash (default: 0)"
    )
    parser.add_argument("--master", metavar="URL", help="such as local[2] (default: Spark's own)")
    parser.add_argument(
        "--checkpoints", metavar="FOLDER", help="keep there what has to outlive executors"
    )


def _add_streams(parser: argparse.ArgumentParser) -> None:
    sources = parser.add_mutually_exclusive_group()
    sources.add_argument(
        *("-i", "--input"),
        default="-",
        metavar="FILE",
        dest="input_path",
        help="an archive, or a decimal number a line (default: -, standard input)",
    )
    sources.add_argument("--store", metavar="PATH", help="folder or URL of a store, instead")
    parser.add_argument(
        *("-o", "--output"),
        default="-",
        metavar="FILE",
        dest="output_path",
        help="JSON arrays, one a line (default: -, standard output)",
    )
    _add_distance(parser)


def _add_distance(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        *("-d", "--distance"),
        type=int,
        default=PLAIN_DISTANCE_BITS,
        metavar="BITS",
        help=f"at most so many differ (default: {PLAIN_DISTANCE_BITS})",
    )
