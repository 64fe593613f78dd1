"""Prints what the commands say of pages and drops."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from scrapy_simhash.output import print_fields
from scrapy_simhash.untrusted import printable

if TYPE_CHECKING:
    from collections.abc import Iterable


def print_decision(answer: dict[str, Any]) -> Iterable[str]:
    """Print a line of the log, or its summary."""
    if "statuses" in answer:
        yield from print_fields(answer)
        return
    when = datetime.fromtimestamp(answer.get("time", 0), UTC)
    line = f"{when:%H:%M:%S} {answer['status']:<14} {printable(answer['url'])}"
    if answer["status"] == "near_duplicate":
        line += f"  <- {answer.get('distance')} bits from {printable(answer.get('match_url'))}"
    elif answer.get("reason"):
        line += f"  ({printable(answer['reason'])})"
    yield line


def print_match(answer: dict[str, Any]) -> Iterable[str]:
    """Print a match of `query`."""
    yield f"{answer['distance']:>2} bits  {answer['state']:<11}  {printable(answer['url'])}"


def print_explanation(answer: dict[str, Any]) -> Iterable[str]:
    """Print what `explain` found."""
    if "verdict" in answer:
        yield f"{printable(answer['url'])}: {printable(answer['verdict'])}"
    if answer.get("decision"):
        yield "last decision in the log:"
        yield from ("  " + line for line in print_decision(answer["decision"]))
    for page in answer.get("pages", ()):
        yield printable(page["url"])
        yield from print_fields({k: v for k, v in page.items() if k != "url"}, "  ")
    if "distance" in answer:
        bits = " ".join(map(str, answer["differing_bits"])) or "none"
        tables = " ".join(map(str, answer["found_by_tables"])) or "none"
        yield f"distance: {answer['distance']} bits; differing bits: {bits}"
        yield f"tables of design {answer['design']} that find the pair: {tables}"
    for test in answer.get("tests", ()):
        yield f"test: {printable(test)}"
    if "jaccard" in answer:
        yield f"shared features: {answer['shared_features']:,} (Jaccard {answer['jaccard']})"
        for side in ("only_in_first", "only_in_second"):
            yield f"{side.replace('_', ' ')}: {printable(', '.join(answer[side])) or 'nothing'}"
        yield from map(printable, answer["text_difference"])
    if "note" in answer:
        yield answer["note"]
