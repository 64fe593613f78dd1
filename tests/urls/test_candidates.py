"""Which rules two addresses of one page propose."""

import pytest
from hypothesis import given

from scrapy_simhash.pages.addresses import Address, format_address
from scrapy_simhash.urls.applying import apply_rule
from scrapy_simhash.urls.candidates import find_candidates
from scrapy_simhash.urls.rules import UrlRule
from tests.helpers.urlrules import draw_addresses, draw_rules, must_parse


@pytest.mark.parametrize(
    ("first", "second", "rules"),
    [
        # P1 and P2: a value that is a switch, one that is a session, one that is another.
        ("/x?print=1", "/x", ["drop-value print=1", "drop-parameter print"]),
        ("/x?sid=0123456789abcdef0", "/x", ["drop-parameter sid"]),
        ("/x?page=1", "/x?page=2", ["drop-parameter page"]),
        # P3: together, or not at all.
        ("/x?CFID=1&CFTOKEN=2", "/x", ["drop-parameters CFID CFTOKEN"]),
        ("/x?CFID=1&CFTOKEN=2", "/x?CFID=3&CFTOKEN=4", ["drop-parameters CFID CFTOKEN"]),
        ("/x?CFID=1&CFTOKEN=2", "/x?CFID=3", []),
        ("/x?a=1", "/x?b=1", []),
        ("/x?a=1&b=1&c=1&d=1&e=1&f=1", "/x", []),
        # P4
        ("/x;jsessionid=1", "/x", ["drop-matrix jsessionid"]),
        ("/x;jsessionid=1/y;jsessionid=1", "/x/y", ["drop-matrix jsessionid"]),
        ("/x;a=1;b=2", "/x", []),
        ("/(S(q1))/x", "/x", ["drop-session"]),
        ("/(S(q1))/x", "/(S(q2))/x", ["drop-session"]),
        # P5
        ("/x/", "/x", ["strip-slash"]),
        ("/x/index.html", "/x/", ["strip-index index.html"]),
        ("/X/y", "/x/y", ["fold-case"]),
        ("/x?a=1&a=1", "/x?a=1", ["drop-repeated"]),
        # P6
        ("http://www.a.org/x", "http://a.org/x", ["www.a.org host-alias a.org"]),
        ("http://a.example/x", "https://a.example/x", ["a.example use-https"]),
        (
            "http://m.a.org/x",
            "https://a.org/x",
            ["m.a.org host-alias https://a.org"],
        ),
        (
            "http://localhost:8000/x",
            "http://localhost:80/x",
            ["localhost:8000 host-alias localhost"],
        ),
        ("http://b.example/x", "http://a.example/y", []),
        # P7
        ("/mirror/x", "/x", ["drop-leading mirror"]),
        ("/docs/print/x", "/docs/x", ["drop-segments print"]),
        ("/a/b/x", "/x", ["drop-leading a b"]),
        ("/x/amp", "/x", ["drop-segments amp"]),
        ("/x/4711", "/x", []),
        ("/a/b/c/d/e/x", "/x", []),
        ("/15/x", "/17/x", []),
        ("http://a.co.uk/x", "http://b.co.uk/x", []),
        ("http://m.a.co.uk/x", "http://a.co.uk/x", ["m.a.co.uk host-alias a.co.uk"]),
        ("/x/1", "/x/2", []),
        ("/x/1/", "/x/2/", []),
        ("/15/a/x", "/17/b/x", []),
        # Neither: both parts differ, broken, with an account, the same.
        ("/print/x?a=1", "/x", []),
        ("http://[", "/x", []),
        ("http://me@a.example/x?sid=1", "/x", []),
        ("/x", "/x#part", []),
    ],
)
def test_what_two_addresses_propose(first: str, second: str, rules: list[str]) -> None:
    urls = [url if url.startswith("http") else f"http://a.example{url}" for url in (first, second)]
    for pair in (urls, urls[::-1]):
        found = [rule.text for rule in find_candidates(*pair)]
        assert found == [
            rule if "host-alias" in rule or "use-https" in rule else f"a.example {rule}"
            for rule in rules
        ]


def test_a_canonical_address_decides_what_is_left() -> None:
    hosts = "http://www.a.org/x", "http://a.org/x"
    (rule,) = find_candidates(*hosts, "http://www.a.org/y")
    assert rule.text == "a.org host-alias www.a.org"


@given(draw_addresses(), draw_rules())
def test_whatever_is_proposed_makes_one_of_two(address: Address, rule: UrlRule) -> None:
    form = apply_rule(rule, address)
    first, second = format_address(address), format_address(form)
    for candidate in find_candidates(first, second):
        both = map(must_parse, (first, second))
        forms = {
            apply_rule(candidate, each) if each.host == candidate.host else each for each in both
        }
        assert len(forms) == 1
