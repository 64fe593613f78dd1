"""Places that mirror each other, by the addresses of near-duplicates."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash.inspection.report.figures import Mirrors
from scrapy_simhash.pages.places import find_places

A = "http://a.example"


@pytest.mark.parametrize(
    ("url", "original", "places"),
    [
        (f"{A}/mirror/x.html", f"{A}/x.html", (f"{A}/mirror/*", f"{A}/*")),
        (f"{A}/15/x.html", f"{A}/17/x.html", (f"{A}/15/*", f"{A}/17/*")),
        (f"{A}/en/15/a/x", f"{A}/de/17/a/x", (f"{A}/en/15/*", f"{A}/de/17/*")),
        ("http://b.example/x", f"{A}/x", ("http://b.example/*", f"{A}/*")),
        ("https://a.example/x", f"{A}/x", ("https://a.example/*", f"{A}/*")),
        ("http://b.example/", f"{A}/", ("http://b.example/*", f"{A}/*")),
        (f"{A}/x?print=1", f"{A}/x", (f"{A}/*?print=*", f"{A}/*")),
        (f"{A}/x?sid=1", f"{A}/x?sid=2", (f"{A}/*?sid=*", f"{A}/*?sid=*")),
        (f"{A}/mirror/x?a=1", f"{A}/x?a=2", (f"{A}/mirror/*", f"{A}/*")),
        (f"{A}/one/", f"{A}/two/", None),
        (f"{A}/one", f"{A}/two", None),
        (f"{A}/one", f"{A}/one#part", None),
        ("http://[::1/x", f"{A}/x", None),
        (f"{A}/m/{'x' * 3000}", f"{A}/{'x' * 3000}", None),
    ],
)
def test_places_of_a_pair(url: str, original: str, places: tuple[str, str] | None) -> None:
    assert find_places(url, original) == places


def test_pairs_are_counted_with_all_pages_of_their_place() -> None:
    mirrors = Mirrors()
    for number in range(5):
        mirrors.add_page(f"{A}/x{number}")
        mirrors.add_page(f"{A}/mirror/deep/x{number}")
    for number in range(4):
        mirrors.add_near_duplicate(f"{A}/mirror/deep/x{number}", f"{A}/deep/x{number}")
    for number in range(2):
        mirrors.add_near_duplicate(f"{A}/seldom/x{number}", f"{A}/x{number}")
    assert mirrors.list_largest(10) == [
        {"place": f"{A}/mirror/*", "original": f"{A}/*", "near_duplicates": 4, "pages": 5}
    ]
    assert mirrors.list_largest(0) == []


@given(st.text(), st.text())
def test_any_text_may_be_an_address(url: str, original: str) -> None:
    mirrors = Mirrors()
    mirrors.add_page(url)
    mirrors.add_near_duplicate(url, original)
    assert mirrors.list_largest(5) == []
