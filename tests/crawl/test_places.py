"""What is known of links: those that were seen, and those of places that have the same pages."""

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash.crawl.links import SeenLinks
from scrapy_simhash.crawl.places import Places
from scrapy_simhash.judging.rows import Link
from scrapy_simhash.pages.links import DIGESTS, digest_link, read_links

A = "http://a.example"


def learn(
    pairs: Iterable[tuple[str, str]], kept: Iterable[str] = (), seen: Iterable[str] = ()
) -> Places:
    """Make places of pairs of paths: dropped page, original."""
    known = SeenLinks()
    for path in seen:
        known.add_url(A + path)
    places = Places(known)
    for path in kept:
        places.add_page(A + path)
    for page, original in pairs:
        places.add_near_duplicate(A + page, A + original)
    return places


def list_known(places: Places, page: str, original: str, *links: str) -> list[str]:
    found = [Link(A + link, A + page, original=A + original) for link in links]
    places.recount(found)
    return [url.removeprefix(A) for url in places.list_known(found, None)]


def mirror(count: int, place: str = "/mirror", original: str = "") -> list[tuple[str, str]]:
    return [(f"{place}/{number}", f"{original}/{number}") for number in range(count)]


SEEN = ["/a", "/b/c"]
LINKS = ["/mirror/a", "/mirror/b/c", "/mirror/only", "/d"]
EXPLAINED = ["/mirror/a", "/mirror/b/c"]


def test_three_pages_prove_a_mirror() -> None:
    """Whichever of the two came first, and for links on other pages as well."""
    assert list_known(learn(mirror(2), seen=SEEN), *mirror(1)[0], *LINKS) == []
    turned = [(original, page) for page, original in mirror(2)]
    for pairs in (mirror(3), [*turned, *mirror(5)[4:]]):
        for page, original in (mirror(1)[0], ("/elsewhere", "/another")):
            assert list_known(learn(pairs, seen=SEEN), page, original, *LINKS) == EXPLAINED


def test_two_places_of_different_pages_are_no_mirrors() -> None:
    """Of pages under both, one in four may be missed as a near-duplicate."""
    kept = [path for pair in mirror(8)[3:] for path in pair]
    assert list_known(learn(mirror(3), kept, SEEN), *mirror(1)[0], *LINKS) == []
    assert list_known(learn(mirror(3), kept[:2], SEEN), *mirror(1)[0], *LINKS) == EXPLAINED
    # Of pages under one of them nobody knows whether the other has them.
    alone = [f"/mirror/alone/{number}" for number in range(9)]
    assert list_known(learn(mirror(3), alone, SEEN), *mirror(1)[0], *LINKS) == EXPLAINED


PRINTED = [(f"/{number}?print=1", f"/{number}") for number in range(3)]


@pytest.mark.parametrize("pairs", [PRINTED, [pair[::-1] for pair in PRINTED]])
def test_print_views_of_known_pages_are_known(pairs: list[tuple[str, str]]) -> None:
    places = learn(pairs, seen=SEEN)
    links = ["/a?print=1", "/b/c?x=1&print=2", "/b/c?print=3", "/d?print=1", "/a?y=1"]
    assert list_known(places, "/x", "/y", *links) == ["/a?print=1", "/b/c?print=3"]


def test_pages_of_a_list_are_not_its_print_views() -> None:
    """They lead to something new, and so does the next one, of which only one of them tells."""
    pages = [f"/list?page={number}" for number in range(2, 6)]
    places = learn([(page, "/list") for page in pages], seen=["/list"])
    found = [Link(f"{A}/item/{page}", A + page, original=f"{A}/list") for page in pages]
    found.append(Link(f"{A}/list?page=6", A + pages[-1], original=f"{A}/list"))
    places.recount(found)
    assert places.list_known(found, None) == []
    # Without items that nobody knows, there is nothing to be found on them.
    places.recount(found[-1:])
    assert places.list_known(found[-1:], None) == [f"{A}/list?page=6"]


def test_a_session_that_changes_with_every_page_is_seen_through() -> None:
    pairs = [(f"/{number}?sid={number}", f"/{number}?sid=9{number}") for number in range(4)]
    places = learn(pairs, kept=["/a?sid=77", "/b?x=1&sid=78"])
    links = ["/a?sid=5", "/b?x=1&sid=6", "/b?x=2&sid=7"]
    assert list_known(places, *pairs[0], *links) == links[:2]


@given(st.lists(st.integers(0, 300)), st.lists(st.integers(0, 300)))
def test_what_was_seen_is_known_and_nothing_else(seen: list[int], asked: list[int]) -> None:
    """Of so few, none is forgotten."""
    known = SeenLinks()
    _, listed = read_links([f"/{number}" for number in seen], A)
    known.add(listed.digests)
    digests = np.array([digest_link(f"{A}/{number}") for number in asked], DIGESTS).tobytes()
    new = known.find_new(digests)
    assert [asked[place] for place in new] == [number for number in asked if number not in seen]
    assert all((f"{A}/{number}" in known) == (number in seen) for number in asked)
