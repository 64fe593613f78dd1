"""What is known of links: those that were seen, and those that lead to the same pages."""

import asyncio
import time
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash.crawl.places import DroppedPage, KnownLinks, SeenLinks
from scrapy_simhash.pages.links import DIGESTS, digest_link, read_links

A = "http://a.example"
SEEN = ["/a", "/b/c"]
LINKS = ["/mirror/a", "/mirror/b/c", "/mirror/only", "/d"]


def drop(
    known: KnownLinks, url: str, original: str, links: Iterable[str] = (), callback: str = ""
) -> DroppedPage:
    """Drop a page with some links, of which the new ones are noted."""
    _, listed = read_links(list(links), url)
    page = DroppedPage(url, original, callback, [])
    return page._replace(links=known.list_new(listed, page))


def list_unknown(
    pairs: Iterable[tuple[str, str]], links: Iterable[str], seen: Iterable[str] = SEEN
) -> list[str]:
    """List what is unknown of the links of the first of some pages, each with its original."""
    known = KnownLinks()
    for path in seen:
        known.add_page(A + path)
    for page, original in reversed(list(pairs)):
        found = drop(known, A + page, A + original, links)
    return [url.removeprefix(A) for url in list_left(known, found)]


def list_left(known: KnownLinks, *pages: DroppedPage) -> list[str]:
    new, _ = known.sort(pages)
    return [link for page in new for link in page.links]


def mirror(count: int, place: str = "/mirror") -> list[tuple[str, str]]:
    return [(f"{place}/{number}", f"/{number}") for number in range(count)]


def test_five_pages_prove_a_mirror() -> None:
    assert list_unknown(mirror(4), LINKS) == LINKS
    assert list_unknown(mirror(5), LINKS) == ["/mirror/only", "/d"]


PRINTED = [(f"/{number}?print=1", f"/{number}") for number in range(5)]


@pytest.mark.parametrize("pairs", [PRINTED, [pair[::-1] for pair in PRINTED]])
def test_print_views_of_known_pages_are_known(pairs: list[tuple[str, str]]) -> None:
    links = ["/a?print=1", "/b/c?x=1&print=1", "/b/c?print=3", "/d?print=1", "/a?y=1"]
    known = KnownLinks()
    for path in SEEN:
        known.add_page(A + path)
    for page, original in pairs:
        assert drop(known, A + page, A + original, [A + "/a"]).links == []
    urls = [A + link for link in links]
    left = list_left(known, DroppedPage(f"{A}/x", f"{A}/y", "", urls))
    assert left == [A + link for link in ("/b/c?x=1&print=1", "/d?print=1", "/a?y=1")]


def test_pages_of_a_list_are_not_its_print_views() -> None:
    """They lead to something new, and so does the next one, of which only one of them tells."""
    known = KnownLinks()
    known.add_page(f"{A}/list", "a text")
    pages = []
    for number in range(2, 8):
        url, original = f"{A}/list?page={number}", f"{A}/list"
        links = [f"/item/{number}", f"/list?page={number + 1}"]
        pages.append(drop(known, url, original, links))
    known.add_page(pages[-1].url)
    assert {f"{A}/item/2", f"{A}/list?page=8"} <= set(list_left(known, *pages))
    # Without items that nobody knows, there is nothing to be found on them.
    last = [pages[-1]._replace(links=[f"{A}/list?page=8"])]
    assert list_left(known, *last) == []


def test_a_session_that_changes_with_every_page_is_seen_through() -> None:
    known = KnownLinks()
    for path in ("/a?sid=77", "/b?x=1&sid=78"):
        known.add_page(A + path)
    links = [A + path for path in ("/a?sid=5", "/b?x=1&sid=6", "/b?x=2&sid=7")]
    for number in range(5):
        page = f"{A}/{number}?sid={number}", f"{A}/{number}?sid=9{number}"
        drop(known, *page)
    assert list_left(known, DroppedPage(*page, "", links)) == links[2:]


@given(st.lists(st.integers(0, 300)), st.lists(st.integers(0, 300)))
def test_what_was_seen_is_known_and_nothing_else(seen: list[int], asked: list[int]) -> None:
    """Of so few, none is forgotten."""
    known = SeenLinks()
    _, listed = read_links([f"/{number}" for number in seen], A)
    known.add(listed.digests, "parse")
    digests = np.array([digest_link(f"{A}/{number}") for number in asked], DIGESTS).tobytes()
    new = known.find_new(digests, "parse")
    assert [asked[place] for place in new] == [number for number in asked if number not in seen]
    assert known.find_new(digests, "parse_item") == list(range(len(asked)))
    for number in seen:
        known.add_url(f"{A}/{number}")
    assert known.find_new(digests, "parse_item") == new
    assert all(known.has(f"{A}/{number}") == (number in seen) for number in asked)


@pytest.mark.slow
async def test_fifty_thousand_links_among_fifty_mirrors_do_not_hold_the_loop() -> None:
    known = KnownLinks()
    for number in range(10_000):
        known.add_page(f"{A}/o/p{number}", "a text")
    pages = []
    for place in range(60):
        for number in range(10):
            page, original = f"{A}/m{place}/p{number}", f"{A}/o/p{number}"
            drop(known, page, original)
            drop(known, f"{original}?k{place}=1", original)
            links = [f"{A}/m{place}/new{n}?k{place}=2&z={number}" for n in range(85)]
            pages.append(DroppedPage(page, original, "", links))
    work = asyncio.ensure_future(asyncio.to_thread(known.sort, pages))
    turns, started = 0, time.process_time()  # of both threads, however busy the machine is
    while not work.done():
        await asyncio.sleep(0.001)
        turns += 1
    spent = time.process_time() - started
    new, _ = await work
    assert sum(len(page.links) for page in new) == sum(len(page.links) for page in pages)
    assert spent / turns < 0.05
