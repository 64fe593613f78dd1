"""Choose the constants of the rule on some labelled pages, and report them on others.

    python benchmarks/study/bench_rule.py FOLDER FOLDER... --seeds 5 --output rule.json

A constant is chosen by trying values around all the others, twice, from the middle of each list:
the highest recall with a precision of at least .995, because a wrong drop is worse than a page too
many, and of equal values the one in the middle. So the shipped values have no part in it.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from msgspec import structs
from scoring import print_table, share

from scrapy_simhash.config import Config
from scrapy_simhash.errors import UnjudgedError
from scrapy_simhash.inspection.evaluation.labels import LabelledPage, read_corpus
from scrapy_simhash.judging import names as rule_of_names
from scrapy_simhash.judging import texts as rule_of_texts
from scrapy_simhash.judging.comparison import compare, find_nearest
from scrapy_simhash.judging.documents import make_document
from scrapy_simhash.pages.fingerprint import fingerprint_page, make_recipe
from scrapy_simhash.pages.sketch import compare_sketches
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
    "WORDS_OF_A_SHORT_TEXT": (0, 300, 500, 800, 1_200),
    "MORE_ALIKE_IF_SHORT": (0.02, 0.07, 0.12, 0.15, 0.17),
    "WORDS_OF_A_WHOLE_PAGE": (150, 300, 600, 1_500, 10**6),
    "ARTICLES": (
        ((150, 0.0), (50, 0.15)),
        ((300, 0.0), (100, 0.1), (50, 0.15)),
        ((300, 0.0), (100, 0.2), (50, 0.3)),
        ((300, 0.0), (100, 0.2)),
        ((600, 0.0),),
    ),
    "LEAST_WHOLE_OF_STUBS": (0.5, 0.65, 0.75, 0.8, 0.85),
    "LEAST_MAIN_OF_TEMPLATE": (0.1, 0.2, 0.4, 0.6, 0.8),
    "LEAST_CONTAINED": (0.6, 0.7, 0.8, 0.9, 1.0),
    "LITTLE_ALONE": (1.0, 0.75, 0.5, 0.25, 0.1),
    "LEAST_ALIKE_NAMES": (0.5, 0.7, 0.8, 0.9, 1.0),
    "LEAST_WHOLE_OF_ONE_NAME": (0.85, 0.9, 0.95, 0.97, 0.98),
    "LONG_TEXTS": tuple(
        ((words, main), (3 * words, main - 0.05))
        for words in (750, 1_000, 1_500, 2_000, 3_000)
        for main in (0.85, 0.9, 0.95)
    ),
}
# What switches a part of the rule off.
_OFF: dict[str, Any] = {
    "WORDS_OF_A_SHORT_TEXT": 0,
    "WORDS_OF_A_WHOLE_PAGE": 10**6,
    "ARTICLES": (),
    "LEAST_CONTAINED": 2.0,
    "LEAST_WHOLE_OF_ONE_NAME": 2.0,
    "LONG_TEXTS": (),
    "WORDS_OF_A_HEADLINE": 10**6,
}


@dataclass(frozen=True)
class _Pair:
    """A labelled pair, and what is known of it with one seed."""

    source: tuple[str, str]  # its folder, and the source there
    duplicate: bool
    first: Document | None  # None has no text
    second: Document | None
    distance: int = 0
    alike: tuple[float, float] = (0.0, 0.0)

    def is_found(self) -> bool:
        """Whether the rule as it is now finds the pair."""
        if self.first is None or self.second is None or self.distance > _CONFIG.distance:
            return False
        near = {"distance": self.distance, "alike": self.alike}
        return compare(self.first, self.second, _CONFIG.rule, **near).duplicate  # type: ignore[arg-type]


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
    return structs.replace(make_document(made, _CONFIG.rule), url=page.url)


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
        pairs += [
            _make_pair(
                (folder.name, pair.source),
                documents[pair.first],
                documents[pair.second],
                duplicate=pair.label == "dup",
            )
            for pair in known
        ]
    return pairs


def _make_pair(
    source: tuple[str, str], first: Document | None, second: Document | None, *, duplicate: bool
) -> _Pair:
    if first is None or second is None:
        return _Pair(source, duplicate, first, second)
    alike = compare_sketches(first.sketch, [second.sketch])
    return _Pair(
        source,
        duplicate,
        first,
        second,
        hamming_distance(*find_nearest(first.fingerprints, second.fingerprints)),
        (float(alike.main[0]), float(alike.whole[0])),
    )


def _count(pairs: Iterable[_Pair], settings: Mapping[str, Any]) -> _Tally:
    """Judge pairs with these constants in place of the shipped ones."""
    counts: dict[tuple[str, str], list[int]] = {}
    with ExitStack() as stack:
        for name, value in settings.items():
            module = rule_of_names if hasattr(rule_of_names, name) else rule_of_texts
            stack.enter_context(patch.object(module, name, value))
        for pair in pairs:
            found = pair.is_found()
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


def measure(pairs: Sequence[_Pair], folders: Sequence[str], seeds: int) -> dict[str, Any]:
    """Measure the shipped rule, its parts, and constants that were chosen elsewhere."""

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
    for name, value in _OFF.items():
        without = _count(pairs, {name: value})
        for folder in folders:
            note(f"without {name}", without, folder)
    for folder in folders:
        chosen = _choose(judge, lambda source, other=folder: source[0] != other)  # type: ignore[misc]
        figures["constants"][f"for {folder}"] = _settings(chosen)
        note("chosen on the other folders", judge(chosen), folder)
    parts: dict[tuple[str, str], tuple[int, int, int]] = {}
    for left_out in shipped.counts:
        chosen = _choose(judge, lambda source, left=left_out: source != left)  # type: ignore[misc]
        parts |= judge(chosen).only(lambda source, left=left_out: source == left).counts  # type: ignore[misc]
    for folder in folders:
        note("chosen on all other sources", _Tally(parts), folder)
    return figures


def main() -> None:
    """Read the folders, measure, and print the tables of docs/study.md."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="labelled pages")
    parser.add_argument("--seeds", type=int, default=1, help="judge with so many (default: 1)")
    parser.add_argument("--output", type=Path, help="write the figures into this JSON file")
    arguments = parser.parse_args()
    pairs = [pair for folder in arguments.folders for pair in _read_pairs(folder, arguments.seeds)]
    names = [folder.name for folder in arguments.folders]
    figures = measure(pairs, names, arguments.seeds)
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
