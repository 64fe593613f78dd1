"""Prints what the command report has written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy_simhash.untrusted import printable

if TYPE_CHECKING:
    from collections.abc import Iterable


def print_report(answer: dict[str, Any]) -> Iterable[str]:
    """Print where the report is, and what it says in short."""
    yield (
        f"{printable(answer['file'])}: {answer['file_bytes']:,} bytes, {answer['rows']:,} "
        f"near-duplicates, {answer['differences']:,} differences"
    )
    share = answer["dropped"] / max(1, answer["judged"])
    yield f"{answer['dropped']:,} of {answer['judged']:,} pages judged were dropped ({share:.1%})"
    yield from (f"note: {printable(note)}" for note in answer["missing"])
