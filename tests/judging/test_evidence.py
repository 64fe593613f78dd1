"""Whether two pages that a rule makes one are the same page."""

from typing import Any

import pytest

from scrapy_simhash.judging.comparison import Outcome, can_vote, compare_pages
from scrapy_simhash.judging.documents import Document
from scrapy_simhash.judging.rule import Rule
from tests.helpers.urlrules import RULE, make_facts


def page(name: str, **facts: Any) -> Document:
    return Document(identity=b"page", **{**make_facts(name), **facts})


def cut(name: str, words: int) -> Document:
    """Make a page that has only the first words of another one, as a print view has."""
    return page(f"{name}<{words}", title=f"Title of {name}", heading=f"Heading of {name}")


@pytest.mark.parametrize(
    ("first", "second", "outcome"),
    [
        (page("a"), page("a"), Outcome.SAME),
        (page("a"), page("a~8"), Outcome.SAME),
        # Short texts must be .9 alike.
        (page("a"), page("a~12"), Outcome.GREY),
        # Half of the words are others: alike by .5 to .6.
        (page("a"), page("a~60"), Outcome.GREY),
        (page("a"), page("a~150"), Outcome.DIFFERENT),
        (page("a"), page("b"), Outcome.DIFFERENT),
        # Whatever the texts are like, two names are two pages.
        (page("a"), page("a", title="Title of b", heading="Heading of b"), Outcome.DIFFERENT),
        (page("a"), page("a~30", heading="Heading of b"), Outcome.GREY),
        # Too short to tell, unless names do.
        (page("a", words=50), page("a~150"), Outcome.GREY),
        (page("a", words=50), page("b"), Outcome.DIFFERENT),
        # One is part of the other.
        (page("a"), cut("a", 80), Outcome.GREY),
        (page("a", time=1.0), page("a~150", time=90_000.0), Outcome.GREY),
        (page("a", time=1.0), page("b", time=90_000.0), Outcome.GREY),
        (page("a", time=1.0), page("a", time=90_000.0), Outcome.SAME),
        (page("a", scope="x"), page("a"), Outcome.GREY),
        (page("a"), page("a", sketch=b""), Outcome.GREY),
    ],
)
def test_two_pages_are_compared(first: Document, second: Document, outcome: Outcome) -> None:
    for rule in (RULE, Rule(3, None)):
        assert compare_pages(first, second, rule) == outcome
        assert compare_pages(second, first, rule) == outcome


def test_who_can_vote() -> None:
    assert can_vote(page("a"))
    assert not can_vote(page("a", stub=True))
    assert not can_vote(page("a", sketch=b""))
