"""Rules as text, and rows of the tables."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash.urls.rules import RuleKind, UrlRule, check_rule, parse_rule
from tests.helpers.urlrules import draw_rules


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("a.example drop-value print=1", UrlRule(RuleKind.DROP_VALUE, "a.example", ("print=1",))),
        ("A.Example strip-slash", UrlRule(RuleKind.STRIP_SLASH, "a.example")),
        (
            "a.example:8000 drop-segments x%20y z",
            UrlRule(RuleKind.DROP_SEGMENTS, "a.example:8000", ("x y", "z")),
        ),
    ],
)
def test_a_rule_is_read_from_its_text(text: str, rule: UrlRule) -> None:
    assert parse_rule(text) == rule


@given(draw_rules())
def test_a_rule_is_read_as_it_was_written(rule: UrlRule) -> None:
    read = parse_rule(rule.text)
    assert (read.text, read.id) == (rule.text, rule.id)
    assert (read.kind, read.host, read.args) == (rule.kind, rule.host, rule.args)


@given(st.text(max_size=60))
def test_any_other_text_is_refused(text: str) -> None:
    with suppress(ValueError):
        check_rule(parse_rule(text))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "'' is no kind of rule"),
        ("a.example", "'' is no kind of rule"),
        ("a.example drop-everything", "'drop-everything' is no kind of rule"),
        ("a.example/x drop-parameter sid", "'a.example/x' is no host"),
        ("a.example drop-parameter", "takes 1 arguments, got 0"),
        ("a.example drop-parameter sid ref", "takes 1 arguments, got 2"),
        ("a.example drop-value print", "'print' is no name=value"),
        ("a.example host-alias a.example", "leads to its own host"),
        ("a.example host-alias ftp://b.example", "'ftp://b.example' is no host"),
    ],
)
def test_what_cannot_be_applied_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match="URL rule") as raised:
        parse_rule(text)
    assert reason in str(raised.value)
