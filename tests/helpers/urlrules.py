"""A site in memory whose pages are judged and learned from."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

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
from scrapy_simhash.stores.rulebook import get_rule, keep_learned, list_acting, list_rules
from scrapy_simhash.tables.designs import parse_design
from scrapy_simhash.tables.probing import Prober
from scrapy_simhash.urls.applying import ActingRules
from scrapy_simhash.urls.learning import SameForm, learn
from scrapy_simhash.urls.rules import RuleKind, RuleState, UrlRule, UrlRuleRecord, parse_rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from scrapy_simhash.urls.rules import RuleChange

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
    """A crawl of a site that is a function from URLs to names of pages, see `make_facts`.

    Attributes:
        pages: what it fetched.
        documents: the rows of its rules.
        parked: URLs that `crawl` did not fetch, with the page that stands for them.
    """

    def __init__(self, site: Callable[[str], str]) -> None:
        self.site = site
        self.documents = make_rows()
        self.pages: list[StoredDocument] = []
        self.walls: set[int] = set()
        self.parked: dict[str, str] = {}
        self.forms: dict[str, SameForm] = {}
        self.time = 1_000.0

    def fetch(self, *urls: str, callback: str = "parse", **facts: Any) -> None:
        """Fetch pages, and find the original of each by brute force."""
        for url in urls:
            self.time += 1
            fields = {**make_facts(self.site(url)), "url": url, "time": self.time, **facts}
            page = Document(identity=url.encode()[:64], reader=Reader("spider", callback), **fields)
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

    def learn(self) -> list[RuleChange]:
        """Learn from all that was fetched; lists the rules that act now, or do not any more."""
        known = {record.rule: record.state for record in list_rules(self.documents)}
        learned = learn(self.pages, self.walls, RULE, known)
        self.forms = {each.form: each for each in learned.forms}
        return keep_learned(self.documents, learned.records, known, self.time)

    def crawl(self, urls: Iterable[str]) -> None:
        """Fetch pages unless rules that act lead to a form whose own pages were the same."""
        acting = ActingRules(list_acting(self.documents))
        for url in urls:
            target = acting.find_target(url)
            known = self.forms.get(target.form) if target is not None else None
            if target is not None and known is not None and known.rules.issuperset(target.rules):
                self.parked[url] = known.pages[0].url
            else:
                self.fetch(url)

    def list_lost(self) -> set[str]:
        """List the pages of the site that are parked, and were not fetched at any address."""
        fetched = {self.site(page.url) for page in self.pages}
        return {name for url in self.parked if (name := self.site(url)) not in fetched}

    def get(self, text: str) -> UrlRuleRecord:
        """Get a rule by its text."""
        record = get_rule(self.documents, parse_rule(text).id)
        assert record is not None, f"no rule {text!r}"
        return record

    def list_states(self) -> Mapping[str, RuleState]:
        """List the states of all rules that are not just learning."""
        return {
            record.rule.text: record.state
            for record in list_rules(self.documents)
            if record.state is not RuleState.LEARNING
        }


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
