"""A site in memory whose pages are judged and teach URL rules: no store, no database."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import xxhash
from hypothesis import strategies as st
from msgspec import structs

from scrapy_simhash.judging import Document, Match, Rule, Verdict, compare
from scrapy_simhash.judging.documents import Record, State, facts_of
from scrapy_simhash.urls.acting import ActingRules
from scrapy_simhash.pages.addresses import Address
from scrapy_simhash.stores.rulebook import find_form, get_rule, list_acting
from scrapy_simhash.urls.learning import Fetched, Learner, UrlLearning
from scrapy_simhash.urls.rules import RuleKind, RuleState, UrlRule, UrlRuleRecord, parse_rule
from scrapy_simhash.pages.sketch import sketch_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from scrapy_simhash.judging.interface import Documents
    from scrapy_simhash.urls.rules import RuleChange

RULE = Rule(7, 0.8)
WORDS = 200


@cache
def make_facts(name: str) -> dict[str, Any]:
    """Make what is known of a page of 200 words; in "x~9", nine words of "x" are others.

    "x<9" has only the first nine.
    """
    base, _, most = name.partition("<")
    base, _, others = base.partition("~")
    drawn = np.random.default_rng(xxhash.xxh3_64_intdigest(base.encode()))
    text = drawn.integers(2**64, size=WORDS, dtype=np.uint64)
    fingerprint = int(text[0])
    changed = np.random.default_rng(xxhash.xxh3_64_intdigest(name.encode()))
    text[: int(others or 0)] = changed.integers(2**64, size=int(others or 0), dtype=np.uint64)
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


class MemoryDocuments:
    """Documents and rows of URL tables in dictionaries, with what learning asks of them."""

    remote = False

    def __init__(self) -> None:
        self.records: dict[int, Record] = {}
        self.rows: dict[str, dict[bytes, bytes]] = {}

    def get(self, number: int) -> Record | None:
        found = self.records.get(number)
        return None if found is None else structs.replace(found)

    def list_newest(self, most: int) -> list[tuple[int, Record]]:
        return sorted(self.records.items(), reverse=True)[:most]

    def get_row(self, table: str, key: bytes) -> bytes | None:
        return self.rows.get(table, {}).get(key)

    def put_row(self, table: str, key: bytes, row: bytes) -> None:
        self.rows.setdefault(table, {})[key] = row

    def drop_row(self, table: str, key: bytes) -> None:
        self.rows.get(table, {}).pop(key, None)

    def scan_rows(self, table: str, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        rows = self.rows.get(table, {})
        yield from [(key, rows[key]) for key in sorted(rows) if key.startswith(prefix)]

    def count_rows(self, table: str) -> int:
        return len(self.rows.get(table, {}))


class Crawl:
    """A crawl of a site that is a function from URLs to names of pages, see `make_facts`.

    Attributes:
        documents: what it found.
        changes: of states of rules, in order.
        parked: URLs that `visit` did not fetch, with the document that rules named.
    """

    def __init__(self, site: Callable[[str], str], *, confidence: float = 0.9) -> None:
        self.site = site
        self.memory = MemoryDocuments()
        # It has what learning asks for, and no more.
        self.documents: Documents = self.memory  # type: ignore[assignment]
        self.learner = Learner(RULE)
        self.confidence = confidence
        self.changes: list[RuleChange] = []
        self.parked: dict[str, int] = {}
        self.time = 1_000.0
        self._numbers: dict[str, int] = {}
        self._near: dict[tuple[int, ...], list[int]] = {}

    def fetch(
        self, *urls: str, callback: str = "parse", requested: str = "", **facts: Any
    ) -> list[RuleChange]:
        """Fetch pages: judge each by brute force, record it, and let it vote."""
        changes: list[RuleChange] = []
        for url in urls:
            self.time += 1
            fields = {**make_facts(self.site(url)), "url": url, "time": self.time, **facts}
            document = Document(identity=url.encode()[:64], **fields)
            verdict = self._judge(document)
            learning = UrlLearning(
                self.confidence, {document.identity: Fetched(callback, requested)}
            )
            changes += self.learner.learn(self.documents, document, verdict, learning)
        self.changes += changes
        return changes

    def _judge(self, document: Document) -> Verdict:
        number = self._numbers.get(document.url, 0)
        record = Record(
            **facts_of(document),
            state=State.DONE,
            delivered=True,
            crawl="crawl",
            first_time=document.time,
        )
        if number:
            before = self.memory.records[number]
            self.memory.records[number] = record
            same = before.text_digest == record.text_digest
            return Verdict("revisit", "unchanged" if same else "changed", number)
        number = len(self.memory.records) + 1
        match = self._find_match(document)
        if match is not None:
            record.state, record.original = State.DUPLICATE, match.document
        self.memory.records[number] = record
        self._numbers[document.url] = number
        self._near.setdefault(record.fingerprints, []).append(number)
        return Verdict("near_duplicate" if match else "new", "", number, match)

    def _find_match(self, document: Document) -> Match | None:
        # Pages with unlike fingerprints are not near each other.
        for number in self._near.get(document.fingerprints, ()):
            record = self.memory.records[number]
            if record.state != State.DUPLICATE and compare(document, record, RULE).duplicate:
                return Match(number, record.fingerprints[0], 0, record.url, 1.0)
        return None

    def crawl(self, urls: Iterable[str], *, sample: float = 0.0) -> None:
        """Fetch pages unless rules that act lead to a page that is there; some all the same."""
        for url in urls:
            chosen = xxhash.xxh3_64_intdigest(url.encode()) < sample * 2**64
            target = 0 if chosen else self._find_target(url)
            if target:
                self.parked[url] = target
            else:
                self.fetch(url)

    def release(self) -> None:
        """Fetch what is parked and would not be parked again, until nothing is left of that."""
        again = [url for url in self.parked if not self._find_target(url)]
        while again:
            for url in again:
                del self.parked[url]
            self.fetch(*again)
            again = [url for url in self.parked if not self._find_target(url)]

    def _find_target(self, url: str) -> int:
        """Find the document to which rules that act lead, or 0."""
        for target in ActingRules(list_acting(self.documents)).list_targets(url):
            form = find_form(self.documents, target.rules[-1], target.form)
            if form is not None:
                return form.document
        return 0

    def list_lost(self) -> set[str]:
        """List the pages of the site that are parked, and were not fetched at any address."""
        fetched = {self.site(record.url) for record in self.memory.records.values()}
        return {name for url in self.parked if (name := self.site(url)) not in fetched}

    def get(self, text: str) -> UrlRuleRecord:
        """Get a rule by its text."""
        record = get_rule(self.documents, parse_rule(text).id)
        assert record is not None, f"no rule {text!r}"
        return record

    def list_states(self) -> Mapping[str, RuleState]:
        """List the states of all rules that are not just learning."""
        rows = [get_rule(self.documents, key.hex()) for key, _ in self.documents.scan_rows("rules")]
        return {
            each.rule.text: each.state
            for each in rows
            if each is not None and each.state is not RuleState.LEARNING
        }


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
        RuleKind.FREE_SEGMENT: st.sampled_from([["0", "2"], ["1", "3"]]),
        RuleKind.SUBSTITUTE: st.sampled_from([["15", "17"], ["a", "b"]]),
    }
    exceptions = st.lists(st.sampled_from(["/a/", "a=1"]), max_size=1).map(tuple)

    def build(kind: RuleKind) -> st.SearchStrategy[UrlRule]:
        return st.builds(UrlRule, st.just(kind), st.just(HOST), args[kind].map(tuple), exceptions)

    return st.sampled_from(RuleKind).flatmap(build)
