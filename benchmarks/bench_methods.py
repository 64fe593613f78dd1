"""Other ways to tell near-duplicates, on the same texts and the same labelled pairs.

Takes a folder with `pages.csv`, `pairs.csv` and the pages. Our two rows are judged by the code of
`scrapy simhash evaluate`, in a store; all others get the main texts that our default extractor
found and judge each pair on its own. Milliseconds are from the texts of a page to what a method
would store, the median of every fifth page, all methods page by page; extraction, look-ups and
comparisons are not in them. Also not measured: how a method finds candidates among many pages, and
how it would do with another extractor or other parameters than those named. Pairs labelled
`unknown` are left out.
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from labelled import describe_run, load, make_parser
from methods import EXACT_MAIN, Method, list_methods
from scoring import CONFIG, both, brief, print_table, score, share, update_json, with_intervals
from tqdm import tqdm

from scrapy_simhash.config import PLAIN_DISTANCE_BITS
from scrapy_simhash.evaluation import fingerprint_corpus, judge_pairs, make_judgeable
from scrapy_simhash.features import FEATURE_SETS
from scrapy_simhash.fingerprint import fingerprint_text
from scrapy_simhash.quality import summarise
from scrapy_simhash.simhash import simhash

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from labelled import Page, Pages
    from scoring import Answer

    from scrapy_simhash.corpus import Corpus, LabelledPair

_FEATURES = FEATURE_SETS[CONFIG.features]
_OURS, _PLAIN = "ours", "ours, plain simhash k=3"
_PAGES_TIMED = 5  # every so many
_VERSIONS = ("scrapy-simhash", "trafilatura", "simhash", "datasketch", "numpy", "xxhash")


def measure_ours(corpus: Corpus) -> dict[str, Any]:
    """Judge the pairs as `scrapy simhash evaluate` does, the whole way from the bytes."""
    with tqdm(total=len(corpus.pages), desc="ours", leave=False) as bar:
        made = fingerprint_corpus(corpus, CONFIG, bar.update)
    judged, _ = judge_pairs(corpus.pairs, make_judgeable(corpus, made, CONFIG), CONFIG)
    figures = summarise(judged, CONFIG.distance)
    plain = [pair._replace(duplicate=pair.plain_distance <= PLAIN_DISTANCE_BITS) for pair in judged]
    long = {
        name for name, page in made.pages.items() if page and page.features >= CONFIG.min_features
    }
    return {
        _OURS: {
            **brief(figures),
            "long_pages": brief(summarise([one for one in judged if _both_in(one.pair, long)], 0)),
            "leave_one_source_out": {
                name: figures["leave_one_source_out"][name] for name in ("precision", "recall")
            },
        },
        _PLAIN: {
            **brief(summarise(plain, CONFIG.distance)),
            "long_pages": brief(summarise([one for one in plain if _both_in(one.pair, long)], 0)),
        },
    }


def _both_in(pair: LabelledPair, names: set[str]) -> bool:
    return pair.first in names and pair.second in names


def measure_others(
    methods: Sequence[Method[Any]], pages: Pages, pairs: Sequence[LabelledPair]
) -> dict[str, Any]:
    """Score methods on all pairs, and on those whose pages are both long enough for simhash."""
    long = {
        name
        for name, page in pages.items()
        if len(_FEATURES.extract(page.text.main).hashes) >= CONFIG.min_features
    }
    long_pairs = [pair for pair in pairs if _both_in(pair, long)]
    # Two methods that keep the same of a page share it.
    kept: dict[Callable[[Page], Any], dict[str, Any]] = {}
    figures = {}
    for method in tqdm(methods, desc="methods", leave=False):
        if method.prepare not in kept:
            kept[method.prepare] = {name: method.prepare(page) for name, page in pages.items()}
        answer = _compare(method, kept[method.prepare])
        figures[method.name] = {
            **score(pairs, answer),
            "long_pages": score(long_pairs, answer),
        }
    return figures


def _compare(method: Method[Any], made: dict[str, Any]) -> Answer:
    def answer(first: str, second: str) -> bool:
        return first in made and second in made and method.alike(made[first], made[second])

    return answer


def time_methods(methods: Sequence[Method[Any]], pages: Pages) -> dict[str, float]:
    """Get the median milliseconds from texts to what is stored, all methods page by page."""
    prepare: dict[str, Callable[[Page], object]] = {
        _OURS: lambda page: fingerprint_text(page.text, _FEATURES),
        _PLAIN: lambda page: simhash(*_FEATURES.extract(page.text.main)),
        **{method.name: method.prepare for method in methods},
    }
    # Two methods that keep the same of a page take the same time; the second one's caches are warm.
    distinct = list(dict.fromkeys(prepare.values()))
    taken: defaultdict[Callable[[Page], object], list[float]] = defaultdict(list)
    for number, page in enumerate(list(pages.values())[::_PAGES_TIMED]):
        for place in range(len(distinct)):
            timed = distinct[(place + number) % len(distinct)]
            started = time.perf_counter()
            timed(page)
            taken[timed].append(1000 * (time.perf_counter() - started))
    return {name: round(statistics.median(taken[timed]), 3) for name, timed in prepare.items()}


def print_figures(title: str, figures: dict[str, Any]) -> None:
    """Print a table of methods; "long" pages are those that are long enough for simhash."""
    rows = []
    for name, of in figures.items():
        means = of["mean_over_sources"]
        rows.append(
            [
                name,
                *with_intervals(of),
                share(means["precision"]),
                share(means["recall"]),
                str(of["false_positives"]),
                f"{of['hard']['false_positives']} of {of['hard']['pairs']}",
                *both(of["long_pages"]),
                f"{of['median_ms']:.2f}" if "median_ms" in of else "",
            ]
        )
    head = (
        "method", "precision (95 %)", "recall (95 %)", "mean precision", "mean recall", "wrong",
        "wrong of the hard", "precision, long pages", "recall, long pages", "ms a page",
    )  # fmt: skip
    print_table(head, rows, title)


def measure(corpus: Corpus, pages: Pages) -> dict[str, Any]:
    """Run all methods on main texts, and the others on whole texts, too."""
    pairs = [pair for pair in corpus.pairs if pair.label != "unknown"]
    methods = list_methods(pages)
    milliseconds = time_methods(methods, pages)
    main = measure_ours(corpus) | measure_others(methods, pages, pairs)
    for name, of in main.items():
        of["median_ms"] = milliseconds[name]
    print_figures("Methods, on the main text", main)
    pages = {
        name: page._replace(text=page.text._replace(main=page.text.whole))
        for name, page in pages.items()
    }
    others = [method for method in list_methods(pages) if method.name != EXACT_MAIN]
    whole = measure_others(others, pages, pairs)
    print_figures("The same, on the whole visible text", whole)
    return {"main_text": main, "whole_text": whole}


def main() -> None:
    """Print the tables."""
    parser = make_parser(__doc__, "JSON file for the figures")
    options = parser.parse_args()
    corpus, pages = load(options.folder, options.cache)
    about = describe_run("bench_methods", _VERSIONS, corpus, pages)
    update_json(options.output, {**about, **measure(corpus, pages)})


if __name__ == "__main__":
    main()
