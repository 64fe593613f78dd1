"""`scrapy simhash COMMAND`: look at a store, its decision log, and single pages.

Every `scrapy` call imports this module, so whatever is heavy is imported by the command that
needs it.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError
from scrapy.utils.project import data_path

from scrapy_simhash.config import DEFAULT_LOG, LOG_IN_STORE, Config, read_config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Answers = Iterable[dict[str, Any]]

_COMMANDS = ("stats", "log", "query", "fingerprint", "explain", "evaluate")
_STATUSES = ("new", "near_duplicate", "revisit", "unjudged")


class SimhashCommand(ScrapyCommand):
    """Answers are tables for people, or with `--json` one JSON object a line.

    Exit codes: 0 done, 1 nothing found or part of it failed, 2 asked wrongly or store unusable.
    """

    requires_crawler_process = False
    default_settings: ClassVar[dict[str, Any]] = {"LOG_ENABLED": False}

    def syntax(self) -> str:
        """Show the arguments."""
        return "<command> [options]"

    def short_desc(self) -> str:
        """Describe the command in a line."""
        return "Inspect near-duplicates: stats, log, query, fingerprint, explain, evaluate"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the sub-commands."""
        super().add_options(parser)
        # Scrapy's --logfile and --loglevel would make our --log ambiguous.
        parser.allow_abbrev = False
        commands = parser.add_subparsers(dest="simhash_command", metavar="<command>")
        common = argparse.ArgumentParser(add_help=False)
        common.add_argument("--json", action="store_true", help="one JSON object a line")
        stored = argparse.ArgumentParser(add_help=False)
        stored.add_argument(
            "--store", metavar="PATH", help="folder or URL of the store (default: SIMHASH_STORE)"
        )

        def add(name: str, about: str, *parents: argparse.ArgumentParser) -> Any:
            return commands.add_parser(
                name, help=about, description=about, parents=[common, *parents]
            )

        add("stats", "Documents, duplicates, distances, scopes and bytes of a store", stored)
        log = add("log", "Read the decision log, newest last", stored)
        log.add_argument("--log", metavar="PATH", dest="log_path", help="(default: SIMHASH_LOG)")
        log.add_argument("--status", choices=_STATUSES, help="only these")
        log.add_argument("--url", metavar="TEXT", help="only URLs (or matched URLs) with this text")
        log.add_argument("--distance", type=int, metavar="BITS", help="only this distance")
        log.add_argument("--crawl", metavar="ID", help="only this crawl")
        log.add_argument("--last", type=int, metavar="N", help="only the last N")
        log.add_argument("--follow", action="store_true", help="go on as the crawl goes on")
        log.add_argument("--summary", action="store_true", help="counts instead of lines")
        query = add("query", "Find near-duplicates in a store", stored)
        query.add_argument("what", help="URL, file, hex fingerprint (16 digits), or text")
        query.add_argument(
            "--distance", type=int, metavar="BITS", help="(default: SIMHASH_DISTANCE)"
        )
        fingerprint = add("fingerprint", "Fingerprint HTML files as a crawl would")
        fingerprint.add_argument("files", nargs="+", metavar="FILE", help="- for standard input")
        explain = add("explain", "Say why a URL was dropped, or how two files compare", stored)
        explain.add_argument("what", nargs="+", metavar="URL|FILE", help="a URL, or two files")
        evaluate = add("evaluate", "Precision and recall on labelled pages (pages.csv, pairs.csv)")
        evaluate.add_argument("folder", type=Path, metavar="DIR")
        evaluate.add_argument("--errors", action="store_true", help="list the wrong pairs, and why")
        evaluate.add_argument("--plot", type=Path, metavar="FILE", help="Figure 1 as PNG, SVG, PDF")
        evaluate.add_argument(
            "--workers", type=int, metavar="N", help="processes (default: SIMHASH_WORKERS)"
        )

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Run the sub-command.

        Raises:
            UsageError: no or an unknown sub-command, or unknown arguments.
        """
        if args:
            raise UsageError(f"unknown arguments: {' '.join(args)}", print_help=False)
        if opts.simhash_command is None:
            raise UsageError(f"name a command: {', '.join(_COMMANDS)}")
        from scrapy_simhash.inspection import (  # noqa: PLC0415 - only for this
            InspectionError,
            PartlyFailedError,
        )
        from scrapy_simhash.output import show  # noqa: PLC0415
        from scrapy_simhash.stores import StoreError  # noqa: PLC0415

        runner: Callable[[argparse.Namespace, Config], Answers] = getattr(
            self, f"_{opts.simhash_command}"
        )
        try:
            config = self._read_config(opts)
            self.exitcode = show(opts.simhash_command, runner(opts, config), as_json=opts.json)
        except (
            InspectionError,
            PartlyFailedError,
            StoreError,
            ValueError,
            OSError,
        ) as error:
            sys.stderr.write(f"scrapy simhash {opts.simhash_command}: {error}\n")
            self.exitcode = 1 if isinstance(error, PartlyFailedError) else 2

    def _read_config(self, opts: argparse.Namespace) -> Config:
        assert self.settings is not None  # noqa: S101 - set by Scrapy
        config = read_config(self.settings)
        if given := getattr(opts, "store", None):
            return replace(config, store=given)
        if "://" in config.store:
            return config
        return replace(config, store=data_path(config.store))

    def _stats(self, opts: argparse.Namespace, config: Config) -> Answers:  # noqa: ARG002
        from scrapy_simhash.inspection import stats  # noqa: PLC0415

        return stats(config)

    def _log(self, opts: argparse.Namespace, config: Config) -> Answers:
        from scrapy_simhash.logreader import LogFilter, read_log, summarise  # noqa: PLC0415

        wanted = LogFilter(opts.status, opts.url, opts.distance, opts.crawl)
        decisions = read_log(_log_path(opts, config), wanted, last=opts.last, follow=opts.follow)
        return summarise(decisions) if opts.summary else decisions

    def _query(self, opts: argparse.Namespace, config: Config) -> Answers:
        from scrapy_simhash.inspection import query  # noqa: PLC0415

        return query(config, opts.what, opts.distance)

    def _fingerprint(self, opts: argparse.Namespace, config: Config) -> Answers:
        from scrapy_simhash.inspection import fingerprint_files  # noqa: PLC0415

        return fingerprint_files(config, opts.files)

    def _evaluate(self, opts: argparse.Namespace, config: Config) -> Answers:
        from scrapy_simhash.inspection import evaluate_folder  # noqa: PLC0415

        if opts.workers is not None:
            config = replace(config, workers=opts.workers)
        return evaluate_folder(config, opts.folder, errors=opts.errors, plot=opts.plot)

    def _explain(self, opts: argparse.Namespace, config: Config) -> Answers:
        from scrapy_simhash.inspection import explain  # noqa: PLC0415

        return explain(config, opts.what, _log_path(opts, config))


def _log_path(opts: argparse.Namespace, config: Config) -> Path:
    from scrapy_simhash.stores import store_folder  # noqa: PLC0415

    if given := getattr(opts, "log_path", None):
        return Path(given)
    if config.log is not None and config.log != DEFAULT_LOG:
        return Path(config.log)
    return store_folder(config.store) / LOG_IN_STORE
