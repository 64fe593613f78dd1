"""What a crawl teaches of addresses, above all where it must not learn; and what its rules do."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import xxhash
from duplicate_url_discarder.url_canonicalizer import UrlCanonicalizer

from scrapy_simhash.inspection.urlrules import (
    MOST_RULES,
    FoundRule,
    UrlRule,
    describe,
    learn,
    list_discarder_rules,
)
from scrapy_simhash.judging.documents import Document
from scrapy_simhash.pages.addresses import MOST_CHARACTERS, MOST_PARTS, parse_address
from scrapy_simhash.pages.facts import SKETCH_BYTES, Reader, Wording, pack
from tests.helpers.documents import make
from tests.helpers.pages import make_words

pytestmark = pytest.mark.usefixtures("public_suffixes")
WORDS = 200


@cache
def make_facts(name: str) -> dict[str, Any]:
    """Make what is known of a page of 200 words."""
    octets = name.encode()
    words = make_words(xxhash.xxh32_intdigest(octets), WORDS)
    return {
        "fingerprint": xxhash.xxh3_64_intdigest(octets),
        "text_digest": octets,
        "title": f"Title of {name}",
        "heading": f"Heading of {name}",
        "words": WORDS,
        "whole_words": WORDS,
        "sketch": bytes(SKETCH_BYTES),
        "features": WORDS,
        "wording": pack(Wording(" ".join(words))),
    }


class Crawl:
    """A crawl of a site that is a function from URLs to names of pages."""

    def __init__(self, site: Callable[[str], str], *urls: str) -> None:
        self.site = site
        self.pages = list[Document]()
        self.originals: dict[str, int] = {}
        self.time = 1_000.0
        self.fetch(*urls)

    def fetch(self, *urls: str, **facts: Any) -> None:
        """Fetch pages; the first of each name is the original of the others."""
        for url in urls:
            self.time += 1
            name = self.site(url)
            fields = {**make_facts(name), "url": url, "time": self.time, **facts}
            page = make(identity=url.encode()[:64], reader=Reader("spider", "parse"), **fields)
            page.number, page.original = len(self.pages) + 1, self.originals.get(name, 0)
            self.pages.append(page)
            self.originals.setdefault(name, len(self.pages))

    def learn(self) -> dict[str, dict[str, Any]]:
        """Learn from all that was fetched; returns the rules by their texts, as people see them."""
        found = learn(self.pages)
        return {str(each.rule): describe(each) for each in found}

    def prove(self) -> dict[str, list[str]]:
        """Learn; returns the directories of the rules that are proven."""
        found = self.learn().items()
        return {text: each["proven_in"] for text, each in found if each["proven_in"]}


SID = "a.example drop-parameter sid"


def list_urls(
    *queries: str, pages: int = 60, folders: int = 5, host: str = "a.example"
) -> list[str]:
    """List pages in folders, each with these endings, one page after the other."""
    return [
        f"http://{host}/d{page % folders}/p{page}{query.replace('#', str(page))}"
        for page in range(pages)
        for query in queries
    ]


def by_path(url: str) -> str:
    return urlsplit(url).path


def by_parameters(*names: str) -> Callable[[str], str]:
    """A site whose pages follow from the path and these parameters."""

    def site(url: str) -> str:
        parts = urlsplit(url)
        asked = parse_qs(parts.query)
        return parts.path + "".join(f" {name}={asked.get(name)}" for name in names)

    return site


def by_page(url: str) -> str:
    """A site whose pages have many views, of which `pdf` is another page."""
    path = by_path(url).partition(";")[0].removesuffix("/amp").rstrip("/")
    return path + " pdf" * ("pdf" in url)


def by_end(url: str) -> str:
    """A site whose pages follow from the last two segments."""
    return "/".join(url.split("/")[-2:])


def but(site: Callable[[str], str], *parts: str) -> Callable[[str], str]:
    """Let addresses with one of these parts be pages of their own."""
    return lambda url: url if any(part in url for part in parts) else site(url)


def partly_translated(url: str) -> str:
    """A site that shows every third page whatever is asked for, as if nobody translated it yet."""
    path = url.partition("?")[0]
    return path if int(path.rpartition("p")[2]) % 3 == 0 else url


def make_twins(first: str, second: str) -> list[str]:
    """List pages of one place, each after its twin in another one."""
    places = [(f"{first}d{page % 5}/p{page}", f"{second}d{page % 5}/p{page}") for page in range(80)]
    return [url for pair in places for url in pair]


REFS = list_urls("", "?ref=#", pages=300)
PAGES = list_urls("", "?page=1", "?page=2", "?page=3")
A = "http://a.example/"


@pytest.mark.parametrize(
    ("rule", "site", "urls"),
    [
        ("a.example drop-parameter print=1", by_page, list_urls("", "?print=1")),
        ("a.example drop-parameter format=print", by_page, list_urls("", "?format=print")),
        ("a.example drop-parameter ref", by_path, REFS),
        ("a.example drop-segment 2 amp", by_page, list_urls("", "/amp")),
        ("a.example drop-segment 0 mirror", by_end, make_twins(A, f"{A}mirror/")),
        ("a.example drop-segment 0 mirror", by_end, make_twins(f"{A}mirror/", A)),
        ("a.example drop-segment 1 print", by_end, make_twins(f"{A}x/", f"{A}x/print/")),
        # The first page and no page are one, but the second is another.
        ("a.example drop-parameter page=1", but(by_path, "=2", "=3"), PAGES),
        # What matters in one folder is dropped in the others.
        ("a.example drop-parameter ref", but(by_path, "/d0/"), REFS),
        # What matters is not dropped.
        ("", by_parameters("id"), list_urls("", "?id=1", "?id=2")),
        ("", partly_translated, list_urls("?v=1", "?v=2", pages=100)),
        ("", partly_translated, list_urls("?year=2023", "?year=2024", pages=100)),
        ("", partly_translated, list_urls("", "?lang=de", pages=100)),
    ],
)
def test_what_a_site_teaches(rule: str, site: Callable[[str], str], urls: list[str]) -> None:
    assert [*Crawl(site, *urls).prove()] == ([rule] if rule else [])


def test_later_pages_refute_a_rule() -> None:
    crawl = Crawl(by_path, *list_urls("", "?sid=#", pages=40))
    crawl.site = lambda url: url
    crawl.fetch("http://a.example/d1/p1?sid=new", "http://a.example/d1/p6?sid=new")
    assert crawl.prove()[SID] == ["/d0/*", "/d2/*", "/d3/*", "/d4/*"]
    crawl.fetch("http://a.example/d2/p2?sid=new")  # one alone shows that there is more to it
    record = crawl.learn()[SID]
    assert (record["same"], record["different"], record["proven_in"]) == (37, 3, [])
    assert record["pairs_different"][-1].startswith("http://a.example/d2/p2?sid=new ")


def test_a_page_a_day_later_may_have_changed_but_two_of_that_day_refute_a_rule() -> None:
    crawl = Crawl(by_path, *list_urls("", "?sid=#"))
    crawl.site = lambda url: f"{url} of today"
    crawl.time += 90_000
    crawl.fetch("http://a.example/d1/p1?sid=new")
    assert "/d1/*" in crawl.prove()[SID]
    crawl.fetch("http://a.example/d1/p1?sid=newer")
    assert SID not in crawl.prove()


@pytest.mark.parametrize(
    ("votes", "values", "proven"), [(10, 3, False), (11, 3, True), (11, 2, False), (99, 2, False)]
)
def test_it_takes_eleven_votes_and_three_values(votes: int, values: int, *, proven: bool) -> None:
    """One value, such as `format=print`, shows nothing of the others."""
    urls = [
        url
        for page in range(votes)
        for url in (f"{A}d/p{page}", f"{A}d/p{page}?ref={page % values}")
    ]
    assert ("a.example drop-parameter ref" in Crawl(by_path, *urls).prove()) is proven


def test_a_site_that_makes_up_parameters_takes_no_more_time() -> None:
    crawl = Crawl(by_path)
    for number in range(MOST_RULES + 6):
        crawl.fetch(*list_urls("", f"?p{number}=#", pages=2))
    crawl.fetch(*list_urls("", "?sid=#"))
    found = crawl.learn()
    assert len(found) == MOST_RULES
    assert SID in found


def parse_rule(text: str) -> UrlRule:
    host, kind, *args = text.split()
    if kind == "drop-parameter":
        return UrlRule(host, parameter=args[0])
    return UrlRule(host, segment=args[1], place=int(args[0]))


@pytest.mark.parametrize(
    "url",
    [
        *("", "x", "ftp://a.example/x", "mailto:a@b.example", "data:text/html,x", "http:///x"),
        *("http://me@a.example/", "http://me:secret@a.example/", "http://a.example\\@b.example/"),
        *("http://[::1/x", "http://a b.example/"),
        *("http://a.example:x/", "http://a.example:123456/"),
        *("http://a.example/" + "x" * MOST_CHARACTERS, "http://a.example/" + "/" * MOST_PARTS),
        "http://a.example/?" + "&".join(f"p{number}=" for number in range(10_000)),
        "http://" + "ü" * 100 + ".example/",
    ],
)
def test_an_address_that_no_rule_may_judge(url: str) -> None:
    assert parse_address(url) is None


@pytest.mark.parametrize(
    ("rule", "directory", "changed", "left"),
    [
        ("drop-parameter sid", "/d/*.html", {"/d/x.html?sid=1&a=2": "/d/x.html?a=2"}, "/d/x?sid=1"),
        ("drop-parameter sid", "/*", {"/x?sid=1": "/x"}, "/d/x?sid=1"),
        ("drop-parameter sid", "/d/*", {"/d/x?sid=1": "/d/x"}, "/d/x.html?sid=1"),
        ("drop-parameter print=1", "/*", {"/x?print=1": "/x"}, "/x?print=2"),
        ("drop-segment 0 mirror", "/d/*", {"/mirror/d/x": "/d/x"}, "/d/mirror/x"),
        ("drop-segment 2 all", "/tag/*/", {"/tag/a/all/": "/tag/a/"}, "/tag/all/a/"),
        ("drop-segment 2 amp", "/d/*", {"/d/x/amp": "/d/x"}, "/d/x/amp/y"),
    ],
)
def test_it_does_what_a_rule_does_where_that_is_proven(
    tmp_path: Path, rule: str, directory: str, changed: dict[str, str], left: str
) -> None:
    path, proven = tmp_path / "rules.json", parse_rule(f"a.example {rule}")
    path.write_text(json.dumps(list_discarder_rules([FoundRule(proven, (), [directory])])))
    canonicalizer = UrlCanonicalizer([path])
    for url, form in {**changed, left: left}.items():
        assert canonicalizer.process_url(f"http://a.example{url}") == f"http://a.example{form}"
    for url in changed:
        assert canonicalizer.process_url(f"http://b.example{url}") == f"http://b.example{url}"


def test_what_means_something_in_a_pattern_is_left_out() -> None:
    rule = parse_rule("a.example drop-parameter a*")
    assert list_discarder_rules([FoundRule(rule, (), ["/*"])]) == []


def test_no_two_rules_remove_parts_of_one_path(tmp_path: Path) -> None:
    """Parts are counted from the beginning: the second rule would take another one."""
    path = tmp_path / "rules.json"
    leading, inner = (
        parse_rule(f"a.example {rule}") for rule in ("drop-segment 0 m", "drop-segment 2 p")
    )
    found = FoundRule(leading, (), ["/d/*/*"]), FoundRule(inner, (), ["/m/*/*"])
    path.write_text(json.dumps(list_discarder_rules(found)))
    process = UrlCanonicalizer([path]).process_url
    assert process("http://a.example/m/d/p/x") == "http://a.example/d/p/x"
    assert process("http://a.example/m/e/p/x") == "http://a.example/m/e/x"
