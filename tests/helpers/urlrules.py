"""A site in memory whose pages are judged and learned from."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np
import xxhash

from scrapy_simhash.inspection.urlrules import RuleKind, UrlRule, describe, learn
from scrapy_simhash.judging.comparison import compare
from scrapy_simhash.judging.documents import Record, State, StoredDocument
from scrapy_simhash.judging.rule import Rule
from scrapy_simhash.pages.addresses import Address, parse_address
from scrapy_simhash.pages.facts import Reader
from scrapy_simhash.pages.sketch import sketch_text
from tests.helpers.documents import make

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
        "fingerprint": fingerprint,
        "text_digest": name.encode(),
        "title": f"Title of {base}",
        "heading": f"Heading of {base}",
        "words": len(text),
        "whole_words": len(text),
        "sketch": sketch_text(text, text),
        "features": WORDS,
    }


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
            page = make(identity=url.encode()[:64], reader=Reader("spider", "parse"), **fields)
            match = next(
                (
                    kept
                    for kept in self.pages
                    if not kept.record.original
                    and kept.facts.fingerprint == page.facts.fingerprint
                    and compare(page.facts, kept.facts, RULE).duplicate
                ),
                None,
            )
            record = Record(page.facts, State.DONE, ("crawl",), 0.0)
            record.original = match.document if match else 0
            self.pages.append(StoredDocument(len(self.pages) + 1, record))

    def learn(self) -> dict[str, dict[str, Any]]:
        """Learn from all that was fetched; returns the rules by their texts, as people see them."""
        found = learn(self.pages, RULE)
        return {str(each.rule): describe("", each.votes, set(), each.directories) for each in found}

    def prove(self) -> dict[str, list[str]]:
        """Learn; returns the directories of the rules that are proven."""
        found = self.learn().items()
        return {text: each["directories"] for text, each in found if each["directories"]}


def parse_rule(text: str) -> UrlRule:
    """Read a rule from its text."""
    host, kind, *args = text.split()
    return UrlRule(RuleKind(kind), host, tuple(map(unquote, args)))


def must_parse(url: str) -> Address:
    """Parse an address that rules may judge."""
    address = parse_address(url)
    assert address is not None
    return address
