"""`scrapy simhash COMMAND`: the table of commands, and the parser that loads the chosen one.

Every `scrapy` call imports this module, so it imports little; each command's module is imported
when the command is chosen.
"""

from __future__ import annotations

import argparse
import re
import textwrap
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from scrapy_simhash.errors import suggest

if TYPE_CHECKING:
    from scrapy_simhash.commands.frame import Command

# For each command: its module in this package, and its description.
COMMANDS = {
    "stats": ("look", "Count documents, duplicates, distances, scopes and bytes of a store"),
    "log": ("look", "Read the decision log, newest last"),
    "query": ("look", "Find stored pages near a URL, file, text or fingerprint"),
    "fingerprint": ("look", "Fingerprint HTML files as a crawl would"),
    "explain": ("look", "Explain why a URL was dropped or kept, or compare two pages"),
    "what-if": ("look", "Judge the stored pages by other settings, and list the differences"),
    "report": ("look", "Write an HTML file that shows what was dropped, and why"),
    "urls": ("urls", "Show and change the rules by which addresses need not be fetched"),
    "evaluate": ("evaluate", "Measure precision and recall on labelled pages"),
    "calibrate": ("calibrate", "Label pairs of a store, and learn which settings suit it"),
    "plan": ("plan", "Compare table designs for a number of documents, and choose one"),
    "find-all": ("join", "Find all pairs of fingerprints within a distance"),
    "find-clusters": ("join", "Cluster fingerprints that pairs within a distance connect"),
    "batch-query": ("join", "Look up many fingerprints among many others"),
    "spark": ("join", "Fingerprint, join and cluster billions of pages on Spark"),
    "compact": ("upkeep", "Pack the tables, and shrink the store's file"),
    "rebuild": ("upkeep", "Rewrite the tables from the documents, or in another design"),
    "check": ("upkeep", "Compare the tables of a store with each other and with its documents"),
    "backup": ("upkeep", "Copy a store while crawls write, and check the copy"),
    "prune": ("upkeep", "Delete documents by age, scope or crawl"),
    "delete": ("upkeep", "Delete documents by URL, scope or crawl"),
    "undo": ("upkeep", "Undo drops: list the URLs to fetch again, and let them pass"),
    "duplicates": ("exchange", "List the kept pages, each with the duplicates dropped for it"),
    "links": ("upkeep", "List links that only dropped pages have, and that nobody requested"),
    "export": ("exchange", "Write the fingerprints of a store to an archive"),
    "import": ("exchange", "Fill a store from pages, an archive or another store"),
    "merge": ("exchange", "Merge stores into one, or move a store to another kind"),
}
_HELP_WIDTH = 78


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
        return f"Inspect near-duplicates: {', '.join(COMMANDS)}"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the sub-commands."""
        super().add_options(parser)
        add_commands(parser)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Run the sub-command, or refuse an unknown one and unknown arguments."""
        if opts.simhash_command is None:
            raise UsageError(f"name a command: {', '.join(COMMANDS)}")
        if args:
            raise UsageError(_describe_unknown(args, opts), print_help=False)
        from scrapy_simhash.commands.frame import run_command  # noqa: PLC0415 - for this call only

        assert self.settings is not None  # noqa: S101 - set by Scrapy
        self.exitcode = run_command(find_command(opts.simhash_command), self.settings, opts)


def _describe_unknown(unknown: list[str], opts: argparse.Namespace) -> str:
    """Name the unknown arguments, and the option that the first one resembles."""
    told = f"unknown arguments: {' '.join(unknown)}"
    name = unknown[0].partition("=")[0]
    if name == "--set" or re.match("-s", name):
        before = f"scrapy simhash -s NAME=VALUE {opts.simhash_command}"
        return f"{told}; settings go before the command: {before}"
    return told + suggest(name, re.findall(r"--[\w-]+", opts.simhash_usage()))


def refuse(parser: argparse.ArgumentParser, message: str) -> NoReturn:
    """Refuse the arguments, and suggest the choice that a wrong one resembles."""
    if wrong := re.search(r"invalid choice: '(.+?)' \(choose from (.+)\)", message):
        message += suggest(wrong[1], re.findall(r"[\w-]+", wrong[2]))
    argparse.ArgumentParser.error(parser, message)


def add_commands(parser: argparse.ArgumentParser) -> argparse._SubParsersAction[_LazyParser]:
    """Add all commands to Scrapy's parser."""
    # Otherwise Scrapy's --logfile and --loglevel would make our --log ambiguous.
    parser.allow_abbrev = False
    parser.error = partial(refuse, parser)  # type: ignore[method-assign]  # its class is Scrapy's
    commands = parser.add_subparsers(
        dest="simhash_command",
        metavar="<command>",
        prog="scrapy simhash",
        parser_class=_LazyParser,
    )
    for name, (_, about) in COMMANDS.items():
        commands.add_parser(
            name,
            help=about,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
            command=name,
        )
    return commands


class _LazyParser(argparse.ArgumentParser):
    """The parser of a command; it adds the command's arguments only when it is used."""

    error = refuse

    def __init__(self, *args: Any, command: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._command: str | None = command

    def parse_known_args(self, *args: Any, **kwargs: Any) -> Any:
        """Parse the arguments after the command's name."""
        self.fill()
        return super().parse_known_args(*args, **kwargs)

    def fill(self) -> None:
        """Import the command's module, and add its arguments and help."""
        if self._command is None:
            return
        name, self._command = self._command, None
        command = find_command(name)
        self.description = _wrap(f"{COMMANDS[name][1]}.\n\n{command.details}".rstrip())
        self.epilog = "\n".join(
            ["examples:", *(f"  scrapy simhash {example}" for example in command.examples)]
        )
        self.add_argument("--json", action="store_true", help="print one JSON object a line")
        if command.stored:
            self.add_argument(
                "--store",
                metavar="PATH",
                help="folder or URL of the store (default: SIMHASH_STORE)",
            )
        command.add_arguments(self)
        self.set_defaults(simhash_usage=self.format_usage)


def find_command(name: str) -> Command:
    """Import the module of a command."""
    module = import_module(f"scrapy_simhash.commands.{COMMANDS[name][0]}")
    command: Command = module.COMMANDS[name]
    return command


def _wrap(text: str) -> str:
    """Break long lines for a terminal of 80 columns; existing line breaks stay."""
    return "\n".join(textwrap.fill(line, _HELP_WIDTH) for line in text.splitlines())
