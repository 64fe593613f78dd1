"""Prints the commands' answers: JSON lines, or text for people."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# Answers of these commands are JSON with or without --json.
_JSON_COMMANDS = {"fingerprint"}
_FOUND, _NOTHING_FOUND = 0, 1


def show(command: str, answers: Iterable[dict[str, Any]], *, as_json: bool) -> int:
    """Print each answer as it comes.

    Returns:
        The exit code: 0, or 1 when there was no answer.
    """
    code = _NOTHING_FOUND
    try:
        for answer in answers:
            code = _FOUND
            if as_json or command in _JSON_COMMANDS:
                print(json.dumps(answer), flush=True)  # noqa: T201 - that is what a command does
            else:
                for line in _PRINTERS.get(command, _print_fields)(answer):
                    print(line, flush=True)  # noqa: T201
    except (KeyboardInterrupt, BrokenPipeError):
        # `log --follow` is ended so, and so is a pipe to `head`; the rest of the pipe is gone.
        sys.stderr.close()
    if code == _NOTHING_FOUND and not as_json and command != "log":
        print("nothing found")  # noqa: T201
    return code


def printable(text: object) -> str:
    """Escape what could steer a terminal; pages and URLs are hostile."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(text))


def _print_fields(answer: dict[str, Any], indent: str = "") -> Iterable[str]:
    for key, value in answer.items():
        name = f"{indent}{key.replace('_', ' ')}"
        if isinstance(value, dict):
            yield f"{name}:"
            for inner, count in value.items():
                yield f"{indent}  {printable(inner) or '(global)'}: {_format(inner, count)}"
        else:
            yield f"{name}: {_format(key, value)}"


def _format(key: str, value: object) -> str:
    if key in {"created", "time"} and isinstance(value, float):
        return f"{datetime.fromtimestamp(value, UTC):%Y-%m-%d %H:%M:%S} UTC"
    if isinstance(value, int):
        return f"{value:,}"
    return printable(value)


def _print_decision(answer: dict[str, Any]) -> Iterable[str]:
    if "statuses" in answer:
        yield from _print_fields(answer)
        return
    when = datetime.fromtimestamp(answer.get("time", 0), UTC)
    line = f"{when:%H:%M:%S} {answer['status']:<14} {printable(answer['url'])}"
    if answer["status"] == "near_duplicate":
        line += f"  <- {answer.get('distance')} bits from {printable(answer.get('match_url'))}"
    elif answer.get("reason"):
        line += f"  ({printable(answer['reason'])})"
    yield line


def _print_match(answer: dict[str, Any]) -> Iterable[str]:
    yield f"{answer['distance']:>2} bits  {answer['state']:<11}  {printable(answer['url'])}"


def _print_explanation(answer: dict[str, Any]) -> Iterable[str]:
    if "verdict" in answer:
        yield f"{printable(answer['url'])}: {printable(answer['verdict'])}"
    if answer.get("decision"):
        yield "last decision in the log:"
        yield from ("  " + line for line in _print_decision(answer["decision"]))
    for page in answer.get("pages", ()):
        yield printable(page["url"])
        yield from _print_fields({k: v for k, v in page.items() if k != "url"}, "  ")
    if "distance" in answer:
        bits = " ".join(map(str, answer["differing_bits"])) or "none"
        tables = " ".join(map(str, answer["found_by_tables"])) or "none"
        yield f"distance: {answer['distance']} bits; differing bits: {bits}"
        yield f"tables of design {answer['design']} that find the pair: {tables}"
    if "jaccard" in answer:
        yield f"shared features: {answer['shared_features']:,} (Jaccard {answer['jaccard']})"
        for side in ("only_in_first", "only_in_second"):
            yield f"{side.replace('_', ' ')}: {printable(', '.join(answer[side])) or 'nothing'}"
        yield from map(printable, answer["text_difference"])
    if "note" in answer:
        yield answer["note"]


_PRINTERS: dict[str, Callable[[dict[str, Any]], Iterable[str]]] = {
    "log": _print_decision,
    "query": _print_match,
    "explain": _print_explanation,
}
