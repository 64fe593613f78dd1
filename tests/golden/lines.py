"""A line for each verdict, the same from every kind of store and every build of the house."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from scrapy_simhash.judging.documents import Match, Verdict

# Numbers within a test are those of the verdict again, or of the pages.
_NUMBERS = re.compile(r"\d[\d.,]*%?")


class Numbers:
    """Numbers documents in the order in which they were named: stores may leave numbers out."""

    def __init__(self) -> None:
        self._known = {0: 0}

    def __getitem__(self, number: int) -> int:
        return self._known.setdefault(number, len(self._known))


class Line(NamedTuple):
    """A line of a golden file, and what led to it, for people who look into a difference."""

    text: str
    cause: str = ""


def show_verdict(verdict: Verdict, numbers: Numbers) -> str:
    """Write status, number, match and nearest."""
    parts = [verdict.status, verdict.reason, str(numbers[verdict.document])]
    parts.append(show_match(verdict.match, numbers))
    if verdict.nearest is not None:
        parts.append(f"unlike {show_match(verdict.nearest, numbers)}")
    return " ".join(filter(None, parts))


def show_match(match: Match | None, numbers: Numbers) -> str:
    """Write number, distance, similarity to three digits, and which tests decided."""
    if match is None:
        return ""
    similarity = "-" if match.similarity is None else f"{match.similarity:.3f}"
    tests = show_tests(match.tests)
    return f"{numbers[match.document]} {match.distance} {similarity} [{tests}]"


def show_tests(tests: tuple[str, ...] | list[str]) -> str:
    """Write which tests decided, without their numbers."""
    return "; ".join(_NUMBERS.sub("#", test) for test in tests)
