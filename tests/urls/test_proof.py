"""When a rule is proven, and how it is split."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash.urls.applying import apply_rule
from scrapy_simhash.urls.proof import (
    Z,
    count_votes_needed,
    is_proven,
    list_missing,
    list_values,
    lower_bound,
    split_rule,
)
from scrapy_simhash.urls.rules import UrlRule, UrlRuleRecord, parse_rule
from tests.helpers.urlrules import must_parse


@pytest.mark.parametrize(("confidence", "votes"), [(0.8, 11), (0.9, 25), (0.95, 52), (0.99, 268)])
def test_how_many_votes_a_confidence_takes(confidence: float, votes: int) -> None:
    assert count_votes_needed(confidence) == votes
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
HTTPS, EXCEPT = "a.example use-https", "a.example strip-slash except /x/"


def make_record(
    text: str, same: int, different: int = 0, directories: int = 3, values: int = 3, **fields: Any
) -> UrlRuleRecord:
    return UrlRuleRecord(
        parse_rule(text),
        same=same,
        different=different,
        directories=tuple(f"/d{number}/" for number in range(directories)),
        values=tuple(b"value-%d" % number for number in range(values)),
        **fields,
    )


@pytest.mark.parametrize(
    ("record", "proven"),
    [
        (make_record(SID, 24), False),
        (make_record(SID, 25), True),
        (make_record(SID, 100, directories=2), False),
        (make_record(SID, 100, values=2), False),
        (make_record("a.example drop-parameters CFID CFTOKEN", 100, values=2), False),
        (make_record("a.example drop-value format=print", 100, values=0), True),
        (make_record("a.example strip-slash", 100, values=0), True),
        # Once retired, it takes half as many votes again.
        (make_record(SID, 59, tested_at=40), False),
        (make_record(SID, 60, tested_at=40), True),
        # A conflict among the last votes is no proof, whatever the bound.
        (make_record(SID, 99, 1, recent="d" + "s" * 99), False),
        (make_record(SID, 160, 1, recent="s" * 100), True),
        # Nor are pages that nobody can tell apart, those of samples included.
        (make_record(SID, 30, recent="s" * 30 + "g" * 31), False),
        (make_record(SID, 60, recent="s" * 31 + "g" * 31), True),
        (make_record(SID, 60, recent="s" * 31 + "g" * 31, checks="g"), False),
        # What is doubted needs double support.
        *((make_record(doubted, 51), False) for doubted in (ALIAS, HTTPS, EXCEPT)),
        *((make_record(doubted, 52), True) for doubted in (ALIAS, HTTPS, EXCEPT)),
    ],
)
def test_when_a_rule_is_proven(record: UrlRuleRecord, *, proven: bool) -> None:
    assert is_proven(record) == proven
    assert (list_missing(record) == []) == proven


def test_what_a_rule_lacks_is_said() -> None:
    assert list_missing(make_record(SID, 24, directories=2, values=2)) == [
        "1 more vote until it is tested",
        "votes from 3 directories",
        "votes from 3 values",
    ]


def test_the_values_of_a_pair() -> None:
    pair = ("http://a.example/x?b=2&c=3&a=1", "http://b.example/x?b=2")
    assert list_values(parse_rule("a.example drop-parameter b"), pair) == ["b=2"]
    assert list_values(parse_rule("a.example drop-parameters a b"), pair) == ["a=1&b=2"]
    assert list_values(parse_rule("a.example drop-value a=1"), pair) == []


@given(
    st.integers(0, 60),
    st.integers(0, 3),
    st.integers(0, 4),
    st.integers(0, 4),
    st.integers(0, 60),
    st.text("sdg", max_size=100),
)
def test_what_is_missing_is_why_a_rule_is_not_proven(
    same: int, different: int, directories: int, values: int, tested_at: int, recent: str
) -> None:
    """If nothing is, the rule is proven, or its bound was just found too low."""
    record = make_record(SID, same, different, directories, values)
    record.tested_at, record.recent = tested_at, recent
    missing = list_missing(record)
    assert is_proven(record) == (not missing and lower_bound(same, different) >= 0.9)


def split(text: str, conflicts: list[tuple[str, str]], examples: list[tuple[str, str]]) -> str:
    """Split a rule by pairs of paths; returns the exceptions."""
    pairs = [
        tuple((f"http://a.example{first}", f"http://a.example{second}") for first, second in some)
        for some in (conflicts, examples)
    ]
    narrowed = split_rule(parse_rule(text), *pairs)
    return " ".join(narrowed.exceptions) if narrowed else ""


@pytest.mark.parametrize(
    ("rule", "conflicts", "examples", "exceptions"),
    [
        (
            "drop-parameter ref",
            [("/shop/a?ref=1", "/shop/a"), ("/shop/b/c?ref=2", "/shop/b/c?ref=1")],
            [("/x?ref=1", "/x")],
            "/shop/",
        ),
        (
            "drop-leading mirror",
            [("/mirror/old/a", "/old/a"), ("/mirror/old/b", "/old/b")],
            [("/mirror/a", "/a")],
            "/mirror/old/",
        ),
        (
            "drop-parameter sid",
            [("/a?lang=de&sid=1", "/a?lang=de"), ("/b?lang=de&sid=1", "/b?lang=de")],
            [("/x?sid=1", "/x"), ("/y?lang=en&sid=1", "/y?lang=en")],
            "lang=de",
        ),
        (
            "drop-parameter view",
            [("/a?view=list", "/a"), ("/b?view=list", "/b?view=grid")],
            [("/x?view=grid", "/x")],
            "view=list",
        ),
        # One conflict says nothing; nor do two that have nothing in common, or only what examples
        # have as well.
        ("drop-parameter ref", [("/shop/a?ref=1", "/shop/a")], [("/x?ref=1", "/x")], ""),
        (
            "drop-parameter ref",
            [("/a/x?ref=1", "/a/x"), ("/b/x?ref=2", "/b/x")],
            [("/x?ref=1", "/x")],
            "",
        ),
        (
            "drop-parameter ref",
            [("/shop/a?ref=1", "/shop/a"), ("/shop/b?ref=2", "/shop/b")],
            [("/shop/x?ref=1", "/shop/x")],
            "",
        ),
        ("drop-value a=1", [("/a?a=1", "/a"), ("/b?a=1", "/b")], [("/x?a=1", "/x")], ""),
        # Without a vote for it, nothing would be left.
        ("drop-parameter ref", [("/s/a?ref=1", "/s/a"), ("/s/b?ref=2", "/s/b")], [], ""),
    ],
)
def test_conflicts_with_something_in_common_split_a_rule(
    rule: str,
    conflicts: list[tuple[str, str]],
    examples: list[tuple[str, str]],
    exceptions: str,
) -> None:
    assert split(f"a.example {rule}", conflicts, examples) == exceptions


def test_a_rule_gets_four_exceptions_at_most() -> None:
    conflicts = [("/shop/a?ref=1", "/shop/a"), ("/shop/b?ref=2", "/shop/b")]
    examples = [("/x?ref=1", "/x")]
    text = "a.example drop-parameter ref except /a/ /b/ /c/"
    assert split(text, conflicts, examples) == "/a/ /b/ /c/ /shop/"
    assert split(text + " /d/", conflicts, examples) == ""


_PATHS = st.builds(
    "/{}/{}?{}ref={}".format,
    st.sampled_from("ab"),
    st.sampled_from("xyz"),
    st.sampled_from(["", "lang=de&", "lang=en&"]),
    st.sampled_from("12"),
)
_SOME_PAIRS = st.lists(st.tuples(_PATHS, _PATHS), min_size=1, max_size=4)


@given(_SOME_PAIRS, _SOME_PAIRS)
def test_what_is_left_of_a_rule_has_its_examples_and_none_of_its_conflicts(
    conflicts: list[tuple[str, str]], examples: list[tuple[str, str]]
) -> None:
    rule = parse_rule("a.example drop-parameter ref")

    def explains(rule: UrlRule, pair: tuple[str, str]) -> bool:
        return len({apply_rule(rule, must_parse(f"http://a.example{path}")) for path in pair}) == 1

    conflicts = [pair for pair in conflicts if explains(rule, pair)]
    examples = [pair for pair in examples if explains(rule, pair)]
    exceptions = split(rule.text, conflicts, examples)
    if exceptions:
        left = parse_rule(f"{rule.text} except {exceptions}")
        assert all(explains(left, pair) for pair in examples)
        assert not any(explains(left, pair) for pair in conflicts)
