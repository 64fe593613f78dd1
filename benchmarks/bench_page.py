"""What does reading a page cost: by reader, by step, beside trafilatura?

Page by page in one process, in turns: `trafilatura.extract(html, fast=True)`, the opponent, of HTML
that is decoded already; all that a judge does to read the page, by each reader; and once more by
the default one with a clock at each step. Each page begins with another of these, and garbage is
collected in between, so that nobody pays for another's. Figures are means over pages, medians of
several rounds. Not measured: the way to a judge and back, the store (`bench_store`), Scrapy
(`bench_crawl`).
"""

from __future__ import annotations

import gc
import logging
import time
from collections import defaultdict
from contextlib import ExitStack
from functools import partial
from statistics import fmean, median, quantiles
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import trafilatura
from machine import print_table, write_result
from sites import load_pages, make_parser

from scrapy_simhash.errors import NotJudgedError
from scrapy_simhash.judging.evidence import MIN_FEATURES
from scrapy_simhash.pages import fingerprint
from scrapy_simhash.pages.features import FeatureSet
from scrapy_simhash.pages.fingerprint import fingerprint_page, make_recipe
from scrapy_simhash.pages.recipe import DEFAULT_EXTRACTOR, DEFAULT_FEATURES
from scrapy_simhash.pages.text import decode

if TYPE_CHECKING:
    from collections.abc import Callable

OPPONENT = "trafilatura.extract(fast=True)"
READERS = ("turbohtml", "trafilatura-fast")
# Of each step, the functions that do it, as `fingerprint_page` calls them. `read_page` calls
# `decode`, whose time is its own.
STEPS: dict[str, tuple[tuple[Any, str], ...]] = {
    "decode": ((fingerprint, "decode"),),
    "read: parse, texts, names, links": ((fingerprint, "read_page"),),
    "features: tokens, hashes": ((FeatureSet, "read_both"),),
    "features: weights": ((FeatureSet, "weigh_features"),),
    "fingerprints": ((fingerprint, "simhash"),),
    "sketches": ((fingerprint, "sketch_text"),),
    "wording": ((fingerprint, "make_wording"), (fingerprint, "pack")),
    "links and digests": ((fingerprint, "read_links"), (fingerprint, "_digest")),
}
_REST = "all else"

# Milliseconds by subject, or by step.
Costs = dict[str, float]


class Clock:
    """Measures what each step takes, without what other steps take within it."""

    def __init__(self) -> None:
        self.costs: defaultdict[str, float] = defaultdict(float)
        self._inner = [0.0]

    def wrap(self, step: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Make a function that is measured."""

        def measured(*args: Any, **kwargs: Any) -> Any:
            self._inner.append(0.0)
            started = time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                spent = 1000 * (time.process_time() - started)
                self.costs[step] += spent - self._inner.pop()
                self._inner[-1] += spent

        return measured


def spend(function: Callable[[], object]) -> float:
    """Count the milliseconds of CPU that a call takes."""
    gc.collect()
    started = time.process_time()
    function()
    return 1000 * (time.process_time() - started)


def spend_by_step(function: Callable[[], object]) -> Costs:
    """Count them by step."""
    clock = Clock()
    with ExitStack() as stack:
        for step, places in STEPS.items():
            for place, name in places:
                wrapped = clock.wrap(step, getattr(place, name))
                stack.enter_context(patch.object(place, name, wrapped))
        whole = spend(function)
    return {**clock.costs, _REST: whole - sum(clock.costs.values())}


def measure(bodies: list[bytes]) -> tuple[list[Costs], list[Costs]]:
    """Measure every page that has a text: by subject, and by step."""
    recipes = {name: make_recipe(name, DEFAULT_FEATURES) for name in READERS}
    whole, by_step = [], []
    for number, body in enumerate(bodies):
        html = decode(body, None)
        subjects: dict[str, Callable[[], object]] = {
            OPPONENT: partial(trafilatura.extract, html, fast=True),
            **{
                name: partial(fingerprint_page, body, None, recipe, 0, min_features=MIN_FEATURES)
                for name, recipe in recipes.items()
            },
        }
        names = list(subjects)
        order = names[number % len(names) :] + names[: number % len(names)]
        whole.append({name: spend(subjects[name]) for name in order})
        by_step.append(spend_by_step(subjects[DEFAULT_EXTRACTOR]))
    return whole, by_step


def is_judged(body: bytes) -> bool:
    """Return True if every reader finds something to judge, so that all of them do all the work."""
    try:
        for name in READERS:
            fingerprint_page(body, None, make_recipe(name, DEFAULT_FEATURES))
    except NotJudgedError:
        return False
    return True


def summarise(rounds: list[list[Costs]], names: list[str]) -> dict[str, Costs]:
    """Take the medians over rounds of mean, median, 90 and 99 % of the pages."""
    figures = {}
    for name in names:
        found = [[costs.get(name, 0.0) for costs in pages] for pages in rounds]
        cuts = [quantiles(costs, n=100) for costs in found]
        figures[name] = {
            "mean": median(map(fmean, found)),
            **{f"p{share}": median(cut[share - 1] for cut in cuts) for share in (50, 90, 99)},
        }
    return figures


def take_ratios(rounds: list[list[Costs]], name: str) -> list[float]:
    """Get what a reader takes by what the opponent takes on the same pages, for each round."""
    return [
        sum(costs[name] for costs in pages) / sum(costs[OPPONENT] for costs in pages)
        for pages in rounds
    ]


def main() -> None:
    """Print two Markdown tables."""
    options = make_parser(__doc__, count=300).parse_args()
    logging.disable(logging.CRITICAL)
    bodies = [page for page in load_pages(options.pages, options.count).pages if is_judged(page)]
    gc.freeze()
    rounds = [measure(bodies) for _ in range(options.runs)]
    whole = [by_subject for by_subject, _ in rounds]
    subjects = summarise(whole, [OPPONENT, *READERS])
    steps = summarise([by_step for _, by_step in rounds], [*STEPS, _REST])
    ratios = {name: take_ratios(whole, name) for name in READERS}
    print(f"{len(bodies)} pages, medians of {options.runs} rounds, milliseconds of CPU")
    head = ["mean", "p50", "p90", "p99"]
    print_table(
        ["", *head, "ratio", "smallest", "largest"],
        [
            [name, *row.values(), median(ratio), min(ratio), max(ratio)]
            for name, row in subjects.items()
            for ratio in [ratios.get(name, [1.0])]
        ],
    )
    print_table(
        [f"step, {DEFAULT_EXTRACTOR}", *head],
        [[name, *row.values()] for name, row in steps.items()],
    )
    write_result(
        options.output,
        ("trafilatura", "turbohtml", "lxml", "numpy"),
        pages=len(bodies),
        runs=options.runs,
        subjects=subjects,
        ratios=ratios,
        steps=steps,
    )


if __name__ == "__main__":
    main()
