"""When a rule is proven, and where."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash.urls.proof import (
    Votes,
    Z,
    choose_directories,
    describe_missing,
    list_values,
    lower_bound,
)
from scrapy_simhash.urls.rules import UrlRuleRecord
from tests.helpers.urlrules import parse_rule


@pytest.mark.parametrize(("confidence", "votes"), [(0.8, 11), (0.9, 25), (0.95, 52), (0.99, 268)])
def test_how_many_votes_a_confidence_takes(confidence: float, votes: int) -> None:
    assert lower_bound(votes, 0) >= confidence > lower_bound(votes - 1, 0)


@given(st.integers(0, 500), st.integers(0, 500))
def test_the_bound_solves_the_equation_that_defines_it(same: int, different: int) -> None:
    """Wilson's bound p is where the share that was seen is Z standard errors of p above p."""
    bound = lower_bound(same, different)
    votes = same + different
    assert 0 <= bound <= 1
    if votes:
        share = same / votes
        error = math.sqrt(bound * (1 - bound) / votes)
        assert share - bound == pytest.approx(Z * error, abs=1e-9)


SID, ALIAS = "a.example drop-parameter sid", "m.a.example host-alias a.example"
HTTPS, SLASH = "a.example use-https", "a.example strip-slash"
FREE = "a.example drop-parameters CFID CFTOKEN"


@pytest.mark.parametrize(
    ("text", "votes", "values", "proven"),
    [
        (SID, {"/a/": "s" * 10}, 3, ""),
        (SID, {"/a/": "s" * 11}, 3, "/a/"),
        # Directories with few votes count, and are none where the rule acts.
        (SID, {"/a/": "s" * 9, "/b/": "ss"}, 3, "/a/"),
        (SID, {"/a/": "s" * 8, "/b/": "sss"}, 3, "/a/ /b/"),
        (SID, {f"/{number}/": "ss" for number in range(9)}, 3, ""),
        # One value says nothing of others, where all are dropped.
        *((rule, {"/a/": "s" * 99}, 2, "") for rule in (SID, FREE)),
        *((rule, {"/a/": "s" * 11}, 0, "/a/") for rule in (SLASH, "a.example drop-value p=1")),
        # A conflict speaks against its directory, unless it is long ago.
        (SID, {"/a/": "s" * 50 + "dd", "/b/": "s" * 11}, 3, "/b/"),
        (SID, {"/a/": "s" * 50 + "d", "/b/": "s" * 11}, 3, ""),
        (SID, {"/a/": "d" + "s" * 99, "/b/": "s" * 10}, 3, ""),
        (SID, {"/a/": "d" + "s" * 100}, 3, "/a/"),
        # So do pages that nobody can tell apart.
        (SID, {"/a/": "s" * 20 + "g" * 20}, 3, "/a/"),
        (SID, {"/a/": "s" * 20 + "g" * 21}, 3, ""),
        # Two hosts need twice the support.
        *((rule, {"/a/": "s" * 24}, 0, "") for rule in (ALIAS, HTTPS)),
        *((rule, {"/a/": "s" * 25}, 0, "/a/") for rule in (ALIAS, HTTPS)),
    ],
)
def test_where_a_rule_is_proven(text: str, votes: dict[str, str], values: int, proven: str) -> None:
    drawn = {f"value {number}" for number in range(values)}
    given = {name: Votes(letters, drawn) for name, letters in votes.items()}
    assert " ".join(choose_directories(parse_rule(text), given)) == proven


def test_what_a_rule_needs_is_said() -> None:
    assert describe_missing(UrlRuleRecord(parse_rule(SID))) == (
        "11 votes that are the same with 3 values, 3 of them in one directory, and no different "
        "one in theirs"
    )
    assert describe_missing(UrlRuleRecord(parse_rule(ALIAS))).startswith("25 votes that are")


def test_the_values_of_a_pair() -> None:
    pair = ("http://a.example/x?b=2&c=3&a=1", "http://b.example/x?b=2")
    assert list_values(parse_rule("a.example drop-parameter b"), pair) == {"b=2"}
    assert list_values(parse_rule("a.example drop-parameters a b"), pair) == {"a=1&b=2"}
    assert list_values(parse_rule("a.example drop-value a=1"), pair) == set()
