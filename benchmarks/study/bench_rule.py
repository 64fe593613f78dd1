"""Choose the constants of the rule on some labelled pages, and report them on others.

    python benchmarks/study/bench_rule.py FOLDER FOLDER... --report FOLDER --output rule.json

A constant is chosen by trying values around all the others, twice, from the middle of each list:
the highest recall with a precision of at least .995, because a wrong drop is worse than a page too
many, and of equal values the one in the middle. So the shipped values have no part in it. Pairs are
judged with their site known, from the other pages of their folder; "site unknown" is a row. For
each folder the constants are chosen on the others, but on none of `--report`; and for each half of
its sources, which are taken in turns, on the other half.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from scoring import print_table, share

from scrapy_simhash.config import Config
from scrapy_simhash.errors import UnjudgedError
from scrapy_simhash.inspection.labels import FolderContexts, LabelledPage, locate, read_corpus
from scrapy_simhash.judging import rule
from scrapy_simhash.judging.comparison import NO_CONTEXT, Context, compare
from scrapy_simhash.judging.content import Content, compare_contents
from scrapy_simhash.judging.documents import make_document
from scrapy_simhash.judging.rule import Rule
from scrapy_simhash.pages.fingerprint import fingerprint_page, make_recipe
from scrapy_simhash.simhash import hamming_distance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from scrapy_simhash.judging.documents import Document

_CONFIG = Config()
_PROCESSES = 2
_LEAST_PRECISION = 0.995
_ROUNDS = 2
# Each list goes from lenient to strict.
_VALUES: dict[str, tuple[Any, ...]] = {
    "SIMHASH_CONFIRM": (0.86, 0.88, 0.9, 0.92, 0.94),
    "LEAST_AGREED": (0.4, 0.5, 0.6, 0.65, 0.7),
    "LEAST_AGREED_OF_OTHER_NAMES": (0.5, 0.65, 0.75, 0.85, 0.9),
    "LEAST_SHARE_OF_MAIN": (0.2, 0.25, 0.3, 0.4, 0.5),
    "MOST_OF_MAIN_ALONE": (1.0, 0.7, 0.5, 0.4, 0.3),
    "TRIPLES_OF_A_LONG_TEXT": (500, 750, 1_000, 1_500, 2_000),
    "TRIPLES_FOR_EDITS": (16, 24, 32, 48, 64),
}
# What switches a part of the rule off.
_OFF: dict[str, Any] = {
    "LEAST_AGREED": 0.0,
    "LEAST_AGREED_OF_OTHER_NAMES": 2.0,
    "LEAST_SHARE_OF_MAIN": 2.0,
    "MOST_OF_MAIN_ALONE": 1.0,
    "TRIPLES_OF_A_LONG_TEXT": 10**9,
    "TRIPLES_FOR_EDITS": 10**9,
    "MOST_BITS_OF_ONE_DATA": 64,
}


@dataclass(frozen=True)
class _Pair:
    """A labelled pair, and what is known of it with one seed."""

    source: tuple[str, str]  # its folder, and the source there
    duplicate: bool
    first: Document | None  # None has no text
    second: Document | None
    context: Context = NO_CONTEXT
    distance: int = 0
    content: Content | None = None

    def is_found(self, confirm: float | None) -> bool:
        """Whether the rule as it is now finds the pair."""
        if self.first is None or self.second is None:
            return False
        if self.distance > _CONFIG.distance and not self.context.name:
            return False
        return compare(
            self.first,
            self.second,
            Rule(_CONFIG.distance, confirm),
            distance=self.distance,
            context=self.context,
            content=self.content,
        ).duplicate

    def forget_site(self) -> _Pair:
        """Make the same pair of a site that is not known."""
        if self.first is None or self.second is None or not self.context.known:
            return self
        (content,) = compare_contents([(self.first, self.second)], [NO_CONTEXT.sites])
        return replace(self, context=NO_CONTEXT, content=content)


class _Tally:
    """Right, wrong and missed pairs by source."""

    def __init__(self, counts: Mapping[tuple[str, str], tuple[int, int, int]]) -> None:
        self.counts = dict(counts)

    def only(self, wanted: Callable[[tuple[str, str]], bool]) -> _Tally:
        """Keep some sources."""
        return _Tally({source: each for source, each in self.counts.items() if wanted(source)})

    def describe(self, seeds: int) -> dict[str, Any]:
        """Say precision and recall, the means over sources, and wrong and missed pairs a seed."""
        right, wrong, missed = (
            sum(each[place] for each in self.counts.values()) for place in range(3)
        )
        precise = [each[0] / sum(each[:2]) for each in self.counts.values() if sum(each[:2])]
        found = [
            each[0] / (each[0] + each[2]) for each in self.counts.values() if each[0] + each[2]
        ]
        return {
            "precision": right / max(1, right + wrong),
            "recall": right / max(1, right + missed),
            "wrong": wrong / seeds,
            "missed": missed / seeds,
            "mean_precision": sum(precise) / max(1, len(precise)),
            "mean_recall": sum(found) / max(1, len(found)),
        }

    def worth(self) -> tuple[bool, float]:
        """Rank settings by this."""
        figures = self.describe(1)
        precise = figures["precision"] >= _LEAST_PRECISION
        return precise, figures["recall" if precise else "precision"]


def _read(page: LabelledPage, seed: int) -> Document | None:
    """Make the document of a page; None where it has no text."""
    recipe = make_recipe(_CONFIG.extractor, _CONFIG.features)
    try:
        made = fingerprint_page(page.read(), recipe=recipe, seed=seed, url=page.url)
    except UnjudgedError:
        return None
    return make_document(made, _CONFIG.rule, url=locate(page))


def _read_pairs(folder: Path, seeds: int) -> list[_Pair]:
    """Read the labelled pairs of a folder, once for each seed."""
    corpus = read_corpus(folder)
    pages = list(corpus.pages.values())
    known = [pair for pair in corpus.pairs if pair.label != "unknown"]
    pairs = []
    for seed in range(seeds):
        with ProcessPoolExecutor(_PROCESSES) as pool:
            made = pool.map(_read, pages, [seed] * len(pages), chunksize=16)
            documents = dict(zip((page.id for page in pages), made, strict=True))
        contexts = FolderContexts(corpus, documents, seed)
        for pair in known:
            source, duplicate = (folder.name, pair.source), pair.label == "dup"
            two = documents[pair.first], documents[pair.second]
            context = contexts.find(pair.first, pair.second)
            pairs.append(_make_pair(source, *two, context, duplicate=duplicate))
    return pairs


def _make_pair(
    source: tuple[str, str],
    first: Document | None,
    second: Document | None,
    context: Context,
    *,
    duplicate: bool,
) -> _Pair:
    if first is None or second is None:
        return _Pair(source, duplicate, first, second)
    distance = hamming_distance(first.fingerprint, second.fingerprint)
    content = None
    if first.sketch and second.sketch:
        (content,) = compare_contents([(first, second)], [context.sites])
    return _Pair(source, duplicate, first, second, context, distance, content)


def _count(pairs: Iterable[_Pair], settings: Mapping[str, Any]) -> _Tally:
    """Judge pairs with these constants in place of the shipped ones."""
    counts: dict[tuple[str, str], list[int]] = {}
    with ExitStack() as stack:
        constants = dict(settings)
        confirm = constants.pop("SIMHASH_CONFIRM", _CONFIG.confirm)
        for name, value in constants.items():
            stack.enter_context(patch.object(rule, name, value))
        for pair in pairs:
            found = pair.is_found(confirm)
            if found or pair.duplicate:
                kind = 2 if not found else 0 if pair.duplicate else 1
                counts.setdefault(pair.source, [0, 0, 0])[kind] += 1
    return _Tally({source: (each[0], each[1], each[2]) for source, each in counts.items()})


def _choose(
    judge: Callable[[tuple[int, ...]], _Tally], trained: Callable[[tuple[str, str]], bool]
) -> tuple[int, ...]:
    """Choose a value of each constant, by its place, on the sources that are trained on."""
    chosen = [len(values) // 2 for values in _VALUES.values()]
    for _ in range(_ROUNDS):
        for place, values in enumerate(_VALUES.values()):
            tried = []
            for option in range(len(values)):
                settings = (*chosen[:place], option, *chosen[place + 1 :])
                tried.append(judge(settings).only(trained).worth())
            best = [option for option, worth in enumerate(tried) if worth == max(tried)]
            chosen[place] = best[len(best) // 2]
    return tuple(chosen)


def _settings(chosen: Sequence[int]) -> dict[str, Any]:
    return {
        name: values[option] for (name, values), option in zip(_VALUES.items(), chosen, strict=True)
    }


def measure(
    pairs: Sequence[_Pair], folders: Sequence[str], reported: Sequence[str], seeds: int
) -> dict[str, Any]:
    """Measure the shipped rule, its parts, and constants that were chosen elsewhere."""
    # No folder of `reported`, which are some of the folders, has a part in choosing.

    @cache
    def judge(chosen: tuple[int, ...]) -> _Tally:
        return _count(pairs, _settings(chosen))

    figures: dict[str, Any] = {"constants": {}}

    def note(row: str, tally: _Tally, wanted: str) -> None:
        told = tally.only(lambda source: source[0] == wanted)
        figures.setdefault(row, {})[wanted] = told.describe(seeds)

    shipped = _count(pairs, {})
    for folder in folders:
        note("shipped", shipped, folder)
    unknown = _count([pair.forget_site() for pair in pairs], {})
    for folder in folders:
        note("site unknown", unknown, folder)
    for name, value in _OFF.items():
        without = _count(pairs, {name: value})
        for folder in folders:
            note(f"without {name}", without, folder)
    for folder in folders:
        unused = {folder, *reported}
        chosen = _choose(judge, lambda source, out=unused: source[0] not in out)  # type: ignore[misc]
        figures["constants"][f"for {folder}"] = _settings(chosen)
        note("chosen on the other folders", judge(chosen), folder)
    for folder in folders:
        sources = sorted(source for source in shipped.counts if source[0] == folder)
        halves: dict[tuple[str, str], tuple[int, int, int]] = {}
        for told, half in ((sources[::2], sources[1::2]), (sources[1::2], sources[::2])):
            chosen = _choose(judge, lambda source, half=half: source in half)  # type: ignore[misc]
            halves |= judge(chosen).only(lambda source, told=told: source in told).counts  # type: ignore[misc]
        note("chosen on the other half of its sources", _Tally(halves), folder)
    return figures


def main() -> None:
    """Read the folders, measure, and print the tables of docs/study.md."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="labelled pages")
    parser.add_argument(
        "--report", nargs="*", type=Path, default=[], metavar="FOLDER", help="only reported on"
    )
    parser.add_argument("--seeds", type=int, default=1, help="judge with so many (default: 1)")
    parser.add_argument("--output", type=Path, help="write the figures into this JSON file")
    arguments = parser.parse_args()
    folders = [*arguments.folders, *arguments.report]
    pairs = [pair for folder in folders for pair in _read_pairs(folder, arguments.seeds)]
    names = [folder.name for folder in folders]
    reported = [folder.name for folder in arguments.report]
    figures = measure(pairs, names, reported, arguments.seeds)
    columns = [
        f"{what}, {name}" for name in names for what in ("P / R", "over sources", "wrong + missed")
    ]
    print_table(
        ["rule", *columns],
        ([row, *_cells(of, names)] for row, of in figures.items() if row != "constants"),
    )
    for folder, constants in figures["constants"].items():
        print(f"\nconstants {folder}: {json.dumps(constants)}")
    if arguments.output:
        arguments.output.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def _cells(figures: Mapping[str, Mapping[str, float]], names: Iterable[str]) -> Iterable[str]:
    for name in names:
        of = figures[name]
        yield f"{share(of['precision'])} / {share(of['recall'])}"
        yield f"{share(of['mean_precision'])} / {share(of['mean_recall'])}"
        yield f"{of['wrong']:.1f} + {of['missed']:.1f}"


if __name__ == "__main__":
    main()
