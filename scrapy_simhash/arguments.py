"""The arguments of `scrapy simhash COMMAND`, and which function answers it.

Arguments are handed over by name: a function gets the configuration and those of the command's
arguments that its parameters name.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from scrapy_simhash.config import PLAIN_DISTANCE_BITS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

_STATUSES = ("new", "near_duplicate", "revisit", "unjudged")


class Command(NamedTuple):
    """A sub-command.

    Attributes:
        about: one line, for `--help`.
        runner: `module:function` of this package that yields the answers; imported when asked for.
        add_arguments: adds what it takes besides `--json` and `--store`.
        stored: whether it takes `--store`.
    """

    about: str
    runner: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    stored: bool = True


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Add all sub-commands to Scrapy's parser."""
    # Scrapy's --logfile and --loglevel would make our --log ambiguous.
    parser.allow_abbrev = False
    commands = parser.add_subparsers(dest="simhash_command", metavar="<command>")
    for name, command in COMMANDS.items():
        added = commands.add_parser(
            name, help=command.about, description=command.about, allow_abbrev=False
        )
        added.add_argument("--json", action="store_true", help="one JSON object a line")
        if command.stored:
            added.add_argument(
                "--store",
                metavar="PATH",
                help="folder or URL of the store (default: SIMHASH_STORE)",
            )
        command.add_arguments(added)


def _add_nothing(parser: argparse.ArgumentParser) -> None:
    """Leave the command without arguments of its own."""


