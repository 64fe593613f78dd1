"""Prints the commands' answers: JSON lines, or text and tables for people.

Lines of text are as long as their addresses, which are never cut; tables fit the terminal, or 80
columns where there is none. Colours are for terminals, unless NO_COLOR is set.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from scrapy_simhash.untrusted import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from rich.table import Table
    from rich.text import Text

    from scrapy_simhash.arguments import Command

    Part: TypeAlias = str | Text | Table

_FOUND, _NOTHING_FOUND = 0, 1


def show(command: Command, answers: Iterable[dict[str, Any] | str], *, as_json: bool) -> int:
    """Print each answer as it comes; a `str` is ready to be printed, lines of JSON.

    Returns:
        The exit code: 0, or 1 when there was no answer.
    """
    printer = None if as_json or command.printer is None else load(command.printer)
    code = _NOTHING_FOUND
    render = str if printer is None else _make_renderer()
    try:
        for answer in answers:
            code = _FOUND
            if isinstance(answer, str):
                _print(answer, end="")
            elif printer is None:
                _print(json.dumps(answer))
            else:
                for part in printer(answer):
                    _print(render(part))
        if code == _NOTHING_FOUND and printer:
            _print("nothing found")
    except _ClosedPipeError:
        # What Python flushes at its end has nowhere to go, of which it would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


class _ClosedPipeError(Exception):
    """Nobody reads what is printed any more, as after `head`."""


def _print(text: str, end: str = "\n") -> None:
    try:
        print(text, end=end, flush=True)  # noqa: T201 - that is what a command does
    except BrokenPipeError:  # of standard output, and no other
        raise _ClosedPipeError from None


def _make_renderer() -> Callable[[Part], str]:
    from rich.console import Console  # noqa: PLC0415 - not needed with --json

    colours: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"
    console = Console(color_system=colours)

    def render(part: Part) -> str:
        if isinstance(part, str):
            return part
        with console.capture() as captured:
            console.print(part, soft_wrap=not hasattr(part, "columns"))
        return "\n".join(line.rstrip() for line in captured.get().splitlines())

    return render


def make_table(columns: Mapping[str, str], rows: Iterable[Sequence[object]]) -> Table:
    """Lay out rows in columns that fit the terminal.

    Args:
        columns: their titles, and how they are aligned: `right`; `left`, broken where there is no
            room; or `whole`, to the left and never broken. Wide characters count twice.
        rows: cells; numbers get separators of thousands, what else is there is made printable.
    """
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title, side in columns.items():
        table.add_column(
            Text(title),
            justify="right" if side == "right" else "left",
            no_wrap=side != "left",
            overflow="fold",
        )
    for row in rows:
        table.add_row(*(Text(format_value("", cell)) for cell in row))
    return table


def style(text: str, colour: str) -> Text:
    """Colour a line, on terminals."""
    from rich.text import Text  # noqa: PLC0415

    return Text(text, colour)


def load(name: str) -> Callable[..., Any]:
    """Import `module:function` of this package."""
    module, _, function = name.partition(":")
    loaded: Callable[..., Any] = getattr(import_module(f"scrapy_simhash.{module}"), function)
    return loaded


def print_fields(answer: dict[str, Any], indent: str = "") -> Iterable[str]:
    """Print an answer a field a line."""
    for key, value in answer.items():
        name = f"{indent}{key.replace('_', ' ')}"
        if isinstance(value, dict):
            yield f"{name}:"
            for inner, count in value.items():
                yield f"{indent}  {printable(inner) or '(global)'}: {format_value(inner, count)}"
        else:
            yield f"{name}: {format_value(key, value)}"


def format_value(key: str, value: object) -> str:
    """Write a value for people; seconds since 1970 by the name of their key."""
    if key in {"created", "time"} and isinstance(value, float):
        return f"{format_time(value)} UTC"
    if isinstance(value, int):
        return f"{value:,}"
    return printable(value)


def format_time(seconds: float) -> str:
    """Write a time in UTC: 2026-05-04 12:34:56."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"


def short(number: float) -> str:
    """Write a number in three digits: 0.298, 512, 17.2G."""
    rounded = float(f"{number:.3g}")
    for scale, unit in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if scale <= rounded < 1e3 * scale:
            return f"{rounded / scale:.3g}{unit}"
    return f"{rounded:.3g}"
