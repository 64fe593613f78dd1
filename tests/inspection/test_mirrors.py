"""Places that mirror each other, by the addresses of near-duplicates."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash.detector.log import Decision
from scrapy_simhash.inspection.report.figures import Figures
from scrapy_simhash.pages.addresses import find_places

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


def count(pages: Iterable[str], near_duplicates: Iterable[tuple[str, str]]) -> list[dict[str, Any]]:
    """Count pages, and near-duplicates among them; gives the report's mirrors."""
    figures = Figures()
    for url in pages:
        figures.add(Decision(url=url, status="new"))
    for url, original in near_duplicates:
        figures.add(Decision(url=url, status="near_duplicate", match_url=original))
    mirrors: list[dict[str, Any]] = figures.describe()["mirrors"]
    return mirrors


def test_pairs_are_counted_with_all_pages_of_their_place() -> None:
    pages = [f"{A}/x0", f"{A}/mirror/deep/x4"]
    copies = [(f"{A}/mirror/deep/x{number}", f"{A}/deep/x{number}") for number in range(4)]
    seldom = [(f"{A}/seldom/x{number}", f"{A}/x{number}") for number in range(2)]
    assert count(pages, [*copies, *seldom]) == [
        {"place": f"{A}/mirror/*", "original": f"{A}/*", "near_duplicates": 4, "pages": 5}
    ]


@given(st.text(), st.text())
def test_any_text_may_be_an_address(url: str, original: str) -> None:
    assert count([url], [(url, original)]) == []
