"""`scrapy simhash COMMAND`: look at a store, its decision log, and single pages.

Every `scrapy` call imports this module, so whatever is heavy is imported by the command that
needs it.
"""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from difflib import get_close_matches
from inspect import signature
from typing import TYPE_CHECKING, Any, ClassVar

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from scrapy_simhash.arguments import COMMANDS, add_commands
from scrapy_simhash.config import Config, read_config
from scrapy_simhash.paths import place_log, place_store

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable

# As shells have it: 128 and the number of the signal.
_INTERRUPTED = 130


class SimhashCommand(ScrapyCommand):
    """Answers are tables for people, or with `--json` one JSON object a line.

    Exit codes: 0 done, 1 nothing found or part of it failed, 2 asked wrongly or store unusable, 130
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
        """Run the sub-command.

        Raises:
            UsageError: no or an unknown sub-command, or unknown arguments.
        """
        if opts.simhash_command is None:
            raise UsageError(f"name a command: {', '.join(COMMANDS)}")
        if args:
            raise UsageError(_suggest_options(args, opts.simhash_usage()), print_help=False)
        from scrapy_simhash.inspection import (  # noqa: PLC0415 - only for this
            InspectionError,
            PartlyFailedError,
        )
        from scrapy_simhash.output import load, show  # noqa: PLC0415
        from scrapy_simhash.stores import StoreError  # noqa: PLC0415
        from scrapy_simhash.untrusted import printable  # noqa: PLC0415

        try:
            command = COMMANDS[opts.simhash_command]
            opts.settings = self.settings
            answers = _answer(load(command.runner), self._read_config(opts), opts)
            self.exitcode = show(command, answers, as_json=opts.json)
        except (
            InspectionError,
            PartlyFailedError,
            StoreError,
            ValueError,
            OSError,
        ) as error:
            said = printable(_in_words(error))
            sys.stderr.write(f"scrapy simhash {opts.simhash_command}: {said}\n")
            self.exitcode = 1 if isinstance(error, PartlyFailedError) else 2
        except KeyboardInterrupt:
            # What follows a log has no other end.
            self.exitcode = 0 if getattr(opts, "follow", False) else _INTERRUPTED

    def _read_config(self, opts: argparse.Namespace) -> Config:
        assert self.settings is not None  # noqa: S101 - set by Scrapy
        config = read_config(self.settings)
        given = getattr(opts, "store", None)
        config = replace(config, store=given) if given else place_store(config)
        return place_log(config)


def _suggest_options(unknown: list[str], usage: str) -> str:
    """Name arguments that are not known, and what the first may have meant."""
    options = re.findall(r"--[\w-]+", usage)
    meant = get_close_matches(unknown[0].partition("=")[0], options, 1)
    return f"unknown arguments: {' '.join(unknown)}" + "".join(
        f"; did you mean {m}?" for m in meant
    )


def _in_words(error: Exception) -> str:
    """Say what went wrong; of the operating system's errors without their number."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}; check that path"
    return str(error)


def _answer(
    runner: Callable[..., Iterable[dict[str, Any] | str]], config: Config, opts: argparse.Namespace
) -> Iterable[dict[str, Any] | str]:
    """Call it with those of the arguments that it names."""
    wanted = [name for name in signature(runner).parameters if name != "config"]
    return runner(config, **{name: getattr(opts, name) for name in wanted})
