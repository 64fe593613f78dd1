"""Evidence: whether two pages that a rule makes one are the same page."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from scrapy_simhash.judging.comparison import (
    Deciding,
    compare,
    find_deciding,
    measure_shared,
)
from scrapy_simhash.judging.documents import State
from scrapy_simhash.judging.names import call_differently
from scrapy_simhash.judging.rule import CONFIRM, Rule

if TYPE_CHECKING:
    from scrapy_simhash.judging.documents import PageFacts, Record

# Texts that have less in common speak against a rule.
LEAST_ALIKE = 0.6
# Sketches of shorter texts are uncertain.
LEAST_WORDS = 64
# A page that was fetched a day later may have been changed in between.
STALE_SECONDS = 86_400


class Outcome(StrEnum):
    """What comes of comparing two pages."""

    SAME = "s"
    DIFFERENT = "d"
    GREY = "g"


def can_vote(page: PageFacts) -> bool:
    """Whether a page says anything: one with little text, such as an empty shell, does not."""
    return not page.stub and bool(page.sketch)


def group_of(number: int, record: Record) -> int:
    """Get the number of the document that a document shows: its own, or that of its original."""
    return record.original if record.state == State.DUPLICATE else number


def compare_pages(first: PageFacts, second: PageFacts, rule: Rule) -> Outcome:
    """Compare two pages that can vote, by the judgement's rule, however far apart they are.

    They are `different` where texts of 64 words and more are less than .6 alike, and less than .6
    of the shorter one is in the other (a print view lacks the navigation); or where no name of the
    one fits the other. But not if a day lies between them. What cannot be told is `grey`.
    """
    if find_deciding(first, second, Rule(rule.distance, CONFIRM)) is not Deciding.TEXTS:
        return Outcome.GREY
    confirm = CONFIRM if rule.confirm is None else rule.confirm
    answer = compare(first, second, Rule(rule.distance, confirm))
    if answer.confirmed:
        return Outcome.SAME
    if abs(first.time - second.time) > STALE_SECONDS:
        return Outcome.GREY
    if call_differently(first, second):
        return Outcome.DIFFERENT
    assert answer.similarity is not None  # noqa: S101 - texts decide
    unlike = (
        min(first.words, second.words) >= LEAST_WORDS
        and answer.similarity < LEAST_ALIKE
        and measure_shared(first, second) < LEAST_ALIKE
    )
    return Outcome.DIFFERENT if unlike else Outcome.GREY
