"""What URL rules cost: time of a request and of learning, memory and disk of a rule.

All in one process, against a store that holds the pages. A request asks the rules of its host, and
the store where one leads, as in a crawl; learning reads the whole store.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
import tracemalloc
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from machine import write_result
from msgspec import structs
from urlsite import HOST, UrlSite

from scrapy_simhash import fingerprint_page, open_store
from scrapy_simhash.judging.documents import NOBODY, make_document
from scrapy_simhash.judging.rule import CONFIRM, Rule, default_distance
from scrapy_simhash.stores.rulebook import find_form
from scrapy_simhash.urls.applying import ActingRules, name_form
from scrapy_simhash.urls.rules import ActingRule, RuleKind, UrlRule

if TYPE_CHECKING:
    from scrapy_simhash.judging.documents import Document
    from scrapy_simhash.stores.store import Store

RULES = (0, 5, 64)
BARS: dict[str, dict[int, float]] = {
    "learning, ms a page": {},
    "asking, us a request": dict.fromkeys(RULES, 30),
}
_GROUP = 64
_HOSTS = 1_000  # with rules, for memory and disk


def make_rules(count: int, host: str = HOST) -> list[UrlRule]:
    """Make rules of a host: print views, and parameters that some addresses have."""
    # Pages would bring up the first one themselves.
    rules = [UrlRule(RuleKind.DROP_VALUE, host, ("print=1",))]
    names = ["print", *(f"p{number}" for number in range(count))]
    rules += [UrlRule(RuleKind.DROP_PARAMETER, host, (name,)) for name in names]
    return rules[:count]


def make_documents(articles: int, rules: int) -> list[Document]:
    """Make documents of articles: plain, print views, and with a parameter that a rule is about.

    They come in this order, articles in two halves, so that the first half brings up the rules.
    """
    site = UrlSite(0, articles)
    rule = Rule(default_distance(CONFIRM), CONFIRM)
    queries = ["", *(["?print=1"] if rules else []), *(["?p{}={}"] if rules else [])]
    halves = range(articles // 2), range(articles // 2, articles)
    documents: list[Document] = []
    for half, query in itertools.product(halves, queries):
        for number in half:
            url = f"http://{HOST}{site.find_address(number)}"
            # Each value once, so that no further rules are born.
            url += query.format(number % max(1, rules - 2), number)
            page = fingerprint_page(site.answer(url).html, url=url)
            made = make_document(page, rule, identity=b"%d" % len(documents))
            documents.append(structs.replace(made, url=url, crawl="bench"))
    return documents


def fill(store: Store, documents: list[Document]) -> None:
    """Judge documents in groups."""
    for start in range(0, len(documents), _GROUP):
        store.find_and_add(documents[start : start + _GROUP])


def measure_learning(store: Store, pages: int) -> float:
    """Learn from all pages; milliseconds of this process for each."""
    began = time.process_time()
    store.learn_url_rules()
    return 1000 * (time.process_time() - began) / pages


def measure_asking(store: Store, urls: list[str], rules: int) -> float:
    """Ask the rules, and the store where one leads; microseconds a request."""
    acting = ActingRules(map(ActingRule, make_rules(rules)))
    began = time.process_time()
    for url in urls:
        if (target := acting.find_target(url)) is not None:
            store.read(partial(find_form, name=name_form(target.form, NOBODY)))
    return 1e6 * (time.process_time() - began) / len(urls)


def measure_room() -> dict[str, float]:
    """Measure bytes a rule, in the memory of a crawl and in the file of a store."""
    rules = [rule for host in range(_HOSTS) for rule in make_rules(5, f"h{host}.example")]
    tracemalloc.start()
    acting = ActingRules([ActingRule(structs.replace(rule)) for rule in rules])
    memory = tracemalloc.get_traced_memory()[0] / len(rules)
    tracemalloc.stop()
    del acting
    with tempfile.TemporaryDirectory() as folder, _open(folder) as store:
        before = _size(folder)
        store.add_url_rules(rules)
        for rule in rules:
            store.change_url_rule(rule.id, "pin")
        disk = (_size(folder) - before) / len(rules)
    return {"memory, bytes a rule": memory, "disk, bytes a rule": disk}


def _open(folder: str) -> Store:
    return open_store(folder, None, confirm=CONFIRM)


def _size(folder: str) -> int:
    """Count the bytes that a store takes on the disk."""
    return sum(512 * path.stat().st_blocks for path in Path(folder).rglob("*") if path.is_file())


def measure(articles: int, runs: int) -> dict[str, Any]:
    """Measure everything; medians of the runs."""
    figures: dict[str, Any] = {name: {} for name in BARS}
    for rules in RULES:
        documents = make_documents(articles, rules)
        with tempfile.TemporaryDirectory() as folder, _open(folder) as store:
            store.start_crawl("bench", "bench")
            store.add_url_rules(make_rules(rules))
            fill(store, documents)
            learned = [measure_learning(store, len(documents)) for _ in range(runs)]
            figures["learning, ms a page"][rules] = median(learned)
            urls = [document.url for document in documents]
            asked = [measure_asking(store, urls, rules) for _ in range(runs)]
        figures["asking, us a request"][rules] = median(asked)
    return figures | measure_room()


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--articles", type=int, default=600, help="pages, a third of them")
    parser.add_argument("--runs", type=int, default=5, help="of each figure (default 5)")
    parser.add_argument("--output", type=Path, help="write the results as JSON, too")
    options = parser.parse_args()
    figures = measure(options.articles, options.runs)
    print("| what | rules of the host | measured | bar |\n| --- | ---: | ---: | ---: |")
    for name, bars in BARS.items():
        for rules, value in figures[name].items():
            print(f"| {name} | {rules} | {value:.3f} | {bars.get(rules, '')} |")
    for name in ("memory, bytes a rule", "disk, bytes a rule"):
        print(f"| {name} | 5 | {figures[name]:,.0f} | |")
    write_result(options.output, ("scrapy-simhash", "lmdb"), runs=options.runs, figures=figures)


if __name__ == "__main__":
    main()
