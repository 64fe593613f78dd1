"""What rules do to addresses, against what each kind says in words."""

from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash.judging.documents import Reader
from scrapy_simhash.pages.addresses import (
    MOST_CHARACTERS,
    MOST_PARTS,
    Address,
    format_address,
    parse_address,
)
from scrapy_simhash.urls.applying import (
    MOST_STEPS,
    ActingRules,
    apply_rule,
    find_directory,
    name_form,
)
from scrapy_simhash.urls.rules import ActingRule, RuleKind, UrlRule, parse_rule
from tests.helpers.urlrules import draw_addresses, draw_rules, must_parse


def act(*texts: str) -> ActingRules:
    """Let rules act everywhere."""
    return ActingRules(ActingRule(parse_rule(text)) for text in texts)


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
    address = must_parse(url)
    assert format_address(address) == form
    assert parse_address(form) == address


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
    acting = act("a.example drop-parameter p1")
    assert acting.find_target(url) is None
    assert acting.find_form(url) == ""


@pytest.mark.parametrize(
    ("rule", "url", "form"),
    [
        ("drop-value print=1", "/x?print=1&a=2", "/x?a=2"),
        ("drop-value print=1", "/x?print=2", None),
        ("drop-parameter sid", "/x?sid=1&sid=2&side=3", "/x?side=3"),
        ("drop-parameter sid", "/x?sid", "/x"),
        ("drop-parameters CFID CFTOKEN", "/x?CFID=1&CFTOKEN=2&a=3", "/x?a=3"),
        ("drop-parameters CFID CFTOKEN", "/x?CFID=1", None),
        ("drop-matrix jsessionid", "/x;jsessionid=1;v=2/y;jsessionid=1", "/x;v=2/y"),
        ("drop-session", "/(S(4tyb0x))/x", "/x"),
        ("drop-session", "/(A(x)S(y))/x", "/x"),
        ("drop-session", "/(S(4tyb0x))", "/"),
        ("drop-session", "/f(x)/y", None),
        ("strip-slash", "/x/", "/x"),
        ("strip-slash", "/", None),
        ("strip-index index.html", "/x/index.html", "/x/"),
        ("strip-index index.html", "/index.html/x", None),
        ("fold-case", "/X/y?A=B", "/x/y?A=B"),
        ("drop-repeated", "/x?a=1&b=2&a=1", "/x?a=1&b=2"),
        ("drop-repeated", "/x?a=1&a=2", None),
        ("host-alias b.example", "/x?a=1", "http://b.example/x?a=1"),
        ("host-alias https://b.example", "/x", "https://b.example/x"),
        ("use-https", "/x", "https://a.example/x"),
        ("drop-leading mirror", "/mirror/x", "/x"),
        ("drop-leading mirror", "/x/mirror/y", None),
        ("drop-leading mirror", "/mirror", "/"),
        ("drop-segments print", "/x/print/y/print", "/x/y/print"),
        ("drop-segments amp", "/x/amp", "/x"),
        ("drop-segments a b", "/a/c/a/b/d", "/a/c/d"),
    ],
)
def test_what_a_rule_does(rule: str, url: str, form: str | None) -> None:
    address = must_parse(f"http://a.example{url}")
    changed = apply_rule(parse_rule(f"a.example {rule}"), address)
    if form is None:
        assert changed is address
    else:
        expected = form if "://" in form else f"http://a.example{form}"
        assert format_address(changed) == expected
    target = act(f"a.example {rule}").find_target(f"http://a.example{url}")
    # What is to be changed again leads nowhere.
    again = "print/y/print" in url
    assert (target.form if target else None) == (None if form is None or again else expected)


