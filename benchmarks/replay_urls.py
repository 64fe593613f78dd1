"""Replay a crawl from its decision log and store: what URL rules would have saved, and cost.

The pages of the log are judged again, in their order, by a store that learns rules of addresses;
README.md says how what is skipped is counted.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import xxhash
from machine import write_result
from w3lib.url import canonicalize_url

from scrapy_simhash import open_store
from scrapy_simhash.judging import Document, Rule
from scrapy_simhash.judging.documents import facts_of
from scrapy_simhash.judging.rule import CONFIRM, default_distance
from scrapy_simhash.urls.acting import ActingRules
from scrapy_simhash.judging.evidence import can_vote, compare_pages
from scrapy_simhash.urls.learning import Fetched, UrlLearning

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_simhash.urls import UrlRule, UrlRuleRecord
    from scrapy_simhash.stores import Store

_GROUP = 16
_RULE = Rule(default_distance(CONFIRM), CONFIRM)
_CALLBACK = "parse"
_SAMPLE_PERCENT = 5
_FIRST_SAMPLES = 3


def read_crawl(log: Path, store: str) -> list[tuple[Document, str]]:
    """Read the judged pages of a log, each with its status, as documents of their own."""
    with open_store(store, readonly=True) as opened:
        stored = {document.url: document for document in opened.list_documents()}
    pages: dict[str, tuple[Document, str]] = {}
    for line in map(json.loads, log.open()):
        found = stored.get(line["url"])
        if found is not None and line["status"] in {"new", "near_duplicate"}:
            identity = hashlib.sha1(line["url"].encode(), usedforsecurity=False).digest()
            facts = facts_of(found) | {"identity": identity}
            pages.setdefault(line["url"], (Document(**facts, crawl="replay"), line["status"]))
    return list(pages.values())


def vote(one: Document, other: Document) -> str:
    """Compare two pages that a rule makes one, as the learner does."""
    if not (can_vote(one) and can_vote(other)):
        return "grey"
    return compare_pages(one, other, _RULE).name.lower()


def learn(store: Store, documents: Sequence[Document], *, switched_on: bool = True) -> None:
    """Judge a group, let it vote, and say that all its items came through."""
    fetched = {document.identity: Fetched(_CALLBACK) for document in documents}
    learning = UrlLearning(fetched=fetched) if switched_on else None
    verdicts = store.find_and_add(documents, crawl="replay", urls=learning)
    store.mark_done([verdict.document for verdict in verdicts], crawl="replay")


class Skipped(NamedTuple):
    """A page that was not fetched: by which rules, what it was in the log, and what it is.

    `pair` are its address and that of the page that the rules lead to.
    """

    rules: tuple[str, ...]
    status: str
    vote: str
    pair: tuple[str, str]


class Replay:
    """Fetches what rules do not skip, and learns from it, with a store of its own.

    Args:
        folder: for the store.
        skip: whether rules that act skip pages.
    """

    def __init__(self, folder: Path, *, skip: bool) -> None:
        self._store = open_store(str(folder), None, confirm=CONFIRM)
        self._skip = skip
        self._acting = ActingRules([])
        self._asked: Counter[str] = Counter()  # requests that each rule would skip
        self._fetched: dict[str, Document] = {}
        self.skipped: list[Skipped] = []
        self.learn_seconds = self.ask_seconds = 0.0

    def run(self, pages: Sequence[tuple[Document, str]], *, learning: bool = True) -> None:
        """Take pages in their order, in groups."""
        for start in range(0, len(pages), _GROUP):
            group = []
            for document, status in pages[start : start + _GROUP]:
                if (target := self._find(document)) is not None:
                    rules, first = target
                    pair = document.url, first.url
                    self.skipped.append(Skipped(rules, status, vote(document, first), pair))
                else:
                    group.append(document)
                    self._fetched[document.url] = document
            began = time.process_time()
            if group:
                learn(self._store, group, switched_on=learning)
            self.learn_seconds += time.process_time() - began
            self._acting = ActingRules(record.rule for record in self.list_rules() if record.acts)

    def _find(self, document: Document) -> tuple[tuple[str, ...], Document] | None:
        """Find the page that rules lead to, unless it is in the sample."""
        if not self._skip:
            return None
        began = time.process_time()
        try:
            for target in self._acting.list_targets(document.url):
                rule = target.rules[-1]
                found = self._store.find_form(rule, target.form)
                if found and found.counts and not found.is_sink and found.url in self._fetched:
                    self._asked[rule] += 1
                    chosen = xxhash.xxh3_64_intdigest(document.url.encode()) % 100 < _SAMPLE_PERCENT
                    if chosen or self._asked[rule] <= _FIRST_SAMPLES:
                        return None
                    return target.rules, self._fetched[found.url]
            return None
        finally:
            self.ask_seconds += time.process_time() - began

    def list_rules(self) -> list[UrlRuleRecord]:
        """List all rules of the store."""
        return self._store.url_rules()

    def close(self) -> None:
        """Close the store."""
        self._store.close()


def is_held_out(document: Document) -> bool:
    """Whether a page is in the half that is held out: with all others of its last segment."""
    # The first half of a crawl, breadth first, has hardly a duplicate.
    segment = urlsplit(document.url).path.rpartition("/")[2].partition(";")[0]
    return bool(xxhash.xxh3_64_intdigest(segment.encode()) % 2)


def count_votes(rules: Sequence[UrlRule], pages: Sequence[Document]) -> Counter[str]:
    """Count the votes of pages, one a normal form and rule."""
    acting = ActingRules(rules)
    plain: dict[str, Document] = {}
    firsts: dict[tuple[str, str], Document] = {}
    voted = set()
    votes: Counter[str] = Counter()
    for document in pages:
        for target in acting.list_targets(document.url):
            key = (target.rules[-1], canonicalize_url(target.form))
            first = plain.get(key[1]) or firsts.setdefault(key, document)
            if first is not document and key not in voted:
                voted.add(key)
                votes[vote(document, first)] += 1
        plain.setdefault(canonicalize_url(document.url), document)
    return votes


def measure(pages: Sequence[tuple[Document, str]]) -> dict[str, Any]:
    """Replay in three ways: skipping, only judging, and learning from half of the pages."""
    with tempfile.TemporaryDirectory() as folder:
        skipping = Replay(Path(folder, "skip"), skip=True)
        skipping.run(pages)
        judging = Replay(Path(folder, "judge"), skip=False)
        judging.run(pages, learning=False)
        learning = Replay(Path(folder, "learn"), skip=False)
        learning.run(pages)
        half = Replay(Path(folder, "half"), skip=False)
        half.run([page for page in pages if not is_held_out(page[0])])
        proven = [record.rule for record in half.list_rules() if record.acts]
        records = skipping.list_rules()
        for each in (skipping, judging, learning, half):
            each.close()
    acts = {record.rule.id for record in records if record.acts}
    votes = count_votes(proven, [document for document, _ in pages if is_held_out(document)])
    certain = votes["same"] + votes["different"]
    return {
        "pages": len(pages),
        "near_duplicates": sum(status == "near_duplicate" for _, status in pages),
        "skipped": len(skipping.skipped),
        "skipped_by_status": Counter(each.status for each in skipping.skipped),
        "skipped_by_vote": Counter(each.vote for each in skipping.skipped),
        "different_still_parked": [
            each.pair
            for each in skipping.skipped
            if each.vote == "different" and acts.issuperset(each.rules)
        ],
        "held_out": votes,
        "held_out_precision": votes["same"] / certain if certain else None,
        "learning_ms_a_page": 1000 * (learning.learn_seconds - judging.learn_seconds) / len(pages),
        "asking_us_a_request": 1e6 * skipping.ask_seconds / len(pages),
        "rules": [
            [record.rule.text, record.state, record.same, record.grey, record.different]
            for record in records
            if record.state != "learning"
        ],
        "candidates": len(records),
    }


def print_figures(figures: dict[str, Any]) -> None:
    """Print what was measured as Markdown tables."""
    pages = figures["pages"]
    votes = figures["skipped_by_vote"]
    precision = figures["held_out_precision"]
    rows = {
        "pages": f"{pages:,}",
        "near-duplicates, the ceiling": f"{figures['near_duplicates'] / pages:.1%}",
        "skipped": f"{figures['skipped'] / pages:.1%}",
        "skipped: same / grey / different": " / ".join(
            f"{votes[name]:,}" for name in ("same", "grey", "different")
        ),
        "different and still parked at the end": f"{len(figures['different_still_parked'])}",
        "precision on votes of the half held out": "-" if precision is None else f"{precision:.4f}",
        "of so many votes": f"{sum(figures['held_out'].values()):,}",
        "candidates": f"{figures['candidates']:,}",
        "learning, ms a page": f"{figures['learning_ms_a_page']:.3f}",
        "asking, us a request": f"{figures['asking_us_a_request']:.1f}",
    }
    print("| what | measured |\n| --- | ---: |")
    print("\n".join(f"| {name} | {value} |" for name, value in rows.items()))
    print("\n| rule | state | same | grey | different |\n| --- | --- | ---: | ---: | ---: |")
    for rule in figures["rules"]:
        print(f"| {' | '.join(map(str, rule))} |")
    for pair in figures["different_still_parked"]:
        print("different:", *pair)


def main() -> None:
    """Replay a crawl and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("log", type=Path, help="decision log of the crawl")
    parser.add_argument("store", help="its store")
    parser.add_argument("--output", type=Path, help="write the results as JSON, too")
    options = parser.parse_args()
    pages = read_crawl(options.log, options.store)
    if not pages:
        sys.exit(f"{options.log} has no judged page whose document is in {options.store}")
    figures = measure(pages)
    print_figures(figures)
    write_result(options.output, ("scrapy-simhash", "lmdb"), **figures)


if __name__ == "__main__":
    main()
