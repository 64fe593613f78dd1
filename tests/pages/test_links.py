"""Samples of links: what they say is new, compared with all links."""

import pytest
import xxhash
from hypothesis import example, given
from hypothesis import strategies as st

from scrapy_simhash.pages.addresses import join_url
from scrapy_simhash.pages.links import SAMPLE_LINKS, read_links, share_of_new_links

URL = "http://site.example/folder/page.html"


def sketch_links(links: list[str], url: str) -> bytes:
    return read_links(links, url)[0]


def sample(*numbers: int) -> bytes:
    return sketch_links([f"/page/{number}" for number in numbers], URL)


def hashes(numbers: set[int]) -> set[int]:
    """Hash all links, not a sample."""
    return {
        xxhash.xxh32_intdigest(f"http://site.example/page/{number}".encode()) for number in numbers
    }


ranges = st.tuples(st.integers(0, 600), st.integers(0, 600)).map(
    lambda drawn: set(range(drawn[0], sum(drawn)))
)


@given(ranges, ranges)
@example(set(range(5)), set(range(500)))
@example(set(), set())
@example({1}, set())
def test_of_pages_with_many_links_those_that_can_be_told_are_counted(
    page: set[int], other: set[int]
) -> None:
    """Below the largest hash of every full sample nothing is missed."""
    largest = [
        sorted(hashes(each))[SAMPLE_LINKS - 1]
        for each in (page, other)
        if len(each) >= SAMPLE_LINKS
    ]
    below = {value for value in hashes(page) if value <= min(largest, default=2**32)}
    expected = len(below - set(hashes(other))) / len(below) if below else None
    share = share_of_new_links(sample(*page), sample(*other))
    assert share == (None if expected is None else pytest.approx(expected))


def test_links_are_the_same_however_they_are_written() -> None:
    written = [
        "/page/1",
        "../page/1",
        " http://site.example/page/1 ",
        "/page/1#part",
        "//site.example/page/1",
    ]
    assert {sketch_links([link], URL) for link in written} == {sample(1)}
    assert sketch_links(written, URL) == sample(1)
    assert sketch_links(["/page/2", "/page/1"], URL) == sample(1, 2)


HOSTILE = ["http://[", "//[::1", "http://a:b:c/", "\0", "\n\t", "http://\uff03/", "?" * 9_000]
HOSTILE += ["//\u2100"]
hrefs = st.sampled_from(HOSTILE) | st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
hrefs |= st.text("htp:/[]#?@%&\\.\0\n ", max_size=12).map("http:".__add__)


@given(st.lists(hrefs, max_size=8), hrefs)
@example(HOSTILE, "")
@example(HOSTILE, URL)
@example(["a"], "http://[")
def test_no_link_breaks_it(links: list[str], url: str) -> None:
    made = sketch_links(links, url)
    assert len(made) <= 4 * len(links)
    assert made == sketch_links(links[::-1], url)
    assert share_of_new_links(made, made) == (0.0 if made else None)


LINKS = ["/", "a", "/a", "/a/b?c=d#e", "//other.example/x", "b/c.html", "./a", "../a", "/a/./b"]
LINKS += ["?q=1", "#top", "ftp://f.example/", "HTTP://Site.example/", "a:b", "x y", "/x y", "a\\b"]
LINKS += ["", " ", "#", "javascript:void(0)", "JavaScript:go()", "data:,x"]
LINKS += ["mailto:a@b", "Tel:1", " /a ", "/[a]", "ä", "/a/../b", ".", "..", ".a", "a;b=c/d"]


@pytest.mark.parametrize("url", [URL, "https://site.example", "http://site.example/a?b=/c/d"])
@pytest.mark.parametrize("link", LINKS)
def test_links_are_resolved_as_by_urljoin(link: str, url: str) -> None:
    bare = link.strip().partition("#")[0]
    if bare.lower().startswith(("javascript:", "mailto:", "tel:", "data:")):
        bare = ""
    absolute = bare.startswith(("http://", "https://"))
    target = bare if absolute or not bare else join_url(url, bare)
    assert sketch_links([link], url) == (sketch_links([target], url) if target else b"")


@pytest.mark.parametrize(
    ("link", "target"), [("//", "http://"), ("a//b", "http://site.example/folder/a//b")]
)
def test_links_that_stay_as_written(link: str, target: str) -> None:
    """`urljoin` takes empty parts out, by version; what stores hold of links must not change."""
    assert sketch_links([link], URL) == xxhash.xxh32_digest(target.encode())
