"""Addresses that may be broken, and links carried over to the place of another page."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scrapy_simhash.pages.addresses import (
    MOST_CHARACTERS,
    bound_url,
    carry_over,
    form_of,
    host_of,
    join_url,
    last_segment,
    parse_address,
    split_url,
)
from scrapy_simhash.pages.links import PageLinks, measure_new_links, read_links

A = "http://a.example"


@pytest.mark.parametrize(
    ("url", "original", "link", "carried"),
    [
        (f"{A}/mirror/x.html", f"{A}/x.html", f"{A}/mirror/y/z.html", f"{A}/y/z.html"),
        (f"{A}/mirror/x.html", f"{A}/x.html", f"{A}/mirror2/y", f"{A}/mirror2/y"),
        (f"{A}/x.html", f"{A}/mirror/x.html", f"{A}/y.html", f"{A}/mirror/y.html"),
        ("http://b.example/x", f"{A}/x", "http://b.example/y?z=1", f"{A}/y?z=1"),
        (f"{A}/15/x", f"{A}/17/x", f"{A}/15/y", f"{A}/17/y"),
        (f"{A}/x?print=1", f"{A}/x", f"{A}/y?print=1", f"{A}/y"),
        (f"{A}/x?print=1", f"{A}/x", f"{A}/y?a=1&print=1&b=2", f"{A}/y?a=1&b=2"),
        (f"{A}/x?sid=1", f"{A}/x?sid=2", f"{A}/y?sid=1", f"{A}/y?sid=2"),
        (f"{A}/x", f"{A}/x?sid=2", f"{A}/y?a=1", f"{A}/y?a=1&sid=2"),
        # Another page of a list, not its print view.
        (f"{A}/x?page=2", f"{A}/x", f"{A}/x?page=3", f"{A}/x?page=3"),
        (f"{A}/x?print=1", f"{A}/x", "http://b.example/?print=1", "http://b.example/?print=1"),
    ],
)
def test_links_are_carried_over(url: str, original: str, link: str, carried: str) -> None:
    carry = carry_over(url, original)
    assert carry is not None
    assert carry(link) == carried
    assert carry(url) == original


@pytest.mark.parametrize(
    ("url", "original"), [(f"{A}/one", f"{A}/two"), (f"{A}/x", f"{A}/x"), ("http://[", f"{A}/x")]
)
def test_some_pages_name_no_places(url: str, original: str) -> None:
    assert carry_over(url, original) is None


words = st.text("ab/?=&;%#1", max_size=12)


@given(words, words, words)
@example("?a", "?b", "?a&a")
def test_whatever_the_addresses(first: str, second: str, link: str) -> None:
    urls = f"{A}/{first}", f"{A}/{second}"
    carry = carry_over(*urls)
    if carry is not None:
        assert carry(f"{A}/{link}").startswith("http://")


def measure(links: list[str], url: str, seen: list[str], original: str) -> float | None:
    sample, listed = read_links(links, url)
    return measure_new_links(sample, listed, url, read_links(seen, original)[0], original)


def list_links(place: str, count: int) -> list[str]:
    return [f"{place}/{number}" for number in range(count)]


@pytest.mark.parametrize("count", [5, 400])
def test_links_of_a_mirror_are_not_new(count: int) -> None:
    original = list_links("", count)
    mirrored = measure(list_links("/mirror", count), f"{A}/mirror/x", original, f"{A}/x")
    assert mirrored == 0.0
    # Half of them are.
    more = [*list_links("/mirror", count), *list_links("/mirror/new", count)]
    share = measure(more, f"{A}/mirror/x", original, f"{A}/x")
    assert share is not None
    assert abs(share - 0.5) <= (0.2 if count > 64 else 0.0)


def test_links_of_the_next_page_of_a_list_are_new() -> None:
    first, second = list_links("/first", 5), list_links("/second", 5)
    assert measure(second, f"{A}/list?page=2", first, f"{A}/list?page=1") == 1.0
    assert measure(second, f"{A}/one", first, f"{A}/two") == 1.0


def test_links_that_name_their_own_page_or_the_original_are_not_new() -> None:
    """A login says where one wanted to go, and a print view leads back."""
    back = ["/two", "/login?next=/two", "/in?back=http%3A%2F%2Fa.example%2Ftwo&x=1"]
    assert measure(back, f"{A}/two", ["/one"], f"{A}/one") == 0.0
    assert measure([*back, "/new", "/menu"], f"{A}/two", ["/menu"], f"{A}/one") == 0.5
    assert measure(["/one"], f"{A}/two", ["/menu"], f"{A}/one") == 0.0
    sample, listed = read_links(back, f"{A}/login")
    redirected = f"{A}/login", b"", f"{A}/one"
    assert measure_new_links(sample, listed, *redirected) == 1.0
    assert measure_new_links(sample, listed, *redirected, requested=f"{A}/two") == 0.0


def test_links_that_nobody_listed_are_compared_by_their_addresses() -> None:
    sample, _ = read_links(["/mirror/1"], A)
    seen, _ = read_links(["/1"], A)
    assert measure_new_links(sample, PageLinks(), f"{A}/mirror/x", seen, f"{A}/x") == 1.0


BROKEN = "http://[::1/x"


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://User@WWW.Site.Example:80/x", "site.example"),
        ("http://[::1]:80/x", "::1"),
        ("mailto:x", ""),
        ("", ""),
        (BROKEN, ""),
    ],
)
def test_host(url: str, host: str) -> None:
    assert host_of(url) == host


def test_broken_addresses_raise_nothing() -> None:
    assert split_url(BROKEN) is None
    assert join_url(BROKEN, "y") == ""
    assert join_url("http://a.example/x", "//[::1/") == ""
    assert join_url("http://a.example/x", "y") == "http://a.example/y"


@pytest.mark.parametrize(
    ("path", "segment"),
    [
        ("", ""),
        ("/", ""),
        ("/index.html", ""),
        ("/a/x", "x"),
        ("/a/x/", "x"),
        ("/a/x.HTM", "x"),
        ("/a/x/index.php#part", "x"),
        ("/a/x.y.aspx", "x.y"),
        ("/a/%7Ex?b=2&a=1", "~x?a=1&b=2"),
        ("/a/?p=1", "a?p=1"),
        ("/indexes.html", "indexes"),
    ],
)
def test_last_segment(path: str, segment: str) -> None:
    assert last_segment(A + path) == segment


def test_addresses_that_nobody_judges_have_a_segment_of_their_own() -> None:
    assert last_segment(BROKEN) == BROKEN
    assert form_of(BROKEN) == ""


@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("/", ""),
        ("/Case/4017/?x", "case/0?x"),
        ("/case-5.html", "case-0.html"),
        ("/about/index.html?a=1&a=2&b=3", "about?a&b"),
        ("/p/3f2a9c/550e8400-e29b-41d4-a716-446655440000", "p/*/*"),
        ("/2026/11/a-title-of-words;sid=5", "0/0/*"),
        ("/wiki/fire", "wiki/fire"),
    ],
)
def test_form(path: str, form: str) -> None:
    assert form_of(A + path) == form


@given(st.integers(0, 2 * MOST_CHARACTERS), st.integers(0, 2**64 - 1))
def test_long_addresses_are_cut_once(length: int, seed: int) -> None:
    url = (f"{A}/" + "é" * length)[: max(length, 17)]
    cut = bound_url(url, seed)
    assert len(cut) < MOST_CHARACTERS + 100
    assert bound_url(cut, seed) == cut
    if cut == url:
        assert len(url) < MOST_CHARACTERS + 100
    else:
        assert cut.startswith(url[:MOST_CHARACTERS])
        assert bound_url(f"{url}?", seed) != cut != bound_url(url, seed ^ 1)
        assert parse_address(cut) is None
