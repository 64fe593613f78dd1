"""Prints the commands' answers: JSON lines, or text for people."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any

from scrapy_simhash.untrusted import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scrapy_simhash.arguments import Command

_FOUND, _NOTHING_FOUND = 0, 1


def show(command: Command, answers: Iterable[dict[str, Any] | str], *, as_json: bool) -> int:
    """Print each answer as it comes; a `str` is ready to be printed, lines of JSON.

    Returns:
        The exit code: 0, or 1 when there was no answer.
    """
    printer = None if as_json or command.printer is None else load(command.printer)
    code = _NOTHING_FOUND
    try:
        for answer in answers:
            code = _FOUND
            if isinstance(answer, str):
                print(answer, end="", flush=True)  # noqa: T201
            elif printer is None:
                print(json.dumps(answer), flush=True)  # noqa: T201 - that is what a command does
            else:
                for line in printer(answer):
                    print(line, flush=True)  # noqa: T201
    except (KeyboardInterrupt, BrokenPipeError):
        # `log --follow` is ended so, and so is a pipe to `head`; the rest of the pipe is gone.
        sys.stderr.close()
    if code == _NOTHING_FOUND and printer:
        print("nothing found")  # noqa: T201
    return code


def load(name: str) -> Callable[..., Any]:
    """Import `module:function` of this package."""
    module, _, function = name.partition(":")
    loaded: Callable[..., Any] = getattr(import_module(f"scrapy_simhash.{module}"), function)
    return loaded


def print_fields(answer: dict[str, Any], indent: str = "") -> Iterable[str]:
    """Print an answer a field a line."""
    for key, value in answer.items():
        name = f"{indent}{key.replace('_', ' ')}"
        if isinstance(value, list) and value and isinstance(value[0], dict):
            yield f"{name}:"
            yield from (f"{indent}  {_print_row(row)}" for row in value)
        elif isinstance(value, dict):
            yield f"{name}:"
            for inner, count in value.items():
                yield f"{indent}  {printable(inner) or '(global)'}: {_format(inner, count)}"
        else:
            yield f"{name}: {_format(key, value)}"


def _print_row(row: dict[str, Any]) -> str:
    """Print a group of near-duplicates in a line."""
    kind = f" ({printable(row['kind'])})" if row["kind"] else ""
    return f"{row['near_duplicates']:>6,}  {printable(row['url'])}{kind}"


def _format(key: str, value: object) -> str:
    if key in {"created", "time"} and isinstance(value, float):
        return f"{datetime.fromtimestamp(value, UTC):%Y-%m-%d %H:%M:%S} UTC"
    if isinstance(value, int):
        return f"{value:,}"
    return printable(value)


def short(number: float) -> str:
    """Write a number in three digits: 0.298, 512, 17.2G."""
    rounded = float(f"{number:.3g}")
    for scale, unit in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if scale <= rounded < 1e3 * scale:
            return f"{rounded / scale:.3g}{unit}"
    return f"{rounded:.3g}"
