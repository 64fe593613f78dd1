"""A site in memory whose pages are judged and learned from."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import xxhash

from scrapy_simhash.inspection.urlrules import UrlRule, describe, learn
from scrapy_simhash.judging.documents import Record, State, StoredDocument
from scrapy_simhash.judging.judge import compare_by_words
from scrapy_simhash.pages.facts import Reader
from scrapy_simhash.pages.recipe import SKETCH_BYTES
from scrapy_simhash.pages.wording import Wording
from tests.helpers.documents import make
from tests.helpers.pages import make_words

if TYPE_CHECKING:
    from collections.abc import Callable

WORDS = 200


@cache
def make_facts(name: str) -> tuple[dict[str, Any], Wording]:
    """Make what is known of a page of 200 words; in "x~9", nine amid those of "x" are others.

    "x<9" has only the first nine.
    """
    base, _, most = name.partition("<")
    base, _, others = base.partition("~")
    words = make_words(xxhash.xxh32_intdigest(base.encode()), WORDS)
    changed = int(others or 0)
    start = (WORDS - changed) // 2
    words[start : start + changed] = make_words(xxhash.xxh32_intdigest(name.encode()), changed)
    words = words[: int(most or WORDS)]
    return {
        "fingerprint": xxhash.xxh3_64_intdigest(base.encode()),
        "text_digest": name.encode(),
        "title": f"Title of {base}",
        "heading": f"Heading of {base}",
        "words": len(words),
        "whole_words": len(words),
        "sketch": bytes(SKETCH_BYTES),
        "features": WORDS,
    }, Wording(" ".join(words))


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
            known, wording = make_facts(self.site(url))
            fields = {**known, "url": url, "time": self.time, **facts}
            page = make(identity=url.encode()[:64], reader=Reader("spider", "parse"), **fields)
            match = next(
                (
                    kept
                    for kept in self.pages
                    if not kept.record.original
                    and kept.wording is not None
                    and kept.facts.fingerprint == page.facts.fingerprint
                    and compare_by_words(
                        None, page.facts, kept.facts, (wording, kept.wording)
                    ).duplicate
                ),
                None,
            )
            record = Record(page.facts, State.DONE, ("crawl",), 0.0)
            record.original = match.document if match else 0
            self.pages.append(StoredDocument(len(self.pages) + 1, record, wording))

    def learn(self) -> dict[str, dict[str, Any]]:
        """Learn from all that was fetched; returns the rules by their texts, as people see them."""
        found = learn(self.pages)
        return {str(each.rule): describe(each) for each in found}

    def prove(self) -> dict[str, list[str]]:
        """Learn; returns the directories of the rules that are proven."""
        found = self.learn().items()
        return {text: each["directories"] for text, each in found if each["directories"]}


def parse_rule(text: str) -> UrlRule:
    """Read a rule from its text."""
    host, kind, *args = text.split()
    if kind == "drop-parameters":
        return UrlRule(host, tuple(map(unquote, args)))
    return UrlRule(host, segments=tuple(args[1:]), place=int(args[0]))
