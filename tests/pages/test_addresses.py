"""Addresses that may be broken, and links of pages, as they are made absolute."""

import pytest
import xxhash
from hypothesis import example, given
from hypothesis import strategies as st

from scrapy_simhash.pages import addresses
from scrapy_simhash.pages.addresses import join_url
from scrapy_simhash.pages.facts import NO_LINKS, PageLinks
from scrapy_simhash.pages.fingerprint import read_links

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
    assert (addresses.last_segment(BROKEN), addresses.form_of(BROKEN)) == (BROKEN, "")
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


URL = "http://site.example/folder/page.html"


def test_links_are_the_same_however_they_are_written() -> None:
    written = [
        "/page/1",
        "../page/1",
        " http://site.example/page/1 ",
        "/page/1#part",
        "//site.example/page/1",
    ]
    one = b"http://site.example/page/1"
    assert {read_links([link], URL).addresses for link in written} == {one}
    assert read_links(written, URL) == PageLinks(xxhash.xxh3_64_digest(one)[::-1], one)


HOSTILE = ["http://[", "//[::1", "http://a:b:c/", "\0", "\n\t", "http://\uff03/", "?" * 9_000]
HOSTILE += ["//\u2100"]
hrefs = st.sampled_from(HOSTILE) | st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
hrefs |= st.text("htp:/[]#?@%&\\.\0\n ", max_size=12).map("http:".__add__)


@given(st.lists(hrefs, max_size=8), hrefs)
@example(HOSTILE, "")
@example(HOSTILE, URL)
@example(["a"], "http://[")
def test_no_link_breaks_it(links: list[str], url: str) -> None:
    made = read_links(links, url)
    listed = made.addresses.split(b"\n") if made.digests else []
    assert len(made.digests) == 8 * len(listed) <= 8 * len(links)
    assert {*read_links(links[::-1], url).addresses.split(b"\n")} - {b""} == {*listed}


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
    assert read_links([link], url) == (read_links([target], url) if target else NO_LINKS)


@pytest.mark.parametrize(
    ("link", "target"), [("//", "http://"), ("a//b", "http://site.example/folder/a//b")]
)
def test_links_that_stay_as_written(link: str, target: str) -> None:
    """`urljoin` takes empty parts out, by version; what stores hold of links must not change."""
    assert read_links([link], URL).addresses == target.encode()
