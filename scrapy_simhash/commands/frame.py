"""Describe and run commands, and print their answers."""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from dataclasses import replace
from datetime import UTC, datetime
from inspect import signature
from shutil import get_terminal_size
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from scrapy_simhash._printable import mask_passwords, plural, printable
from scrapy_simhash.config import Config, describe_unknown, read_config
from scrapy_simhash.crawl.running import name_store, place_log, place_store
from scrapy_simhash.errors import InspectionError, PartlyFailedError, StoreError
from scrapy_simhash.inspection.log import IMPORTED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from scrapy.settings import BaseSettings

    Answer: TypeAlias = dict[str, Any]


Result = TypeVar("Result")
_TIMES = {"created", "time", "first_time", "last_time"}
_WHOLE = 1_000
_DIGITS = tuple("0123456789-")
_FOUND, _NOTHING_FOUND, _ASKED_WRONGLY = 0, 1, 2
# Shells use 128 plus the number of the signal.
_INTERRUPTED = 130


def print_fields(answer: Answer, indent: str = "") -> Iterable[str]:
    """Print an answer: one field a line, then a table for each list of objects that is not empty.

    Objects that have lists are printed one below the other.
    """
    tables: dict[str, list[Answer]] = {}
    for key, value in answer.items():
        name = f"{indent}{key.replace('_', ' ') or 'of'}"
        parts = (
            list(value.values() if isinstance(value, dict) else value) if _is_many(value) else ()
        )
        if parts and all(isinstance(part, dict) for part in parts):
            named = value.items() if isinstance(value, dict) else ()
            tables[name] = [{"": of, **part} for of, part in named] or parts
        elif isinstance(value, dict) and parts:
            yield f"{name}:"
            for inner in value:
                yield f"{indent}  {printable(inner) or '(global)'}: {format_cell(value, inner)}"
        elif parts:
            yield f"{name}:"
            yield from (f"{indent}  {printable(part)}" for part in parts)
        elif not _is_many(value):
            yield f"{name}: {format_cell(answer, key)}"
    for title, rows in tables.items():
        yield from list_rows(rows, title)


def _is_many(value: object) -> bool:
    return isinstance(value, list | tuple | dict)


def list_rows(rows: Sequence[Answer], title: str) -> Iterable[str]:
    """Print objects as a table, or one below the other if they have lists, or need more columns."""
    from rich.cells import cell_len  # noqa: PLC0415 - not for each call of `scrapy`

    names = list(dict.fromkeys(name for row in rows for name in row))
    has_lists = any(_is_many(row.get(name)) for row in rows for name in names)
    lines = [] if has_lists else [*_align(rows, names)]
    # What is not for a terminal may be cut into columns by a program, and has no bound.
    most = get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    if has_lists or max(map(cell_len, lines)) > most:
        for row in rows:
            yield f"\n{title}:"
            yield from print_fields(row, "  ")
    else:
        yield f"\n{title}:"
        yield from lines


def _align(rows: Sequence[Answer], names: Sequence[str]) -> Iterable[str]:
    """Make the lines of a table; wide characters take two columns of a terminal."""
    from rich.cells import cell_len  # noqa: PLC0415

    columns = []
    for name in names:
        cells = [format_cell(row, name) for row in rows]
        numbers = all(cell[:1] in _DIGITS for cell in cells) and name not in {"crawl", *_TIMES}
        # The words of a title stand below each other, so that most tables fit into 80 columns.
        column = [*name.split("_"), *cells]
        width = max(map(cell_len, column))
        head = [""] * (max(len(each.split("_")) for each in names) - len(name.split("_")))
        blanks = [" " * (width - cell_len(cell)) for cell in head + column]
        filled = zip(blanks, head + column, strict=True)
        columns.append([blank + cell if numbers else cell + blank for blank, cell in filled])
    return ("  ".join(cells).rstrip() for cells in zip(*columns, strict=True))


def format_cell(row: Answer, name: str) -> str:
    """Format a value of an object; "-" for none."""
    value = row.get(name)
    if value is None:
        return "-"
    return _format(name, value)


class Command(NamedTuple):
    """The description of a command."""

    # Yields the answers: dicts, or a `str` of JSON lines, which is printed as it is. Parameters:
    # `config`, and names of the command's arguments, `settings`, or `options` for all arguments.
    # None if an action must be named.
    runner: Callable[..., Iterable[Answer | str]] | None
    # Adds all arguments but `--json` and `--store`.
    add_arguments: Callable[[argparse.ArgumentParser], object] = lambda _: None
    # Turns an answer into readable lines; None prints JSON with or without `--json`.
    printer: Callable[[Answer], Iterable[str]] | None = print_fields
    stored: bool = True  # has `--store`
    examples: tuple[str, ...] = ()  # without "scrapy simhash"
    details: str = ""
    # Commands of its own, each behind a description; their `details` and examples are seldom given.
    actions: Mapping[str, tuple[str, Command]] = MappingProxyType({})


