"""Rules of duplicate-url-discarder do what that program makes of them.

The addresses on the right were made by duplicate-url-discarder 0.3.0 with url-matcher 0.6.0, then
written canonically by w3lib, as Scrapy's fingerprint does.
"""

from typing import Any

import pytest

from scrapy_simhash.inspection.discarder import Discarder, read_discarder_rules


def rule(processor: str, args: list[Any], *include: str, order: int = 0, **more: Any) -> Any:
    """Make a rule as it stands in a file."""
    pattern = {"include": list(include), **more}
    return {"order": order, "processor": processor, "args": args, "urlPattern": pattern}


RULES = {
    "domain": [rule("queryRemoval", ["sid"], "example.com")],
    "universal": [
        rule("queryRemoval", ["sid"], "example.com"),
        rule("queryRemoval", ["utm_source"], ""),
        rule("normalizer", [], ""),
    ],
    "order": [
        rule("subpathRemoval", [0], "example.com", order=1),
        rule("subpathRemoval", [1], "example.com", order=2),
    ],
    "priority": [
        rule("subpathRemoval", [0], "example.com", order=9),
        rule("subpathRemoval", [1], "example.com", order=2, priority=900),
    ],
    "narrow first": [
        rule("subpathRemoval", [0], "shop.example.com/a"),
        rule("subpathRemoval", [1], "shop.example.com"),
    ],
    "path": [
        rule(
            "queryRemoval",
            ["sid"],
            "example.com/view.php?",
            exclude=["example.com/view.php?mode=edit"],
        )
    ],
    "wildcards": [rule("queryRemovalExcept", ["id"], "example.com/*/dp", "example.com/exact|")],
    "ports": [
        rule("queryRemoval", ["sid"], "127.0.0.1"),
        rule("queryRemoval", ["sid"], "localhost:8000"),
    ],
    "values": [
        rule("queryRemoval", ["print"], "example.com?print=1", "https://secure.example.com")
    ],
    "fragment": [rule("queryRemoval", ["sid"], "example.com/a#top")],
}
SAME = ""


@pytest.mark.parametrize(
    ("rules", "url", "form"),
    [
        ("domain", "http://example.com/a?sid=1&page=2", "http://example.com/a?page=2"),
        ("domain", "http://www.example.com/?sid=1", "http://www.example.com/"),
        ("domain", "http://m.example.com/a?SID=1&sid=2", "http://m.example.com/a?SID=1"),
        ("domain", "http://example.org/?sid=1", SAME),
        ("domain", "http://example.com:8000/?sid=1", SAME),
        ("domain", "http://example.com/a?b=2&a=1&sid=9#x", "http://example.com/a?a=1&b=2"),
        (
            "universal",
            "https://www.example.com/a/?sid=1&utm_source=x",
            "https://www.example.com/a/?utm_source=x",
        ),
        ("universal", "https://www2.other.example/a/?utm_source=x", "https://other.example/a"),
        ("order", "http://example.com/a/b/c/d", "http://example.com/c/d"),
        ("priority", "http://example.com/a/b/c/d", "http://example.com/c/d"),
        ("narrow first", "http://shop.example.com/a/b/c/d", "http://shop.example.com/b/d"),
        ("narrow first", "http://shop.example.com/b/c/d", "http://shop.example.com/b/d"),
        ("path", "http://example.com/view.php?sid=1", "http://example.com/view.php"),
        ("path", "http://example.com/view.php?mode=edit&sid=1", SAME),
        ("path", "http://www.example.com/view.php/x?sid=1", "http://www.example.com/view.php/x"),
        ("path", "http://m.example.com/view.php?sid=1", SAME),
        ("wildcards", "http://example.com/x/dp/1?b=3&id=2", "http://example.com/x/dp/1?id=2"),
        ("wildcards", "http://example.com/X/DP?b", "http://example.com/X/DP"),
        ("wildcards", "http://example.com/exact?b=3", "http://example.com/exact"),
        ("wildcards", "http://example.com/exactly?b=3", SAME),
        ("ports", "http://127.0.0.1:8000/?sid=1", SAME),
        ("ports", "http://127.0.0.1/?sid=1", "http://127.0.0.1/"),
        ("ports", "http://localhost:8000/?sid=1", "http://localhost:8000/"),
        ("ports", "http://localhost/?sid=1", SAME),
        ("values", "http://example.com/a?print=1", "http://example.com/a"),
        ("values", "http://example.com/a?print=2&PRINT=1", "http://example.com/a?PRINT=1"),
        ("values", "http://example.com/a?print=2", SAME),
        ("values", "http://secure.example.com/?print=3", SAME),
        ("values", "https://secure.example.com/?print=3", "https://secure.example.com/"),
        ("fragment", "http://example.com/a?sid=1#top", "http://example.com/a"),
        ("fragment", "http://example.com/a?sid=1", SAME),
        ("domain", "http://[", SAME),
    ],
)
def test_forms_are_those_of_the_program(rules: str, url: str, form: str) -> None:
    made, changed = Discarder(read_discarder_rules(RULES[rules])).apply(url)
    assert made == (form or url)
    assert bool(changed) == (form != SAME)


def test_the_rules_that_changed_an_address_are_named() -> None:
    discarder = Discarder(read_discarder_rules(RULES["universal"]))
    assert discarder.apply("http://www.example.org/a/?utm_source=x") == (
        "http://example.org/a",
        ("normalizer (everywhere)", "queryRemoval utm_source (everywhere)"),
    )
    assert discarder.apply("http://example.com/?sid=1")[1] == ("queryRemoval sid (example.com)",)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (7, "rule 2: a rule is 7; it must be an object"),
        ({}, "urlPattern is None; it must be an object"),
        (rule("queryRemoval", ["a"], "example.com", order="1"), "order is '1'"),  # type: ignore[arg-type]
        (rule("queryRemoval", ["a"], "example.com", priority=[]), r"priority is \[\]"),
        (rule("queryRemoval", ["a"], 3), "a pattern is 3; it must be text"),  # type: ignore[arg-type]
        (rule("queryRemoval", ["a"], "example.com", exclude="x"), "exclude is 'x'"),
        ({**rule("queryRemoval", [], "example.com"), "args": "a"}, "args is 'a'"),
        (rule("pathRemoval", ["a"], "example.com"), "no processor 'pathRemoval'; there are query"),
        (rule("queryRemoval", [1], "example.com"), "args of queryRemoval are names, got 1"),
        (rule("subpathRemoval", ["a"], "example.com"), "are places, from 0, got 'a'"),
        (rule("normalizer", ["a"], "example.com"), "args of normalizer are none, got 'a'"),
        (rule("queryRemoval", ["a"], "/path"), "pattern '/path' has no domain"),
        (rule("queryRemoval", ["a"], "example.com", ""), "pattern '' has no domain"),
    ],
)
def test_what_is_no_rule_is_refused(given: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        read_discarder_rules([*RULES["domain"], given])
