"""What rules do to addresses, and what duplicate-url-discarder does with the list of them."""

import json
from pathlib import Path

import pytest
from duplicate_url_discarder.url_canonicalizer import UrlCanonicalizer

from scrapy_simhash.inspection.urlrules import FoundRule, UrlRule, list_discarder_rules
from scrapy_simhash.pages.addresses import MOST_CHARACTERS, MOST_PARTS, parse_address

pytestmark = pytest.mark.usefixtures("public_suffixes")


def parse_rule(text: str) -> UrlRule:
    host, kind, *args = text.split()
    if kind == "drop-parameters":
        return UrlRule(host, tuple(args))
    return UrlRule(host, segments=tuple(args[1:]), place=int(args[0]))


@pytest.mark.parametrize(
    "url",
    [
        *("", "x", "ftp://a.example/x", "mailto:a@b.example", "data:text/html,x", "http:///x"),
        *("http://me@a.example/", "http://me:secret@a.example/", "http://a.example\\@b.example/"),
        *("http://[::1/x", "http://a b.example/"),
        *("http://a.example:x/", "http://a.example:123456/"),
        *("http://a.example/" + "x" * MOST_CHARACTERS, "http://a.example/" + "/" * MOST_PARTS),
        "http://a.example/?" + "&".join(f"p{number}=" for number in range(10_000)),
        "http://" + "ü" * 100 + ".example/",
    ],
)
def test_an_address_that_no_rule_may_judge(url: str) -> None:
    assert parse_address(url) is None


@pytest.mark.parametrize(
    ("rule", "directory", "changed", "left"),
    [
        (
            "drop-parameters sid",
            "/d/*.html",
            {"/d/x.html?sid=1&a=2": "/d/x.html?a=2"},
            "/d/x?sid=1",
        ),
        ("drop-parameters sid", "/*", {"/x?sid=1": "/x"}, "/d/x?sid=1"),
        ("drop-parameters sid", "/d/*", {"/d/x?sid=1": "/d/x"}, "/d/x.html?sid=1"),
        ("drop-parameters p q", "/*", {"/x?p=1&q=2": "/x"}, "/x?p=1"),
        ("drop-parameters print=1", "/*", {"/x?print=1": "/x"}, "/x?print=2"),
        ("drop-segments 0 mirror", "/d/*", {"/mirror/d/x": "/d/x"}, "/d/mirror/x"),
        ("drop-segments 2 page 1", "/tag/*/", {"/tag/a/page/1/": "/tag/a/"}, "/tag/page/1/a/"),
        ("drop-segments 2 amp", "/d/*", {"/d/x/amp": "/d/x"}, "/d/x/amp/y"),
    ],
)
def test_it_does_what_a_rule_does_where_that_is_proven(
    tmp_path: Path, rule: str, directory: str, changed: dict[str, str], left: str
) -> None:
    path, proven = tmp_path / "rules.json", parse_rule(f"a.example {rule}")
    path.write_text(json.dumps(list_discarder_rules([FoundRule(proven, (), [directory])])))
    canonicalizer = UrlCanonicalizer([path])
    for url, form in {**changed, left: left}.items():
        assert canonicalizer.process_url(f"http://a.example{url}") == f"http://a.example{form}"
    for url in changed:
        assert canonicalizer.process_url(f"http://b.example{url}") == f"http://b.example{url}"


def test_what_means_something_in_a_pattern_is_left_out() -> None:
    rule = parse_rule("a.example drop-parameters a*")
    assert list_discarder_rules([FoundRule(rule, (), ["/*"])]) == []


def test_no_two_rules_remove_parts_of_one_path(tmp_path: Path) -> None:
    """Parts are counted from the beginning: the second rule would take another one."""
    path = tmp_path / "rules.json"
    leading, inner = (
        parse_rule(f"a.example {rule}") for rule in ("drop-segments 0 m", "drop-segments 2 p")
    )
    found = FoundRule(leading, (), ["/d/*/*"]), FoundRule(inner, (), ["/m/*/*"])
    path.write_text(json.dumps(list_discarder_rules(found)))
    process = UrlCanonicalizer([path]).process_url
    assert process("http://a.example/m/d/p/x") == "http://a.example/d/p/x"
    assert process("http://a.example/m/e/p/x") == "http://a.example/m/e/x"