def add_overwrite(parser: argparse.ArgumentParser) -> None:
    """Add the option that lets a command replace a file."""
    parser.add_argument("--overwrite", action="store_true", help="replace an existing file")


def add_crawl(parser: argparse.ArgumentParser, about: str) -> None:
    """Add the option that names a crawl."""
    about = f"{about}; `last`: the newest one of the log"
    parser.add_argument("--crawl", metavar="ID", help=about)


def add_log(parser: argparse.ArgumentParser) -> None:
    """Add the option that names a decision log."""
    about = "the decision log (default: SIMHASH_LOG)"
    parser.add_argument("--log", dest="log_path", metavar="PATH", help=about)


def run_command(settings: BaseSettings, opts: argparse.Namespace) -> int:
    """Run the command that was chosen, print its answers or its error, and return its exit code."""
    command: Command = opts.simhash_runs
    if isinstance(sys.stdout, io.TextIOWrapper):  # what a terminal cannot show is escaped
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        opts.settings, opts.options = settings, opts
        if unknown := describe_unknown(settings):
            sys.stderr.write(f"ignored {printable(unknown)}\n")
        store, config = getattr(opts, "store", None), read_config(settings)
        if store:
            settings.set("SIMHASH_STORE", store, "cmdline")
        config = place_log(replace(config, store=store) if store else place_store(config))
        opts.option = name_store(settings, config)
        assert command.runner is not None  # noqa: S101 - otherwise an action was required
        return _show(command, call(command.runner, config, opts), as_json=opts.json)
    except (InspectionError, PartlyFailedError, StoreError, ValueError, OSError) as error:
        message = printable(_in_words(error))
        sys.stderr.write(f"scrapy simhash {opts.simhash_command}: {message}\n")
        return _NOTHING_FOUND if isinstance(error, PartlyFailedError) else _ASKED_WRONGLY
    except KeyboardInterrupt:
        return _INTERRUPTED


def call(function: Callable[..., Result], config: Config, options: argparse.Namespace) -> Result:
    """Call a function with the options that its other parameters name."""
    wanted = [name for name in signature(function).parameters if hasattr(options, name)]
    return function(config, **{name: getattr(options, name) for name in wanted})


def _in_words(error: Exception) -> str:
    """Describe an error in words, without the operating system's error numbers."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}; check that path"
    return str(error)


def _show(command: Command, answers: Iterable[Answer | str], *, as_json: bool) -> int:
    """Print each answer as soon as it is there, and return the exit code."""
    printer = None if as_json else command.printer
    code = _NOTHING_FOUND
    try:
        for answer in answers:
            code = _FOUND
            if isinstance(answer, str):
                _print(answer, end="")
            elif printer is None:
                _print(mask_passwords(json.dumps(answer)))
            else:
                for part in printer(answer):
                    _print(part)
        if code == _NOTHING_FOUND and printer:
            _print("nothing found")
    except _ClosedPipeError:
        # Python flushes at exit, and would report the closed pipe as an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


class _ClosedPipeError(Exception):
    """The reader of standard output has ended, as `head` does."""


def _print(text: str, end: str = "\n") -> None:
    try:
        print(text, end=end, flush=True)  # noqa: T201 - that is what a command does
    except BrokenPipeError:  # only for standard output, not for other pipes
        raise _ClosedPipeError from None


_COLOURS = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33}


def style(text: str, colour: str) -> str:
    """Colour a line on terminals."""
    if not colour or not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return text
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"


def _format(key: str, value: object) -> str:
    """Format a value for display; its key shows whether a float is a time."""
    if key in _TIMES and isinstance(value, float):
        return f"{format_time(value)} UTC"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= _WHOLE else f"{value:.4g}"
    return printable(value)


def format_time(seconds: float) -> str:
    """Write seconds since 1970 in UTC: 2026-05-04 12:34:56."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"


def describe_match(answer: Answer, prefix: str = "") -> str:
    """Describe the distance and similarity of another page: 3 bits, 0.98 alike."""
    alike = answer.get(f"{prefix}similarity")
    shown = "" if alike is None else f", {alike:.2f} alike"
    return f"{plural(answer.get(f'{prefix}distance'), 'bit')}{shown}"


def name_page(url: str | None) -> str:
    """Format a URL; imported fingerprints have none."""
    return IMPORTED if url is None else printable(url)


def read_count(text: str) -> int:
    """Read a number of things, 0 or more."""
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, 0 or more")
    return int(text)
