"""Files of URL rules: what is none is refused, what is one comes back as it was."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from w3lib.url import canonicalize_url

from scrapy_simhash.inspection.rulefiles import make_apply, read_rule_file, write_lines
from scrapy_simhash.urls.rules import ActingRule, RuleKind, UrlRule, parse_rule


def write(folder: Path, content: str | bytes | list[Any]) -> Path:
    path = folder / "rules"
    text = json.dumps(content) if isinstance(content, list) else content
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def parse(*texts: str) -> list[UrlRule]:
    return [parse_rule(text) for text in texts]


def discarding(processor: str, args: list[Any], *include: str, **more: Any) -> dict[str, Any]:
    pattern = {"include": list(include), **more}
    return {"order": 0, "processor": processor, "args": args, "urlPattern": pattern}


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "has no rule; write one a line"),
        ("\ufeff  \n# nothing\n", "has no rule"),
        ("[]", "has no rule: it is an empty array"),
        (b"\x89PNG\r\n\x1a\n\x00", "is no text in UTF-8 .byte 0."),
        ("<html><body>Rules</body></html>", "line 1: URL rule '<html><body>Rules"),
        ("example.com drop-parameter sid\nexample.com drop-everything", "line 2: URL rule"),
        ("example.com drop-parameter", "takes 1 arguments, got 0"),
        ("{}", "has no rule: it is an empty array"),
        ('{"order": 1}', "has no rules that duplicate-url-discarder can read"),
        ('{"rules": [1', "is no JSON"),
        ("[" * 100_000, "has no rules that duplicate-url-discarder can read"),
        ("[1]", "has no rules that duplicate-url-discarder can read"),
        ([discarding("nothing", [], "a.example")], "has no rules that duplicate-url-discarder"),
        (
            "m.example.com host-alias example.com\nm.example.com host-alias example.org",
            "two rules contradict each other: 'm.example.com host-alias example.com' and ",
        ),
        ("a.example host-alias a.example", "leads to its own host"),
        (
            "".join(f"{a}.example host-alias {b}.example\n" for a, b in ("ab", "bc", "ca")),
            "rules lead in a circle: 'a.example host-alias b.example', 'b.example",
        ),
        (
            "".join(f"a{n}.example host-alias a{n + 1}.example\n" for n in range(5)),
            "a chain has more than 4 steps: 'a0.example host-alias a1.example', ",
        ),
    ],
)
def test_what_is_no_file_of_rules_is_refused(tmp_path: Path, content: Any, complaint: str) -> None:
    path = write(tmp_path, content)
    with pytest.raises(ValueError, match=complaint) as raised:
        read_rule_file(path)
    assert str(raised.value).startswith(f"{path}: ")
    assert len(str(raised.value)) < 700


def test_a_file_that_is_too_large_is_not_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrapy_simhash.inspection.rulefiles._MOST_BYTES", 100)
    path = write(tmp_path, "a.example strip-slash\n" * 6)
    with pytest.raises(ValueError, match="is larger than 100 bytes"):
        read_rule_file(path)


@pytest.mark.parametrize(
    "lines",
    [
        "a.example host-alias b.example\nb.example host-alias c.example",
        "a.example drop-parameter a\na.example drop-parameter b",
        "a.example use-https\na.example strip-slash",
    ],
)
def test_chains_and_rules_that_agree_are_no_mistake(tmp_path: Path, lines: str) -> None:
    read = read_rule_file(write(tmp_path, lines))
    assert (read.number, read.foreign) == (2, False)


def test_comments_blank_lines_and_repeated_rules(tmp_path: Path) -> None:
    text = "\n# a list\na.example strip-slash \r\n\n  # of one\na.example strip-slash\n"
    assert read_rule_file(write(tmp_path, text)).rules == tuple(parse("a.example strip-slash"))


def test_a_chain_is_followed_to_its_end(tmp_path: Path) -> None:
    path = write(tmp_path, "a.example host-alias b.example\nb.example drop-parameter sid\n")
    form, changed = read_rule_file(path).apply("http://a.example/x?sid=1&b=2")
    assert form == "http://b.example/x?b=2"
    assert changed == ("a.example host-alias b.example", "b.example drop-parameter sid")


def test_an_address_that_no_rule_changes_is_written_as_forms_are() -> None:
    apply = make_apply(map(ActingRule, parse("a.example drop-parameter sid")))
    assert apply("http://A.example?b=2&a=1")[0] == apply("http://a.example/?a=1&b=2&sid=7")[0]
    assert apply("http://a.example/?b=2&a=1")[1] == ()
    assert apply("mailto:someone") == ("mailto:someone", ())


words = st.text("abcxyz019-_.~é%# ", min_size=1, max_size=6)
hosts = st.sampled_from(["a.example", "www.a.example", "b.example:8000", "127.0.0.1"])
pairs = st.builds("{}={}".format, words, words)
rules = st.one_of(
    st.builds(UrlRule, st.just(RuleKind.DROP_PARAMETER), hosts, st.tuples(words)),
    st.builds(UrlRule, st.just(RuleKind.DROP_VALUE), hosts, st.tuples(pairs)),
    st.builds(UrlRule, st.just(RuleKind.STRIP_SLASH), hosts),
)


@given(st.lists(rules, min_size=1, unique=True))
def test_our_files_come_back(tmp_path_factory: pytest.TempPathFactory, made: list[UrlRule]) -> None:
    path = write(tmp_path_factory.mktemp("rules"), write_lines(made))
    assert read_rule_file(path).rules == tuple(made)


THEIRS = [
    discarding("queryRemoval", ["sid"], "a.example", exclude=["a.example/shop/"]),
    discarding("queryRemoval", ["CFID", "CFTOKEN"], "a.example?CFID=&CFTOKEN="),
    discarding("subpathRemoval", [0], "a.example/mirror/"),
    discarding("queryRemovalExcept", ["page"], "b.example:8000"),
    discarding("normalizer", [], "c.example"),
]


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("dud"), THEIRS)


@pytest.fixture(scope="module")
def discard(theirs: Path) -> Callable[[str], str]:
    """Apply the rules as that package does."""
    from duplicate_url_discarder.url_canonicalizer import (  # noqa: PLC0415 - only here
        UrlCanonicalizer,
    )

    discard: Callable[[str], str] = UrlCanonicalizer([theirs]).process_url
    return discard


paths = st.lists(st.sampled_from(["mirror", "old", "shop", "x"]), max_size=3).map("/".join)
queries = st.lists(
    st.sampled_from(
        [
            *("sid=1", "sid=", "ref=a", "print=1", "print=2", "lang=de", "lang=en"),
            *("CFID=1", "CFTOKEN=2", "page=2"),
        ]
    ),
    max_size=4,
    unique_by=lambda pair: pair.partition("=")[0],
).map("&".join)
urls = st.builds(
    "http://{}/{}{}?{}".format,
    st.sampled_from(["a.example", "b.example:8000", "c.example", "www.a.example", "d.example"]),
    paths,
    st.sampled_from(["", "/"]),
    queries,
)


@given(url=urls)
def test_a_file_of_that_package_is_applied_as_it_does(
    discard: Callable[[str], str], theirs: Path, url: str
) -> None:
    read = read_rule_file(theirs)
    assert (read.number, read.rules, read.foreign) == (len(THEIRS), (), True)
    form, changed = read.apply(url)
    assert form == canonicalize_url(discard(url))
    assert bool(changed) == (discard(url) != url)


def test_its_rules_need_that_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duplicate_url_discarder", None)
    path = write(tmp_path, [discarding("queryRemoval", ["sid"], "a.example")])
    with pytest.raises(ValueError, match=r"pip install 'scrapy-simhash\[discarder\]'"):
        read_rule_file(path)
