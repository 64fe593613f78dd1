"""The arguments of `scrapy simhash COMMAND`, and which function answers it.

Arguments are handed over by name: a function gets the configuration and those of the command's
arguments that its parameters name.
"""

from __future__ import annotations

import argparse
import textwrap
from typing import TYPE_CHECKING, NamedTuple

from scrapy_simhash import arguments_batch, arguments_inspect, arguments_report, arguments_upkeep

if TYPE_CHECKING:
    from collections.abc import Callable

_HELP_WIDTH = 78


class Command(NamedTuple):
    """A sub-command.

    Attributes:
        about: one line, for `--help`.
        runner: `module:function` of this package that yields the answers; imported when asked for.
        add_arguments: adds what it takes besides `--json` and `--store`.
        printer: `module:function` of this package that makes the lines for people of an answer;
            None where answers are JSON with or without `--json`.
        stored: whether it takes `--store`.
        examples: for `--help`, without "scrapy simhash".
        details: what is to be known besides, for `--help`.
    """

    about: str
    runner: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    printer: str | None = "output:print_fields"
    stored: bool = True
    examples: tuple[str, ...] = ()
    details: str = ""


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Add all sub-commands to Scrapy's parser."""
    # Scrapy's --logfile and --loglevel would make our --log ambiguous.
    parser.allow_abbrev = False
    commands = parser.add_subparsers(
        dest="simhash_command", metavar="<command>", prog="scrapy simhash"
    )
    for name, command in COMMANDS.items():
        added = commands.add_parser(
            name,
            help=command.about,
            description=_wrap(f"{command.about}.\n\n{command.details}".rstrip()),
            epilog=_show_examples(command.examples),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        added.add_argument("--json", action="store_true", help="one JSON object a line")
        if command.stored:
            added.add_argument(
                "--store",
                metavar="PATH",
                help="folder or URL of the store (default: SIMHASH_STORE)",
            )
        command.add_arguments(added)
        added.set_defaults(simhash_usage=added.format_usage)


def _wrap(text: str) -> str:
    """Break long lines where a help of 80 columns ends; what is broken already stays so."""
    return "\n".join(textwrap.fill(line, _HELP_WIDTH) for line in text.splitlines())


def _show_examples(examples: tuple[str, ...]) -> str:
    lines = [f"  scrapy simhash {example}" for example in examples]
    return "\n".join(["examples:", *lines]) if lines else ""


def _add_nothing(parser: argparse.ArgumentParser) -> None:
    """Leave the command without arguments of its own."""


COMMANDS = {
    "stats": Command(
        "Documents, duplicates, distances, scopes and bytes of a store",
        "inspection:stats",
        _add_nothing,
        printer="output_inspect:print_stats",
        examples=("stats", "stats --store .scrapy/simhash --json"),
        details=arguments_inspect.STATS_TERMS,
    ),
    "log": Command(
        "Read the decision log, newest last",
        "logreader:show_log",
        arguments_inspect.add_log,
        printer="output_inspect:print_log",
        examples=(
            "log --last 20",
            "log --follow            # during a crawl, until Ctrl-C",
            "log --status near_duplicate --url /print/",
            "log --summary           # which pages caused the most drops?",
            "log --summary --crawl last --top 50",
        ),
        details="Times are UTC. A near-duplicate has a second line: of which page it is one.",
    ),
    "query": Command(
        "Find near-duplicates in a store",
        "inspection:query",
        arguments_inspect.add_query,
        printer="output_inspect:print_match",
        examples=(
            "query http://site.example/again",
            "query page.html --distance 3",
            "query 0123456789abcdef",
            'query --text "some words of a page"',
        ),
        details=(
            "What begins with http:// or https:// is a URL of the store, then comes what is a "
            "file, then 16 hexadecimal digits; several words are a text. Nothing else is guessed."
        ),
    ),
    "fingerprint": Command(
        "Fingerprint HTML files as a crawl would",
        "inspection:fingerprint_files",
        arguments_inspect.add_fingerprint,
        printer=None,
        examples=(
            "fingerprint page.html other.html",
            "fingerprint --store .scrapy/simhash page.html",
        ),
        details=(
            "Each store has a seed of its own, a secret. Without --store the seed is 0, and the "
            "fingerprints cannot be compared with those of a store."
        ),
    ),
    "explain": Command(
        "Say why a URL was dropped or kept, or how two pages compare",
        "explanation:explain",
        arguments_inspect.add_explain,
        printer="output_inspect:print_explanation",
        examples=(
            "explain http://site.example/again",
            "explain http://site.example/again http://site.example/two",
            "explain page.html other.html",
            "explain page.html http://site.example/two",
            "explain http://site.example/again --html difference.html",
        ),
        details=(
            "URLs are looked up in the store and its log, files are fingerprinted: with recipe "
            "and seed of the store if a URL or --store is given, else with the settings' recipe "
            "and seed 0."
        ),
    ),
    "what-if": Command(
        "Judge the stored pages again by other settings, and say which decisions change",
        "whatif:what_if",
        arguments_inspect.add_what_if,
        printer="output_inspect:print_what_if",
        examples=(
            "what-if --distance 5",
            "what-if --confirm 0.9",
            "what-if --distance 3 --confirm none   # as in the paper",
            "what-if --scope host --json",
        ),
        details=arguments_inspect.WHAT_IF_LIMITS,
    ),
    "report": Command(
        "Write what was dropped, and why, into one HTML file",
        "report:write_report",
        arguments_report.add_report,
        printer="output_report:print_report",
        examples=("report", "report -o monday.html --crawl 20260101T120000-0a1b2c3d"),
    ),
    "evaluate": Command(
        "Precision and recall on labelled pages (pages.csv, pairs.csv), or on those of calibrate",
        "inspection:evaluate_pairs",
        arguments_inspect.add_evaluate,
        printer="output_evaluate:print_evaluation",
        examples=(
            "evaluate labelled",
            "evaluate labelled --errors --workers 2",
            "evaluate calibration.csv --store my-store",
        ),
    ),
    "calibrate": Command(
        "Label pairs of a store: precision and recall by distance, and which settings to take",
        "calibration:calibrate",
        arguments_inspect.add_calibrate,
        printer="output_calibrate:print_calibration",
        examples=(
            "calibrate",
            "calibrate --by-distance --seed 1",
            "calibrate --results --json",
        ),
        details=(
            "Answers are single keys on a terminal, otherwise lines: s same, d different, u "
            "unknown, n skip, b undo, q quit. Each label is on disk before the next pair is shown; "
            "the next call goes on there."
        ),
    ),
    "plan": Command(
        "Table designs for so many documents: candidates, bytes, time, and the one to take",
        "planning:plan",
        arguments_batch.add_plan,
        printer="output_batch:print_plan",
        stored=False,
        examples=("plan --documents 10M", "plan --documents 8e9 --distance 3 --max-tables 20"),
    ),
    "find-all": Command(
        "All pairs of fingerprints within a distance",
        "joining:find_all_pairs",
        arguments_batch.add_find_all,
        printer="output_inspect:print_pair",
        stored=False,
        examples=(
            "find-all --blocks 4 --distance 3 < numbers.txt",
            "find-all --store .scrapy/simhash --urls",
        ),
        details=arguments_batch.URLS_OF_STORES,
    ),
    "find-clusters": Command(
        "Clusters of fingerprints, connected by pairs within a distance",
        "joining:find_all_clusters",
        arguments_batch.add_find_clusters,
        printer="output_inspect:print_cluster",
        stored=False,
        examples=(
            "find-clusters -d 3 -i numbers.txt -o clusters.jsonl",
            "find-clusters --store .scrapy/simhash --urls",
        ),
        details=arguments_batch.URLS_OF_STORES,
    ),
    "batch-query": Command(
        "Many fingerprints looked up among many others",
        "joining:answer_batch",
        arguments_batch.add_batch_query,
        printer=None,
        stored=False,
        examples=("batch-query --queries numbers.txt --store .scrapy/simhash -d 3",),
    ),
    "spark": Command(
        "The same for billions of pages, on Spark: Parquet in, Parquet out",
        "spark_command:run_spark",
        arguments_batch.add_spark,
        stored=False,
        examples=(
            "spark fingerprint crawl.warc.gz -o documents",
            "spark pairs documents -o pairs",
        ),
    ),
    "compact": Command(
        "Write the tables at full fill, and shrink the store's file",
        "upkeep:compact",
        _add_nothing,
        printer="output_upkeep:print_compaction",
        examples=("compact",),
    ),
    "rebuild": Command(
        "Write the tables anew from the documents, or in another design",
        "upkeep:rebuild",
        arguments_upkeep.add_rebuild,
        examples=("rebuild", "rebuild --tables 4"),
    ),
    "check": Command(
        "Compare the tables of a store with each other and with its documents",
        "upkeep:check",
        _add_nothing,
        printer="output_upkeep:print_check",
        examples=("check", "check --store .scrapy/simhash"),
    ),
    "prune": Command(
        "Delete documents by age, scope and crawl",
        "upkeep:prune",
        arguments_upkeep.add_prune,
        printer="output_upkeep:print_removal",
        examples=("prune --days 365 --dry-run", "prune --scope www.example.com"),
    ),
    "delete": Command(
        "Delete documents by URL, scope and crawl",
        "upkeep:delete",
        arguments_upkeep.add_delete,
        printer="output_upkeep:print_removal",
        examples=("delete http://site.example/two --dry-run", "delete http://site.example/two"),
    ),
    "undo": Command(
        "Take drops back: list the URLs to fetch again, and let them pass then (not --lost ones)",
        "undo:undo",
        arguments_upkeep.add_undo,
        printer="output_upkeep:print_undone",
        examples=(
            "undo http://site.example/again --dry-run",
            "undo --original http://site.example/one -o urls.txt",
            "undo --distance 7",
            "undo --lost",
        ),
    ),
    "export": Command(
        "Write the fingerprints of a store into an archive",
        "exchange:export_archive",
        arguments_upkeep.add_export,
        examples=(
            "export fingerprints.archive",
            "export --tables --overwrite fingerprints.archive",
        ),
    ),
    "import": Command(
        "Seed a store: with pages (WARC, feed, folder), an archive, another store (no restore)",
        "importing:import_sources",
        arguments_upkeep.add_import,
        printer="output_upkeep:print_import",
        examples=(
            "import fingerprints.archive --store seeded",
            "import crawl.warc.gz --store seeded",
        ),
    ),
    "merge": Command(
        "Take over the documents of stores crawled apart, or move a store to another kind",
        "handover:merge_stores",
        arguments_upkeep.add_merge,
        printer="output_upkeep:print_merge",
        stored=False,
        examples=("merge monday tuesday --into week", "merge week --into redis://localhost:6379/0"),
    ),
    "backup": Command(
        "Copy a store while crawls write, check the copy, and name it",
        "exchange:back_up",
        arguments_upkeep.add_backup,
        printer="output_upkeep:print_backup",
        examples=("backup simhash-backup",),
    ),
}
