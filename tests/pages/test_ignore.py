"""What is no text of a page (`SIMHASH_IGNORE`): it is read as if that were not on it."""

from dataclasses import replace

import pytest

from scrapy_simhash.errors import NotJudgedError
from scrapy_simhash.pages.facts import PageFingerprint
from scrapy_simhash.pages.fingerprint import fingerprint_page, read_page
from scrapy_simhash.pages.links import NO_LINKS
from tests.helpers.handmade import article, page

# All kinds of things that a page is compared by, and a link.
ADVERT = (
    '<div class="ad" data-id="7"><h1>Buy now</h1>words of an advert<img src="a.png" alt="A thing">'
    '<input value="a value"><a href="tel:123">call</a><a href="/shop">shop</a>'
    "<script>draw(7)</script></div>"
)
PLAIN = page(article("Short words."))
WITH_AD = PLAIN.replace("Short words.", f"</p>{ADVERT}<p>Short words.")


def without_times_and_links(made: PageFingerprint) -> PageFingerprint:
    return replace(made, links=0, targets=NO_LINKS, read_ms=0.0)


def test_a_page_is_read_as_if_it_were_not_there() -> None:
    url = "http://site.example/"
    seen = PLAIN.replace("Short words.", "</p><p>Short words.")
    whole, left, plain = (
        fingerprint_page(html, url=url, ignore=ignore)
        for html, ignore in ((WITH_AD, ()), (WITH_AD, ("i", ".ad, .none")), (seen, (".ad",)))
    )
    assert left.links == whole.links == plain.links + 2
    assert b"http://site.example/shop" in left.targets.addresses
    assert left.stub == plain.stub != whole.stub
    assert left.wording == plain.wording != whole.wording
    assert without_times_and_links(left) == without_times_and_links(plain)


def test_titles_and_what_the_head_says_stay() -> None:
    head = '<title>A title</title><link rel="canonical" href="/one">'
    read = read_page(page(article(), head).encode(), None, ignore=("title", "link", "h1"))
    assert (read.title, read.canonical, read.heading) == ("A title", "/one", "")


def test_each_selector_sees_the_whole_page() -> None:
    read = read_page(b"<p class=a>one<p>two<p>three", None, ignore=(".a", ".a + p", ".a + p"))
    assert read.whole == "three"


@pytest.mark.parametrize("selector", ["html", "body", "*", "body *, head"])
def test_a_page_of_nothing_else_has_no_text(selector: str) -> None:
    with pytest.raises(NotJudgedError, match="no_text"):
        read_page(PLAIN.encode(), None, ignore=(selector,))