def _add_log(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--log", metavar="PATH", dest="log_path", help="(default: SIMHASH_LOG)")
    parser.add_argument("--status", choices=_STATUSES, help="only these")
    parser.add_argument("--url", metavar="TEXT", help="only URLs (or matched URLs) with this text")
    parser.add_argument("--distance", type=int, metavar="BITS", help="only this distance")
    parser.add_argument("--crawl", metavar="ID", help="only this crawl")
    parser.add_argument("--last", type=int, metavar="N", help="only the last N")
    parser.add_argument("--follow", action="store_true", help="go on as the crawl goes on")
    parser.add_argument("--summary", action="store_true", help="counts instead of lines")


def _add_query(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", help="URL, file, hex fingerprint (16 digits), or text")
    parser.add_argument("--distance", type=int, metavar="BITS", help="(default: SIMHASH_DISTANCE)")


def _add_fingerprint(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="- for standard input")


def _add_explain(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", nargs="+", metavar="URL|FILE", help="a URL, or two files")
    parser.add_argument("--log", metavar="PATH", dest="log_path", help="(default: SIMHASH_LOG)")


def _add_evaluate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--errors", action="store_true", help="list the wrong pairs, and why")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="Figure 1 as PNG, SVG, PDF")
    parser.add_argument(
        "--workers", type=int, metavar="N", help="processes (default: SIMHASH_WORKERS)"
    )


def _add_plan(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--documents", required=True, metavar="N", help="such as 8e9 or 10M")
    parser.add_argument(
        "--distance", type=int, metavar="BITS", help="k (default: SIMHASH_DISTANCE)"
    )
    parser.add_argument("--max-bytes", metavar="N", help="of all tables, after compact")
    parser.add_argument("--max-candidates", metavar="N", help="that a query reads, on average")
    parser.add_argument("--max-tables", metavar="N", help="that the design may have")


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
    parser.add_argument(
        *("-d", "--distance"),
        type=int,
        default=PLAIN_DISTANCE_BITS,
        metavar="BITS",
        help=f"at most so many differ (default: {PLAIN_DISTANCE_BITS})",
    )


def _add_find_all(parser: argparse.ArgumentParser) -> None:
    _add_streams(parser)
    parser.add_argument(
        *("-b", "--blocks"),
        type=int,
        metavar="M",
        help="of the 64 bits, more than the distance (default: what is quickest)",
    )


def _add_find_clusters(parser: argparse.ArgumentParser) -> None:
    _add_find_all(parser)
    parser.add_argument(
        "--representative",
        action="store_true",
        help="clusters around one that all others are near to: no chains",
    )


def _add_batch_query(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--queries",
        required=True,
        metavar="FILE",
        dest="queries_path",
        help="fingerprints to be looked up, a decimal number a line",
    )
    _add_streams(parser)


def _add_rebuild(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tables", metavar="DESIGN", help="another one (default: the same)")


def _add_prune(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--days", type=float, metavar="N", help="last seen more than so many days ago"
    )
    _add_choice(parser)


def _add_delete(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("urls", nargs="*", metavar="URL")
    _add_choice(parser)


def _add_choice(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scope", metavar="S", help="only of this scope; '' for the global one")
    parser.add_argument("--crawl", metavar="ID", help="only of this crawl")
    parser.add_argument("--dry-run", action="store_true", help="list what would go, delete nothing")


def _add_undo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("urls", nargs="*", metavar="URL", help="that were dropped")
    parser.add_argument("--original", metavar="URL", help="only drops for this page")
    parser.add_argument("--distance", type=int, metavar="BITS", help="only of this distance")
    parser.add_argument("--crawl", metavar="ID", help="only of this crawl")
    parser.add_argument(
        "--lost", action="store_true", help="only drops for pages whose items never came through"
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", dest="urls_path", help="write the URLs there"
    )
    parser.add_argument("--dry-run", action="store_true", help="list them, change nothing")


def _add_export(parser: argparse.ArgumentParser) -> None:
    _add_archive(parser)
    parser.add_argument(
        "--tables",
        action="store_true",
        dest="all_tables",
        help="all tables of the store's design, so that the archive answers probes by itself",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace a file that is there")


def _add_import(parser: argparse.ArgumentParser) -> None:
    _add_archive(parser)
    parser.add_argument(
        "--base",
        action="store_true",
        help="keep them compressed, in an archive beneath the store's tables",
    )


def _add_backup(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="that is not there yet")
    parser.add_argument(
        "--no-check",
        action="store_false",
        dest="check",
        help="do not compare the tables of the copy with each other and with the documents",
    )


def _add_archive(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("archive_path", type=Path, metavar="FILE")


COMMANDS = {
    "stats": Command(
        "Documents, duplicates, distances, scopes and bytes of a store",
        "inspection:stats",
        _add_nothing,
    ),
    "log": Command("Read the decision log, newest last", "logreader:show_log", _add_log),
    "query": Command("Find near-duplicates in a store", "inspection:query", _add_query),
    "fingerprint": Command(
        "Fingerprint HTML files as a crawl would",
        "inspection:fingerprint_files",
        _add_fingerprint,
        stored=False,
    ),
    "explain": Command(
        "Say why a URL was dropped, or how two files compare", "inspection:explain", _add_explain
    ),
    "evaluate": Command(
        "Precision and recall on labelled pages (pages.csv, pairs.csv)",
        "inspection:evaluate_folder",
        _add_evaluate,
        stored=False,
    ),
    "plan": Command(
        "Table designs for so many documents: candidates, bytes, time, and the one to take",
        "planning:plan",
        _add_plan,
        stored=False,
    ),
    "find-all": Command(
        "All pairs of fingerprints within a distance",
        "joining:find_all_pairs",
        _add_find_all,
        stored=False,
    ),
    "find-clusters": Command(
        "Clusters of fingerprints, connected by pairs within a distance",
        "joining:find_all_clusters",
        _add_find_clusters,
        stored=False,
    ),
    "batch-query": Command(
        "Many fingerprints looked up among many others",
        "joining:answer_batch",
        _add_batch_query,
        stored=False,
    ),
    "compact": Command(
        "Write the tables at full fill, and shrink the store's file", "upkeep:compact", _add_nothing
    ),
    "rebuild": Command(
        "Write the tables anew from the documents, or in another design",
        "upkeep:rebuild",
        _add_rebuild,
    ),
    "check": Command(
        "Compare the tables of a store with each other and with its documents",
        "upkeep:check",
        _add_nothing,
    ),
    "prune": Command("Delete documents by age, scope and crawl", "upkeep:prune", _add_prune),
    "delete": Command("Delete documents by URL, scope and crawl", "upkeep:delete", _add_delete),
    "undo": Command(
        "Take drops back: list the URLs to fetch again, and let them pass then (not --lost ones)",
        "undo:undo",
        _add_undo,
    ),
    "export": Command(
        "Write the fingerprints of a store into an archive",
        "exchange:export_archive",
        _add_export,
    ),
    "import": Command(
        "Bulk-load fingerprints of texts you have elsewhere (no restore: see backup)",
        "exchange:import_archive",
        _add_import,
    ),
    "backup": Command(
        "Copy a store while crawls write, check the copy, and name it",
        "exchange:back_up",
        _add_backup,
    ),
}