@pytest.mark.parametrize(
    ("path", "directory"),
    [
        ("/", "/"),
        ("/article?id=1", "/*"),
        ("/p.html", "/*.html"),
        ("/p.v2.html;x=1", "/*.html"),
        ("/p.longer", "/*"),
        ("/tag/love/", "/tag/*/"),
        ("/tag/love/page/", "/tag/*/*/"),
        ("/2.4/en/mod/core.html", "/2.4/*/*/*.html"),
    ],
)
def test_the_directory_of_an_address(path: str, directory: str) -> None:
    assert find_directory(must_parse(f"http://a.example{path}")) == directory


def test_a_rule_acts_in_its_directories_only() -> None:
    rule = parse_rule("a.example drop-parameter sid")
    acting = ActingRules([ActingRule(rule, ("/*.html", "/a/*"))])
    found = [
        target.directory if (target := acting.find_target(f"http://a.example{path}?sid=1")) else ""
        for path in ("/x.html", "/x", "/a/x", "/a/b/x", "/")
    ]
    assert found == ["/*.html", "", "/a/*", "", ""]
    assert acting.pinned == set()


@given(draw_addresses(), draw_rules())
def test_a_rule_leads_to_one_form_and_takes_something_away(address: Address, rule: UrlRule) -> None:
    form = apply_rule(rule, address)
    if form is address:
        return
    assert form != address
    assert parse_address(format_address(form)) == form
    assert len(form.path) <= len(address.path)
    assert len(form.query) <= len(address.query)
    if rule.kind in {RuleKind.DROP_PARAMETER, RuleKind.STRIP_INDEX, RuleKind.FOLD_CASE}:
        assert apply_rule(rule, form) is form
    assert urlsplit(format_address(form)).path.startswith("/")


@given(draw_addresses(), st.lists(draw_rules(), max_size=8))
def test_a_chain_comes_to_an_end_or_is_not_followed(address: Address, rules: list[UrlRule]) -> None:
    acting = ActingRules(map(ActingRule, {rule.key: rule for rule in rules}.values()))
    by_id = {rule.id: rule for rule in rules}
    url = format_address(address)
    target = acting.find_target(url)
    if target is None:
        assert acting.find_form(url) in {"", url}
        return
    assert len(target.rules) <= MOST_STEPS
    for name in target.rules:
        changed = apply_rule(by_id[name], address)
        assert changed is not address
        address = changed
    assert format_address(address) == target.form == acting.find_form(url)
    assert acting.find_target(target.form) is None


def test_rules_that_undo_each_other_lead_nowhere() -> None:
    rules = ["a.example host-alias b.example", "b.example host-alias a.example"]
    assert act(*rules).find_target("http://a.example/x") is None


def test_a_chain_goes_over_to_the_rules_of_another_host() -> None:
    rules = ["m.a.example host-alias a.example", "a.example drop-parameter sid"]
    acting = act(*rules)
    target = acting.find_target("http://m.a.example/x?sid=1")
    assert target is not None
    assert target.form == "http://a.example/x"
    assert target.rules == tuple(parse_rule(rule).id for rule in rules)
    assert list(acting.texts.values()) == rules


def test_five_steps_are_not_taken() -> None:
    rules = [f"a.example drop-parameter p{number}" for number in range(MOST_STEPS + 1)]
    acting = act(*rules)

    def take(parameters: int) -> bool:
        query = "&".join(f"p{number}=" for number in range(parameters))
        return acting.find_target(f"http://a.example/?{query}") is not None

    assert (take(MOST_STEPS), take(MOST_STEPS + 1)) == (True, False)


def test_pages_have_a_form_where_their_host_has_rules_or_an_alias_leads_there() -> None:
    acting = act("m.a.example host-alias a.example")
    assert acting.find_form("http://m.a.example/x") == "http://a.example/x"
    assert acting.find_form("http://a.example/x?b=1&a=2") == "http://a.example/x?a=2&b=1"
    assert acting.find_form("http://b.example/x") == ""
    readers = [Reader(spider, callback) for spider in "st" for callback in "cd"]
    names = {name_form(form, reader) for form in ("http://a/", "http://b/") for reader in readers}
    assert len(names) == 8
