"""The command `urls`: the rules by which several addresses lead to one page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_simhash._printable import printable
from scrapy_simhash.commands.frame import Command, style
from scrapy_simhash.inspection.urlrules import describe_rule, find_rules

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy_simhash.commands.frame import Answer, Part
    from scrapy_simhash.config import Config

_INDENT = " " * 10


def _list(config: Config) -> Iterator[Answer]:
    """List the rules that the pages of the store propose."""
    yield from map(describe_rule, find_rules(config))


def _print(answer: Answer) -> Iterable[Part]:
    """Print a rule with its votes and some of the pairs of pages that voted."""
    state = "proven" if answer["proven"] else "open"
    yield style(f"{state:<8}  {printable(answer['rule'])}", "green" * answer["proven"])
    votes = ", ".join(f"{answer[name]:,} {name}" for name in ("same", "different", "grey"))
    yield f"{_INDENT}{votes}: at least {answer['lower_bound']:.2f} same"
    if answer["directories"]:
        yield f"{_INDENT}in {', '.join(map(printable, answer['directories']))}"
    if answer["lacks"]:
        yield f"{_INDENT}it takes {answer['lacks']}"
    for outcome in ("different", "same"):
        for pair in answer[f"pairs_{outcome}"]:
            yield f"{_INDENT}{outcome}: {' '.join(map(printable, pair))}"


COMMANDS = {"urls": Command(_list, printer=_print, examples=("urls",))}
