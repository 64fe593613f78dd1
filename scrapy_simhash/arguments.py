"""The arguments of `scrapy simhash COMMAND`, and which function answers it.

Arguments are handed over by name: a function gets the configuration and those of the command's
arguments that its parameters name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from scrapy_simhash import arguments_batch, arguments_inspect, arguments_upkeep

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable


class Command(NamedTuple):
    """A sub-command.

    Attributes:
        about: one line, for `--help`.
        runner: `module:function` of this package that yields the answers; imported when asked for.
        add_arguments: adds what it takes besides `--json` and `--store`.
        printer: `module:function` of this package that makes the lines for people of an answer;
            None where answers are JSON with or without `--json`.
        stored: whether it takes `--store`.
    """

    about: str
    runner: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    printer: str | None = "output:print_fields"
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


COMMANDS = {
    "stats": Command(
        "Documents, duplicates, distances, scopes and bytes of a store",
        "inspection:stats",
        _add_nothing,
    ),
    "log": Command(
        "Read the decision log, newest last",
        "logreader:show_log",
        arguments_inspect.add_log,
        printer="output_inspect:print_decision",
    ),
    "query": Command(
        "Find near-duplicates in a store",
        "inspection:query",
        arguments_inspect.add_query,
        printer="output_inspect:print_match",
    ),
    "fingerprint": Command(
        "Fingerprint HTML files as a crawl would",
        "inspection:fingerprint_files",
        arguments_inspect.add_fingerprint,
        printer=None,
        stored=False,
    ),
    "explain": Command(
        "Say why a URL was dropped, or how two files compare",
        "explanation:explain",
        arguments_inspect.add_explain,
        printer="output_inspect:print_explanation",
    ),
    "evaluate": Command(
        "Precision and recall on labelled pages (pages.csv, pairs.csv), or on those of calibrate",
        "inspection:evaluate_pairs",
        arguments_inspect.add_evaluate,
        printer="output_evaluate:print_evaluation",
    ),
    "calibrate": Command(
        "Label pairs of a store: precision and recall by distance, and which settings to take",
        "calibration:calibrate",
        arguments_inspect.add_calibrate,
        printer="output_calibrate:print_calibration",
    ),
    "plan": Command(
        "Table designs for so many documents: candidates, bytes, time, and the one to take",
        "planning:plan",
        arguments_batch.add_plan,
        printer="output_batch:print_plan",
        stored=False,
    ),
    "find-all": Command(
        "All pairs of fingerprints within a distance",
        "joining:find_all_pairs",
        arguments_batch.add_find_all,
        printer=None,
        stored=False,
    ),
    "find-clusters": Command(
        "Clusters of fingerprints, connected by pairs within a distance",
        "joining:find_all_clusters",
        arguments_batch.add_find_clusters,
        printer=None,
        stored=False,
    ),
    "batch-query": Command(
        "Many fingerprints looked up among many others",
        "joining:answer_batch",
        arguments_batch.add_batch_query,
        printer=None,
        stored=False,
    ),
    "compact": Command(
        "Write the tables at full fill, and shrink the store's file",
        "upkeep:compact",
        _add_nothing,
        printer="output_upkeep:print_compaction",
    ),
    "rebuild": Command(
        "Write the tables anew from the documents, or in another design",
        "upkeep:rebuild",
        arguments_upkeep.add_rebuild,
    ),
    "check": Command(
        "Compare the tables of a store with each other and with its documents",
        "upkeep:check",
        _add_nothing,
        printer="output_upkeep:print_check",
    ),
    "prune": Command(
        "Delete documents by age, scope and crawl",
        "upkeep:prune",
        arguments_upkeep.add_prune,
        printer="output_upkeep:print_removal",
    ),
    "delete": Command(
        "Delete documents by URL, scope and crawl",
        "upkeep:delete",
        arguments_upkeep.add_delete,
        printer="output_upkeep:print_removal",
    ),
    "undo": Command(
        "Take drops back: list the URLs to fetch again, and let them pass then (not --lost ones)",
        "undo:undo",
        arguments_upkeep.add_undo,
        printer="output_upkeep:print_undone",
    ),
    "export": Command(
        "Write the fingerprints of a store into an archive",
        "exchange:export_archive",
        arguments_upkeep.add_export,
    ),
    "import": Command(
        "Bulk-load fingerprints of texts you have elsewhere (no restore: see backup)",
        "exchange:import_archive",
        arguments_upkeep.add_import,
    ),
    "backup": Command(
        "Copy a store while crawls write, check the copy, and name it",
        "exchange:back_up",
        arguments_upkeep.add_backup,
        printer="output_upkeep:print_backup",
    ),
}
