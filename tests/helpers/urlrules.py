"""A site in memory whose pages are judged and learned from."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np
import xxhash
from hypothesis import strategies as st

from scrapy_simhash.judging.comparison import compare
from scrapy_simhash.judging.documents import Document, Reader, StoredDocument, facts_of
from scrapy_simhash.judging.rule import Rule
from scrapy_simhash.pages.addresses import Address, parse_address
from scrapy_simhash.pages.sketch import sketch_text
from scrapy_simhash.stores.documents import Documents
from scrapy_simhash.stores.memory import MemoryValues
from scrapy_simhash.tables.designs import parse_design
from scrapy_simhash.tables.probing import Prober
from scrapy_simhash.urls.learning import learn
from scrapy_simhash.urls.rules import RuleKind, UrlRule, UrlRuleRecord

if TYPE_CHECKING:
    from collections.abc import Callable

RULE = Rule(7, 0.8)
WORDS = 200


@cache
def make_facts(name: str) -> dict[str, Any]:
    """Make what is known of a page of 200 words; in "x~9", nine amid those of "x" are others.

    "x<9" has only the first nine.
    """
    base, _, most = name.partition("<")
    base, _, others = base.partition("~")
    drawn = np.random.default_rng(xxhash.xxh3_64_intdigest(base.encode()))
    text = drawn.integers(2**64, size=WORDS, dtype=np.uint64)
    fingerprint = int(text[0])
    changed = np.random.default_rng(xxhash.xxh3_64_intdigest(name.encode()))
    # In the midst: what stands before or behind the common part is a frame.
    start = (WORDS - int(others or 0)) // 2
    text[start : start + int(others or 0)] = changed.integers(
        2**64, size=int(others or 0), dtype=np.uint64
    )
    text = text[: int(most or WORDS)]
    return {
        "fingerprints": (fingerprint,),
        "text_digest": name.encode(),
        "title": f"Title of {base}",
        "heading": f"Heading of {base}",
        "words": len(text),
        "whole_words": len(text),
        "sketch": sketch_text(text, text),
        "features": WORDS,
    }


def make_rows() -> Documents:
    """Make an empty store in memory, as a transaction sees it."""
    return Documents(MemoryValues(), Prober(parse_design("4")), 0, bool)


class Crawl:
    """A crawl of a site that is a function from URLs to names of pages, see `make_facts`."""

    def __init__(self, site: Callable[[str], str]) -> None:
        self.site = site
        self.pages: list[StoredDocument] = []
        self.time = 1_000.0

    def fetch(self, *urls: str, **facts: Any) -> None:
        """Fetch pages, and find the original of each by brute force."""
        for url in urls:
            self.time += 1
            fields = {**make_facts(self.site(url)), "url": url, "time": self.time, **facts}
            page = Document(identity=url.encode()[:64], reader=Reader("spider", "parse"), **fields)
            match = next(
                (
                    kept
                    for kept in self.pages
                    if not kept.original
                    and kept.fingerprints == page.fingerprints
                    and compare(page, kept, RULE).duplicate
                ),
                None,
            )
            stored = StoredDocument(
                **facts_of(page),
                document=len(self.pages) + 1,
                state="done",
                crawl="crawl",
                original=match.document if match else 0,
                distance=0,
                similarity=None,
                tests=(),
            )
            self.pages.append(stored)

    def learn(self) -> dict[str, UrlRuleRecord]:
        """Learn from all that was fetched; returns the rules by their texts."""
        return {record.rule.text: record for record in learn(self.pages, RULE)}

    def prove(self) -> dict[str, tuple[str, ...]]:
        """Learn; returns the directories of the rules that are proven."""
        return {text: each.directories for text, each in self.learn().items() if each.directories}


def parse_rule(text: str) -> UrlRule:
    """Read a rule from its text."""
    host, kind, *args = text.split()
    return UrlRule(RuleKind(kind), host, tuple(map(unquote, args)))


def must_parse(url: str) -> Address:
    """Parse an address that rules may judge."""
    address = parse_address(url)
    assert address is not None
    return address


HOST = "a.example"
_WORDS = st.sampled_from(["a", "b", "A", "x", "index.html", "(S(q))", "15", "c;v=1", "*", ""])
_NAMES = st.sampled_from(["a", "b", "sid", "A"])
_PAIRS = st.builds("{}={}".format, _NAMES, st.sampled_from(["", "1", "2"]))
_SEGMENT_ARGS = st.lists(_WORDS.filter(bool), min_size=1, max_size=2)


def draw_addresses() -> st.SearchStrategy[Address]:
    """Draw addresses of one host, with few words, so that rules concern them."""
    return st.builds(
        Address,
        st.sampled_from(["http", "https"]),
        st.just(HOST),
        st.lists(_WORDS, min_size=1, max_size=5).map(tuple),
        st.lists(_PAIRS, max_size=4).map(sorted).map(tuple),
    )


def draw_rules() -> st.SearchStrategy[UrlRule]:
    """Draw rules of that host, of every kind."""
    none: st.SearchStrategy[list[str]] = st.just([])
    segments = {RuleKind.DROP_LEADING, RuleKind.DROP_SEGMENTS}
    names = st.lists(_NAMES, min_size=2, max_size=3, unique=True).map(sorted)
    args = {
        **dict.fromkeys(RuleKind, none),
        **dict.fromkeys(segments, _SEGMENT_ARGS),
        RuleKind.DROP_VALUE: st.lists(_PAIRS, min_size=1, max_size=1),
        RuleKind.DROP_PARAMETER: st.lists(_NAMES, min_size=1, max_size=1),
        RuleKind.DROP_PARAMETERS: names,
        RuleKind.DROP_MATRIX: st.just(["v"]),
        RuleKind.STRIP_INDEX: st.just(["index.html"]),
        RuleKind.HOST_ALIAS: st.sampled_from([["b.example"], ["https://b.example"]]),
    }

    def build(kind: RuleKind) -> st.SearchStrategy[UrlRule]:
        return st.builds(UrlRule, st.just(kind), st.just(HOST), args[kind].map(tuple))

    return st.sampled_from(RuleKind).flatmap(build)
