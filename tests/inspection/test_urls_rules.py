"""What rules do to addresses, against what each kind says in words."""

import pytest

from scrapy_simhash.inspection.urlrules import find_directory
from scrapy_simhash.pages.addresses import MOST_CHARACTERS, MOST_PARTS, parse_address
from tests.helpers.urlrules import must_parse, parse_rule


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
