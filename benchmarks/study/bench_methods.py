"""Our rule beside other ways to tell near-duplicates, on the same pages and labelled pairs.

`python benchmarks/study/bench_methods.py FOLDER... [--seeds 5] [--without-addresses]
[--output FILE]`. Our two rows go
the way of `evaluate.py`, from the bytes through a store, and are means over seeds; all
others get the texts that our reader found (main texts, then whole visible texts) and judge each
pair on its own. Not measured: how a method finds candidates among many pages, and how it would do
with another reader or other parameters than those named. Pairs labelled `unknown` are left out.
"""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Any

from evaluate import wilson
from labelled import describe_run, load, make_parser
from methods import METHODS, Method
from scoring import CONFIG, brief, print_table, score, share, update_json, with_intervals
from seeds import judge_by_seed
from summary import summarise_for_study

from scrapy_simhash._progress import show_steps
from scrapy_simhash.judging.evidence import PLAIN_DISTANCE_BITS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from labelled import Pages
    from labels import Corpus, LabelledPair
    from scoring import Answer

_OURS, _PLAIN = "ours", "ours, plain simhash, k=3"
_SEEDS = 5
_VERSIONS = ("scrapy-simhash", "turbohtml", "trafilatura", "simhash", "datasketch", "numpy")
_HEAD = (
    "corpus", "method", "precision (95 %)", "recall (95 %)", "mean over sources", "wrong", "missed",
    "hard wrong", "near-identical wrong",
)  # fmt: skip


def measure_ours(corpus: Corpus, seeds: int) -> dict[str, Any]:
    """Judge the pairs as `evaluate.py` does, the whole way from the bytes."""
    with show_steps("pages", seeds * len(corpus.pages)) as advance:
        by_seed = [judged for _, judged in judge_by_seed(corpus, CONFIG, seeds, advance)]
    plain = [
        [pair._replace(duplicate=pair.plain_distance <= PLAIN_DISTANCE_BITS) for pair in judged]
        for judged in by_seed
    ]
    return {
        name: _average([brief(summarise_for_study(judged)) for judged in answers])
        for name, answers in ((_OURS, by_seed), (_PLAIN, plain))
    }


def _average(seeds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Take the means of what seeds gave; intervals are those of one corpus, not of five."""
    first = seeds[0]
    means: dict[str, Any] = {
        name: _average([each[name] for each in seeds])
        if isinstance(value, dict)
        else fmean(known)
        if isinstance(value, int | float) and (known := [each[name] or 0 for each in seeds])
        else value
        for name, value in first.items()
    }
    if "precision" in first and "duplicates" in first:
        found = means["duplicates"] - means["false_negatives"]
        matches = round(found + means["false_positives"])
        means["precision_interval"] = wilson(means["precision"], matches)
        means["recall_interval"] = wilson(means["recall"], round(means["duplicates"]))
    return means


def measure_others(
    methods: Sequence[Method[Any]], texts: dict[str, str], pairs: Sequence[LabelledPair]
) -> dict[str, Any]:
    """Score methods on the texts of the pages."""
    # Two methods that keep the same of a page share it.
    kept: dict[Callable[[str], Any], dict[str, Any]] = {}
    figures = {}
    with show_steps("methods", len(methods)) as advance:
        for method in methods:
            if method.prepare not in kept:
                kept[method.prepare] = {name: method.prepare(text) for name, text in texts.items()}
            figures[method.name] = score(pairs, _compare(method, kept[method.prepare]))
            advance()
    return figures


def _compare(method: Method[Any], made: dict[str, Any]) -> Answer:
    def answer(first: str, second: str) -> bool:
        return first in made and second in made and method.alike(made[first], made[second])

    return answer


def list_rows(corpus: str, figures: dict[str, Any]) -> list[list[str]]:
    """Make the rows of a corpus."""
    rows = []
    for name, of in figures.items():
        means, tricky = of["mean_over_sources"], (of["hard"], of["near_identical"])
        rows.append(
            [
                corpus,
                name,
                *with_intervals(of),
                f"{share(means['precision'])} / {share(means['recall'])}",
                f"{of['false_positives']:g}",
                f"{of['false_negatives']:g}",
                *(_of_pairs(each) for each in tricky),
            ]
        )
    return rows


def _of_pairs(group: dict[str, Any]) -> str:
    return f"{group['false_positives']:g} of {group['pairs']:g}" if group["pairs"] else "-"


def measure(corpus: Corpus, pages: Pages, seeds: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run all methods on main texts, and the others on whole texts, too."""
    pairs = [pair for pair in corpus.pairs if pair.label != "unknown"]
    main = {name: page.main for name, page in pages.items()}
    whole = {name: page.whole for name, page in pages.items()}
    ours = measure_ours(corpus, seeds)
    return ours | measure_others(METHODS, main, pairs), measure_others(METHODS, whole, pairs)


def main() -> None:
    """Print the tables."""
    parser = make_parser(__doc__, "JSON file for the figures")
    parser.add_argument("--seeds", type=int, default=_SEEDS, help="0 to N - 1 (default 5)")
    options = parser.parse_args()
    about = describe_run("bench_methods", _VERSIONS)
    tables: tuple[list[list[str]], list[list[str]]] = ([], [])
    for place, folder in enumerate(options.folders, 1):
        made = measure(*load(folder, without_addresses=options.without_addresses), options.seeds)
        for table, figures in zip(tables, made, strict=True):
            table.extend(list_rows(str(place), figures))
        update_json(
            options.output, {**about, str(place): {"main_text": made[0], "whole_text": made[1]}}
        )
    print_table(_HEAD, tables[0], "Methods, on the main text")
    print_table(_HEAD, tables[1], "The same, on the whole visible text")


if __name__ == "__main__":
    main()
