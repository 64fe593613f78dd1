"""Run commands, and print their answers."""

from __future__ import annotations

import io
import json
import os
import sys
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from scrapy_simhash._printable import mask_passwords, printable
from scrapy_simhash.config import read_config
from scrapy_simhash.crawl.running import resolve_paths
from scrapy_simhash.errors import InspectionError, PartlyFailedError, StoreError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Sequence

    from scrapy.settings import BaseSettings

    Answer: TypeAlias = dict[str, Any]

_WHOLE, _UNBOUNDED_COLUMNS = 1_000, 10_000
# Of an interrupted program, shells use 128 plus the number of the signal.
_FOUND, _NOTHING_FOUND, _ASKED_WRONGLY, _INTERRUPTED = 0, 1, 2, 130


def print_fields(answer: Answer) -> Iterable[str]:
    """Print an answer: one field a line, then a table for each list of objects."""
    tables: dict[str, list[Answer]] = {}
    for key, value in answer.items():
        name = key.replace("_", " ")
        if isinstance(value, list) and value and isinstance(value[0], dict):
            tables[name] = value
        elif isinstance(value, dict):
            yield from [f"{name}:"] * bool(value)
            for inner, one in value.items():
                yield f"  {printable(inner) or '(global)'}: {_format(one)}"
        elif isinstance(value, list):
            yield f"{name}:" if value else f"{name}: none"
            yield from (f"  {printable(one)}" for one in value)
        else:
            yield f"{name}: {_format(value)}"
    for name, rows in tables.items():
        yield from _print_table(name, rows)


def _print_table(title: str, rows: Sequence[Answer]) -> Iterable[str]:
    """Print objects of the same fields as a table."""
    from rich.console import Console  # noqa: PLC0415 - not for each call of `scrapy`
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, header_style="")
    for name, value in rows[0].items():
        # The words of a title stand below each other, so that most tables fit into 80 columns.
        side: Literal["left", "right"] = "left" if isinstance(value, str) else "right"
        table.add_column(Text(name.replace("_", "\n")), justify=side, vertical="bottom")
    for row in rows:
        table.add_row(*(Text(_format(value)) for value in row.values()))
    console = Console(width=_UNBOUNDED_COLUMNS, color_system=None)  # else it leaves digits out
    with console.capture() as captured:
        console.print(table)
    yield f"\n{title}:"
    yield from (line.rstrip() for line in captured.get().splitlines())


def run_command(settings: BaseSettings, opts: argparse.Namespace) -> int:
    """Run the command that was chosen, print its answers or its error, and return its exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # what a terminal cannot show is escaped
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        config = resolve_paths(read_config(settings), getattr(opts, "store", None) or None)
        opts.settings = settings
        printer = None if opts.json else opts.simhash_printer or print_fields
        return _show(opts.simhash_run(config, opts), printer)
    except (InspectionError, PartlyFailedError, StoreError, ValueError, OSError) as error:
        message = str(error)
        if isinstance(error, OSError) and error.strerror and error.filename is not None:
            message = f"{error.filename}: {error.strerror}; check that path"
        sys.stderr.write(f"scrapy simhash {opts.simhash_command}: {printable(message)}\n")
        return _NOTHING_FOUND if isinstance(error, PartlyFailedError) else _ASKED_WRONGLY
    except KeyboardInterrupt:
        return _INTERRUPTED


def _show(
    answers: Iterable[Answer | str], printer: Callable[[Answer], Iterable[str]] | None
) -> int:
    """Print each answer as soon as it is there, and return the exit code."""
    code = _NOTHING_FOUND
    for answer in answers:
        code = _FOUND
        if isinstance(answer, str):
            _print(answer, code)
        elif printer is None:
            _print(f"{mask_passwords(json.dumps(answer))}\n", code)
        else:
            for line in printer(answer):
                _print(f"{line}\n", code)
    if code == _NOTHING_FOUND and printer:
        _print("nothing found\n", code)
    return code


def _print(text: str, code: int) -> None:
    """Print a text; end with the exit code if nobody reads on, as `head` does."""
    try:
        print(text, end="", flush=True)  # noqa: T201 - that is what a command does
    except BrokenPipeError:  # only for standard output, not for other pipes
        # Python flushes at exit, and would report the closed pipe as an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(code)


def _format(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= _WHOLE else f"{value:.4g}"
    return printable(value)
