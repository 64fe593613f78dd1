"""Addresses that may be broken."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash.pages import addresses

A = "http://a.example"
BROKEN = "http://[::1/x"


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://User@WWW.Site.Example:80/x", "site.example"),
        *(("http://[::1]:80/x", "::1"), ("mailto:x", ""), ("", ""), (BROKEN, "")),
    ],
)
def test_host(url: str, host: str) -> None:
    assert addresses.host_of(url) == host


def test_broken_addresses_raise_nothing() -> None:
    assert addresses.split_url(BROKEN) is None
    assert addresses.join_url(BROKEN, "y") == addresses.join_url(f"{A}/x", "//[::1/") == ""
    assert addresses.join_url(f"{A}/x", "y") == f"{A}/y"


@pytest.mark.parametrize(
    ("path", "segment"),
    [
        *(("", ""), ("/", ""), ("/index.html", ""), ("/a/x", "x"), ("/a/x/", "x")),
        *(("/a/x.HTM", "x"), ("/a/x/index.php#part", "x"), ("/a/x.y.aspx", "x.y")),
        *(("/a/%7Ex?b=2&a=1", "~x?a=1&b=2"), ("/a/?p=1", "a?p=1"), ("/indexes.html", "indexes")),
    ],
)
def test_last_segment(path: str, segment: str) -> None:
    assert addresses.last_segment(A + path) == segment


def test_addresses_that_nobody_judges_have_a_segment_of_their_own() -> None:
    assert (addresses.last_segment(BROKEN), addresses.form_of(BROKEN)) == (BROKEN, "")


@pytest.mark.parametrize(
    ("path", "form"),
    [
        *(("/", ""), ("/Case/4017/?x", "case/0?x"), ("/case-5.html", "case-0.html")),
        ("/about/index.html?a=1&a=2&b=3", "about?a&b"),
        ("/p/3f2a9c/550e8400-e29b-41d4-a716-446655440000", "p/*/*"),
        *(("/2026/11/a-title-of-words;sid=5", "0/0/*"), ("/wiki/fire", "wiki/fire")),
    ],
)
def test_form(path: str, form: str) -> None:
    assert addresses.form_of(A + path) == form


@given(st.integers(0, 2 * addresses.MOST_CHARACTERS), st.integers(0, 2**64 - 1))
def test_long_addresses_are_cut_once(length: int, seed: int) -> None:
    url = (f"{A}/" + "é" * length)[: max(length, 17)]
    cut = addresses.bound_url(url, seed)
    assert len(cut) < addresses.MOST_CHARACTERS + 100
    assert addresses.bound_url(cut, seed) == cut
    if cut == url:
        assert len(url) < addresses.MOST_CHARACTERS + 100
    else:
        assert cut.startswith(url[: addresses.MOST_CHARACTERS])
        assert addresses.bound_url(f"{url}?", seed) != cut != addresses.bound_url(url, seed ^ 1)
        assert addresses.parse_address(cut) is None
