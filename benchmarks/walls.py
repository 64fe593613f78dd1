"""Count the unlike addresses of documents: where `judging.sinks.WITNESSES` comes from.

Usage: python benchmarks/walls.py LOG|DIR...

A LOG is a decision log; its documents are the pages that others were near-duplicates of. A DIR has
labelled pages, see `scrapy simhash evaluate`; its documents are the groups that people called one.
Prints how many documents have so many unlike addresses on one host, and those that have the most.
"""

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from scrapy_simhash.inspection.evaluation.crawling import Truth
from scrapy_simhash.inspection.evaluation.labels import read_corpus
from scrapy_simhash.inspection.log import LogFilter, read_log
from scrapy_simhash.judging.documents import PageFacts
from scrapy_simhash.judging.sinks import find_witness
from scrapy_simhash.pages.links import MOSTLY_NEW

SHOWN = 5


def list_pages(path: Path) -> Iterator[tuple[str, str, str]]:
    """List pages: name of the document, URL, canonical URL."""
    if path.is_dir():
        corpus = read_corpus(path)
        truth = Truth(corpus, ())
        yield from ((truth.document_of(page.id), page.url, "") for page in corpus.pages.values())
        return
    canonical: dict[str, str] = {}
    for decision, _ in read_log(path, LogFilter()):
        canonical[decision.url] = decision.canonical
        # Lists with rows of their own are no walls.
        original = decision.match_url
        if original and (decision.new_links or 0) < MOSTLY_NEW:
            yield original, original, canonical.get(original, "")
            yield original, decision.url, decision.canonical


def count_unlike(path: Path) -> list[tuple[int, str]]:
    """Count the unlike addresses of each document with two pages or more, largest first."""
    pages: Counter[str] = Counter()
    forms: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for name, url, canonical in list_pages(path):
        witness = find_witness(PageFacts(b"-", (0,), b"", url=url, canonical=canonical))
        if witness is not None:
            pages[name] += 1
            forms[name][witness.host].add(witness.form)
    counted = [(max(map(len, forms[name].values())), name) for name in pages if pages[name] > 1]
    return sorted(counted, reverse=True)


for argument in sys.argv[1:]:
    counted = count_unlike(Path(argument))
    of_each = sorted(Counter(number for number, _ in counted).items())
    print(f"{argument}: {len(counted)} documents")
    print("  unlike addresses: documents  ", ", ".join(f"{n}: {of}" for n, of in of_each))
    for number, name in counted[:SHOWN]:
        print(f"  {number:>4}  {name}")
