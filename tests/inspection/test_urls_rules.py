"""What rules do to addresses, and what duplicate-url-discarder does with the list of them."""

import json
from pathlib import Path

import pytest
from duplicate_url_discarder.url_canonicalizer import UrlCanonicalizer

from scrapy_simhash.inspection.urlrules import FoundRule, list_discarder_rules
from scrapy_simhash.pages.addresses import MOST_CHARACTERS, MOST_PARTS, parse_address
from tests.helpers.urlrules import must_parse, parse_rule

pytestmark = pytest.mark.usefixtures("public_suffixes")


@pytest.mark.parametrize(
    ("url", "form"),
    [
        ("http://A.Example", "http://a.example/"),
        ("http://a.example:80/x", "http://a.example/x"),
        ("https://a.example:80/x", "https://a.example:80/x"),
        ("HTTPS://a.example:443/x#part", "https://a.example/x"),
        ("http://localhost:8000/x?", "http://localhost:8000/x"),
        ("http://[::1]:8000/x", "http://[::1]:8000/x"),
        ("http://a.example/x?b=2&a=1&&c", "http://a.example/x?a=1&b=2&c="),
        ("http://a.example?a=1", "http://a.example/?a=1"),
        ("http://a.example//x/./y", "http://a.example//x/./y"),
        ("http://a.example/%zz?%=%", "http://a.example/%zz?%=%"),
        ("http://a.example/http://b.example/", "http://a.example/http://b.example/"),
        ("http://bücher.example/x", "http://xn--bcher-kva.example/x"),
        ("http://xn--bcher-kva.example/x", "http://xn--bcher-kva.example/x"),
    ],
)
def test_an_address_is_written_one_way(url: str, form: str) -> None:
    assert must_parse(url) == must_parse(form)


@pytest.mark.parametrize(
    "url",
    [
        *("", "x", "ftp://a.example/x", "mailto:a@b.example", "data:text/html,x", "http:///x"),
        *("http://me@a.example/", "http://me:secret@a.example/", "http://a.example\\@b.example/"),
        *(
            "http://[::1/x",
            "http://a b.example/",
            "http://a.example:x/",
            "http://a.example:123456/",
        ),
        "http://a.example/" + "x" * MOST_CHARACTERS,
        "http://a.example/" + "/" * MOST_PARTS,
        "http://a.example/?" + "&".join(f"p{number}=" for number in range(10_000)),
        "http://" + "ü" * 100 + ".example/",
    ],
)
def test_an_address_that_no_rule_may_judge(url: str) -> None:
    assert parse_address(url) is None


@pytest.mark.parametrize(
    ("rule", "url", "form"),
    [
        ("drop-parameters print=1", "/x?print=1&a=2", "/x?a=2"),
        ("drop-parameters print=1", "/x?print=2", None),
        ("drop-parameters sid", "/x?sid=1&sid=2&side=3", "/x?side=3"),
        ("drop-parameters sid", "/x?sid", "/x"),
        ("drop-parameters CFID CFTOKEN", "/x?CFID=1&CFTOKEN=2&a=3", "/x?a=3"),
        ("drop-parameters CFID CFTOKEN", "/x?CFID=1", None),
        ("drop-segments 0 mirror", "/mirror/x", "/x"),
        ("drop-segments 0 mirror", "/x/mirror/y", None),
        ("drop-segments 0 mirror", "/mirror", "/"),
        ("drop-segments 1 print", "/x/print/y/print", "/x/y/print"),
        ("drop-segments 1 amp", "/x/amp", "/x"),
        ("drop-segments 2 a b", "/a/c/a/b/d", "/a/c/d"),
    ],
)
def test_what_a_rule_does(rule: str, url: str, form: str | None) -> None:
    address = must_parse(f"http://a.example{url}")
    changed = parse_rule(f"a.example {rule}").apply(address)
    assert changed == must_parse(f"http://a.example{url if form is None else form}")


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
        (
            "drop-segments 2 page 1",
            "/tag/*/",
            {"/tag/a/page/1/": "/tag/a/"},
            "/tag/page/1/a/",
        ),
        ("drop-segments 2 amp", "/d/*", {"/d/x/amp": "/d/x"}, "/d/x/amp/y"),
    ],
)
def test_it_does_what_a_rule_does_where_that_is_proven(
    tmp_path: Path, rule: str, directory: str, changed: dict[str, str], left: str
) -> None:
    path, proven = (
        tmp_path / "rules.json",
        FoundRule(parse_rule(f"a.example {rule}"), (), [directory]),
    )
    path.write_text(json.dumps(list_discarder_rules([proven])))
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
