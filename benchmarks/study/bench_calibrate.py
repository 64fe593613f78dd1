"""What a hundred labels recommend, and how right that is on all other labels.

`python benchmarks/study/bench_calibrate.py FOLDER... [--labels 100] [--samples 5] [--output FILE]`.
The pages of a folder go into a store, as a crawl would put them there. Of the pairs that
`evaluate --label` would show, those that the folder has a label for are sampled in its order,
with several seeds; the labels are given, and the recommendation is judged on the pairs of
`pairs.csv` that were not among them. Not measured: labels that people get wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from labelled import describe_run, forget_addresses, make_parser
from msgspec import structs
from scoring import print_table, share, update_json

from scrapy_simhash._progress import show_steps
from scrapy_simhash.batch.joins import find_all
from scrapy_simhash.config import Config
from scrapy_simhash.inspection.contexts import FolderContexts
from scrapy_simhash.inspection.evaluation.crawling import Truth
from scrapy_simhash.inspection.evaluation.evaluation import (
    fingerprint_all,
    judge_pairs,
    make_documents,
)
from scrapy_simhash.inspection.evaluation.labels import (
    LabelledPair,
    read_corpus,
    read_grey,
)
from scrapy_simhash.inspection.evaluation.quality import advise, tally
from scrapy_simhash.inspection.evaluation.sampling import draw_pairs, find_pairs
from scrapy_simhash.judging.rule import Rule
from scrapy_simhash.stores.opening import open_store
from scrapy_simhash.tables.designs import parse_design

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from scrapy_simhash.inspection.evaluation.labels import Corpus, Label
    from scrapy_simhash.inspection.evaluation.quality import Judged
    from scrapy_simhash.judging.comparison import Context
    from scrapy_simhash.judging.documents import Document

CONFIG = Config()
_LABELS, _SAMPLES = 100, 5
_SAID: Mapping[str, Label] = {"right": "dup", "wrong": "distinct"}
_HEAD = (
    "corpus", "sample", "same", "different", "recommended", "precision", "recall",
    "in force: precision", "recall",
)  # fmt: skip


def find_near(
    corpus: Corpus, documents: Mapping[str, Document | None]
) -> tuple[list[str], NDArray[np.int64], int]:
    """Put the pages into a store, and find the pairs that `evaluate --label` would show."""
    # Returned are the page of each document, from 1; the pairs by these numbers with their
    # distance; and the bits that the tables reach.
    names = [name for name in corpus.pages if documents.get(name) is not None]
    with open_store("memory:", CONFIG.distance, confirm=CONFIG.confirm) as store:
        store.start_crawl("study", "study")
        store.find_and_add(
            [
                structs.replace(document, identity=b"%d" % number, crawl="study")
                for number, name in enumerate(names)
                if (document := documents[name]) is not None
            ]
        )
        rows, _ = find_pairs(store.list_documents(), find_all, seed=0)
        return names, rows, parse_design(store.design).reach_bits


def measure(corpus: Corpus, truth: Truth, labels: int, samples: int) -> list[dict[str, Any]]:
    """Give so many labels to several samples of the pairs, and judge what is recommended."""
    with show_steps("pages", len(corpus.pages)) as advance:
        made = fingerprint_all(corpus, CONFIG, advance, [], 0)
    documents = make_documents(corpus, made, CONFIG)
    names, rows, reach_bits = find_near(corpus, documents)
    answers = {
        (first, second): truth.judge_drop(names[first - 1], names[second - 1])
        for first, second, _ in rows.tolist()
    }
    told = np.array([answers[first, second] in _SAID for first, second, _ in rows.tolist()], bool)
    contexts = FolderContexts(corpus, documents)

    def find_context(pair: LabelledPair) -> Context:
        return contexts.find(pair.first, pair.second)

    everything, _ = judge_pairs(corpus.pairs, documents, CONFIG, find_context)
    figures = []
    for seed in range(samples):
        known = draw_pairs(len(names), rows[told], 1.0, seed)
        shown = [
            LabelledPair(names[first - 1], names[second - 1], _SAID[answers[first, second]])
            for first, second in known.order((), (), reach_bits)[:labels]
        ]
        judged, _ = judge_pairs(shown, documents, CONFIG, find_context)
        advised = advise(known, judged, CONFIG.rule, reach_bits)
        used = {frozenset((pair.first, pair.second)) for pair in shown}
        rest = [
            each
            for each in everything
            if each.pair.label != "unknown"
            and frozenset((each.pair.first, each.pair.second)) not in used
        ]
        figures.append(_describe(advised, rest))
    return figures


def _describe(advised: dict[str, Any], rest: Sequence[Judged]) -> dict[str, Any]:
    """Say what was recommended, and how right that and the rule in force are on the rest."""
    chosen = advised["recommended"]
    rule = CONFIG.rule
    if chosen is not None:
        rule = Rule(chosen["distance"], chosen["confirm"])
    return {
        "labels": advised["labels"],
        "recommended": chosen,
        "why": advised["why"],
        "rest": tally(rest, lambda each: each.would_drop(rule)).describe(),
        "rest_in_force": tally(rest, lambda each: each.would_drop(CONFIG.rule)).describe(),
    }


def _make_row(corpus: int, sample: int, of: dict[str, Any]) -> list[str]:
    chosen, labels = of["recommended"], of["labels"]
    found = f"{chosen['distance']} bits, {chosen['confirm']}" if chosen else f"none: {of['why']}"
    ours = [share(of["rest"][name]) for name in ("precision", "recall")] if chosen else ["", ""]
    in_force = [share(of["rest_in_force"][name]) for name in ("precision", "recall")]
    counts = [str(labels[name]) for name in ("same", "different")]
    return [str(corpus), str(sample), *counts, found, *ours, *in_force]


def main() -> None:
    """Print the table."""
    parser = make_parser(__doc__, "JSON file for the figures")
    parser.add_argument("--labels", type=int, default=_LABELS, help="of a sample (default 100)")
    parser.add_argument("--samples", type=int, default=_SAMPLES, help="seeds (default 5)")
    options = parser.parse_args()
    about = describe_run("bench_calibrate", ("scrapy-simhash", "turbohtml", "numpy"))
    rows = []
    for place, folder in enumerate(options.folders, 1):
        corpus = read_corpus(folder)
        truth = Truth(corpus, read_grey(folder, corpus))
        figures = measure(forget_addresses(corpus), truth, options.labels, options.samples)
        rows += [_make_row(place, sample, of) for sample, of in enumerate(figures)]
        update_json(options.output, {**about, str(place): figures})
    print_table(_HEAD, rows, "What a hundred labels recommend, and how right that is on the rest")


if __name__ == "__main__":
    main()
