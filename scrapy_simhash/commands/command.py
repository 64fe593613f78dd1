"""`scrapy simhash COMMAND`: the table of commands, and their parser.

Every `scrapy` call imports this module, so it imports little; the modules of the commands are
imported when one is called.
"""

from __future__ import annotations

import argparse
import re
import textwrap
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from scrapy_simhash.errors import suggest

if TYPE_CHECKING:
    from scrapy_simhash.commands.frame import Command

# For each command: its module in this package, and its description.
COMMANDS = {
    "log": ("look", "Read the decision log, newest last"),
    "explain": ("look", "Explain why a URL was dropped or kept, or compare two pages"),
    "report": ("look", "Write an HTML file that shows what was dropped, and why"),
    "undo": ("upkeep", "Undo drops: list the URLs to fetch again, and let them pass"),
    "urls": ("look", "Find rules by which several addresses lead to one page"),
    "export": ("transfer", "Copy a store, or write its fingerprints or duplicates"),
    "import": ("transfer", "Fill a store from pages, an archive or other stores"),
    "prune": ("upkeep", "Delete documents by URL, age, scope or crawl"),
    "check": ("upkeep", "Count and compare what a store has, pack it or rebuild its tables"),
    "find-all": ("batch", "Find all pairs of near fingerprints, or their clusters"),
    "batch-query": ("batch", "Look up many fingerprints among many others"),
    "spark": ("batch", "Fingerprint, join and cluster billions of pages on Spark"),
    "plan": ("batch", "Compare table designs for a number of documents, and choose one"),
}
_HELP_WIDTH = 78
_SET_BEHIND = "set_behind"


class SimhashCommand(ScrapyCommand):
    """Prints readable tables or, with `--json`, one JSON object a line.

    Exit codes: 0 done, 1 nothing found or part of it failed, 2 wrong usage or unusable store, 130
    interrupted.
    """

    requires_crawler_process = False
    default_settings: ClassVar[dict[str, Any]] = {"LOG_ENABLED": False}

    def syntax(self) -> str:
        """Show the arguments."""
        return "<command> [options]"

    def short_desc(self) -> str:
        """Describe the command in a line."""
        return "Inspect near-duplicates, and the stores that they were found in"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the sub-commands."""
        add_commands(parser)
        super().add_options(parser)

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        """Read the settings, which may stand behind the command, too."""
        opts.set = [*opts.set, *(getattr(opts, _SET_BEHIND, None) or ())]
        super().process_options(args, opts)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Run the sub-command, or refuse an unknown one and unknown arguments."""
        if opts.simhash_command is None:
            raise UsageError(f"name a command: {', '.join(COMMANDS)}")
        if args:
            known = re.findall(r"--[\w-]+", opts.simhash_usage())
            meant = suggest(args[0].partition("=")[0], known)
            raise UsageError(f"unknown arguments: {' '.join(args)}{meant}", print_help=False)
        from scrapy_simhash.commands.frame import run_command  # noqa: PLC0415 - for this call only

        assert self.settings is not None  # noqa: S101 - set by Scrapy
        self.exitcode = run_command(self.settings, opts)


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Add all commands to Scrapy's parser."""
    # Otherwise Scrapy's --logfile and --loglevel would make our --log ambiguous.
    parser.allow_abbrev = False
    commands = parser.add_subparsers(
        dest="simhash_command",
        title="commands",
        metavar="<command>",
        prog="scrapy simhash",
        parser_class=argparse.ArgumentParser,
    )
    for name, (module, about) in COMMANDS.items():
        command: Command = import_module(f"scrapy_simhash.commands.{module}").COMMANDS[name]
        described = f"{about}. {command.details}".strip()
        added = commands.add_parser(
            name,
            help=about,
            description=textwrap.fill(described, _HELP_WIDTH),
            epilog="\n  scrapy simhash ".join(["examples:", *command.examples]),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        added.add_argument("--json", action="store_true", help="print one JSON object a line")
        if command.stored:
            about_store = "folder or URL of the store (default: SIMHASH_STORE)"
            added.add_argument("--store", metavar="PATH", help=about_store)
        # Not Scrapy's own, whose values before the command argparse would forget.
        added.add_argument(
            *("-s", "--set"),
            metavar="NAME=VALUE",
            action="append",
            dest=_SET_BEHIND,
            help="set/override setting (may be repeated)",
        )
        command.add_arguments(added)
        added.set_defaults(simhash_usage=added.format_usage, simhash_runs=command)
