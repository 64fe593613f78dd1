"""What does reading a page cost, beside trafilatura?

Page by page in one process, in turns: `trafilatura.extract(html, fast=True)`, the opponent, of HTML
that is decoded already, and all that a judge does to read the page. Garbage is collected in
between, so that nobody pays for another's. Figures are CPU milliseconds, medians of several rounds.
Not measured: the way to a judge and back, the store (bench_store), Scrapy (bench_crawl). For the
parts of it, profile `fingerprint_page`.
"""

from __future__ import annotations

import gc
import logging
import time
from functools import partial
from pathlib import Path
from statistics import fmean, median, quantiles
from typing import TYPE_CHECKING

import trafilatura
from measuring import make_parser, print_figures, show_range, write_result
from sites import EXAMPLE_PAGES, load_pages

from scrapy_simhash.errors import NotJudgedError
from scrapy_simhash.judging.documents import MIN_FEATURES
from scrapy_simhash.pages.fingerprint import fingerprint_page
from scrapy_simhash.pages.turbohtml_reader import decode

if TYPE_CHECKING:
    from collections.abc import Callable

OPPONENT = "trafilatura.extract(fast=True)"
OURS = "fingerprint_page"
# Milliseconds of each page, by subject.
Costs = dict[str, list[float]]


def spend(function: Callable[[], object]) -> float:
    """Count the milliseconds of CPU that a call takes."""
    gc.collect()
    started = time.process_time()
    function()
    return 1000 * (time.process_time() - started)


def measure(bodies: list[bytes]) -> Costs:
    """Measure every page, by turns beginning with either subject."""
    costs: Costs = {name: [] for name in (OPPONENT, OURS)}
    for number, body in enumerate(bodies):
        subjects: dict[str, Callable[[], object]] = {
            OPPONENT: partial(trafilatura.extract, decode(body, None), fast=True),
            OURS: partial(fingerprint_page, body, min_features=MIN_FEATURES),
        }
        for name in sorted(subjects, reverse=bool(number % 2)):
            costs[name].append(spend(subjects[name]))
    return costs


def is_judged(body: bytes) -> bool:
    """Return True if there is something to judge, so that both do all the work."""
    try:
        fingerprint_page(body)
    except NotJudgedError:
        return False
    return True


def summarise(name: str, rounds: list[Costs]) -> dict[str, float | str]:
    """Take the medians over rounds of mean, median, 90 and 99 % of the pages."""
    ratios = [sum(costs[name]) / sum(costs[OPPONENT]) for costs in rounds]
    cuts = [quantiles(costs[name], n=100) for costs in rounds]
    return {
        "mean": median(fmean(costs[name]) for costs in rounds),
        **{f"p{share}": median(cut[share - 1] for cut in cuts) for share in (50, 90, 99)},
        "share of trafilatura's": show_range(ratios),
    }


def main() -> None:
    """Measure, and print a table."""
    parser = make_parser(__doc__)
    parser.add_argument("--pages", type=Path, default=EXAMPLE_PAGES, help="folder of HTML files")
    parser.add_argument("--count", type=int, default=300, help="pages (default 300)")
    parser.add_argument("--runs", type=int, default=5, help="rounds (default 5)")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    bodies = [page for page in load_pages(options.pages, options.count) if is_judged(page)]
    gc.freeze()
    rounds = [measure(bodies) for _ in range(options.runs)]
    figures = {name: summarise(name, rounds) for name in (OPPONENT, OURS)}
    print(f"{len(bodies)} pages, milliseconds of CPU")
    print_figures(figures)
    versions = ("trafilatura", "turbohtml", "lxml", "numpy")
    write_result(options.output, versions, pages=len(bodies), figures=figures)


if __name__ == "__main__":
    main()
