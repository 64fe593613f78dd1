"""`scrapy simhash COMMAND`: the table of commands, and their parser.

Every `scrapy` call imports this module, so it imports little; the modules of the commands are
imported when any is called.
"""

from __future__ import annotations

import argparse
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    Make = Callable[..., argparse.ArgumentParser]

# The modules of the commands, in the order of the list that users get.
_FAMILIES = ("look", "upkeep", "batch")
# Options of several commands.
_OF_SEVERAL: dict[str, dict[str, Any]] = {
    "store": {"metavar": "PATH", "help": "folder or URL of the store (default: SIMHASH_STORE)"},
    "log": {
        "dest": "log_path",
        "metavar": "PATH",
        "help": "the decision log (default: SIMHASH_LOG)",
    },
    "crawl": {"metavar": "ID", "help": "only this crawl; `last`: the newest one of the log"},
    "overwrite": {"action": "store_true", "help": "replace an existing file"},
}


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
        self._names = add_commands(parser)
        super().add_options(parser)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Run the sub-command, or refuse an unknown one and unknown arguments."""
        if opts.simhash_command is None:
            raise UsageError(f"name a command: {', '.join(self._names)}")
        if args:
            raise UsageError(f"unknown arguments: {' '.join(args)}", print_help=False)
        from scrapy_simhash.commands.answering import run_command  # noqa: PLC0415 - for this call only

        assert self.settings is not None  # noqa: S101 - set by Scrapy
        self.exitcode = run_command(self.settings, opts)


def add_commands(parser: argparse.ArgumentParser) -> list[str]:
    """Add all commands to Scrapy's parser; returns their names."""
    # Otherwise Scrapy's --logfile and --loglevel would make our --log ambiguous.
    parser.allow_abbrev = False
    commands = parser.add_subparsers(
        dest="simhash_command",
        title="commands",
        metavar="<command>",
        prog="scrapy simhash",
        parser_class=argparse.ArgumentParser,
    )
    for family in _FAMILIES:
        module = import_module(f"scrapy_simhash.commands.{family}")
        module.add_commands(partial(_add_command, commands))
    return [*commands.choices]


def _add_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    about: str,
    run: Callable[..., object],
    *,
    printer: Callable[..., object] | None = None,
    takes: str = "store",
) -> argparse.ArgumentParser:
    """Add a command with options that others have, too; return its parser, for those of its own."""
    # `about` begins with the sentence of the list of commands. `run` gets the settings and the
    # options, which also have `settings`, and yields answers: dicts, which `printer` turns into
    # lines (by default its fields), or text to be printed as it is.
    parser = commands.add_parser(
        name,
        help=about.partition(". ")[0],
        description=about,
        allow_abbrev=False,
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")
    for option in takes.split():
        parser.add_argument(f"--{option}", **_OF_SEVERAL[option])
    parser.set_defaults(simhash_run=run, simhash_printer=printer)
    return parser
