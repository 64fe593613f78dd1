"""How often is the plugin right on pages that people labelled?

`python benchmarks/study/evaluate.py FOLDER [--errors] [--json] [--seed N] [--constant NAME=VALUE]
[-s NAME=VALUE]`; `labels` says what is in FOLDER.

Both pages of a pair are read, and the rule of a crawl compares them, by the settings and a seed,
in two states: `site known`, with the other pages of the folder as a sample of their hosts, and
`site unknown`, with no other page.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from labels import CorpusError, FolderSites, locate, read_corpus

from scrapy_simhash._printable import show_progress
from scrapy_simhash.config import Config, read_config
from scrapy_simhash.errors import NotJudgedError, SettingError
from scrapy_simhash.judge.process import PageReader
from scrapy_simhash.judging import rule as words
from scrapy_simhash.judging.documents import MIN_FEATURES, PLAIN_DISTANCE_BITS, make_document
from scrapy_simhash.judging.rule import UNKNOWN
from scrapy_simhash.pages.facts import Fetched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from labels import Corpus, LabelledPair

    from scrapy_simhash.pages.facts import PageFingerprint


NO_DISTANCE = 65  # of what has too few words, or is compared by its digest
_DISTANCES_SHOWN = range(11)


class Judged(NamedTuple):
    """A labelled pair and the plugin's answer."""

    pair: LabelledPair
    duplicate: bool  # the plugin would drop the second page, by what it knows of the site
    tests: Sequence[str] = ()
    known: bool = False  # the site is known
    duplicate_if_unknown: bool = False  # it would, if it were not
    distance: int = NO_DISTANCE  # bits between their fingerprints
    plain_distance: int = NO_DISTANCE  # bits between those of their main texts

    @property
    def is_wrong(self) -> bool:
        """Whether the verdict contradicts the label."""
        return self.pair.label != "unknown" and self.duplicate != (self.pair.label == "dup")

    def describe(self) -> dict[str, Any]:
        """Describe the pair for display."""
        return {
            "first": self.pair.first,
            "second": self.pair.second,
            "label": self.pair.label,
            "judged": "dup" if self.duplicate else "distinct",
            "tests": list(self.tests),
            "source": self.pair.source,
            "why": self.pair.why,
        }


@dataclass(frozen=True)
class Tally:
    """Counts of right and wrong answers."""

    right: int
    wrong: int
    missed: int
    distinct: int

    @property
    def precision(self) -> float | None:
        """The share of matches that are duplicates; None without matches."""
        matches = self.right + self.wrong
        return self.right / matches if matches else None

    @property
    def recall(self) -> float | None:
        """The share of duplicates that are found; None without duplicates."""
        duplicates = self.right + self.missed
        return self.right / duplicates if duplicates else None

    def describe(self) -> dict[str, Any]:
        """Return all figures."""
        shares = {"precision": self.precision, "recall": self.recall}
        return {
            **{name: None if each is None else round(each, 4) for name, each in shares.items()},
            "false_positives": self.wrong,
            "false_negatives": self.missed,
            "duplicates": self.right + self.missed,
            "distinct": self.distinct,
        }


def tally(
    judged: Iterable[Judged], answer: Callable[[Judged], bool] = lambda judged: judged.duplicate
) -> Tally:
    """Count the answers to labelled pairs; those labelled `unknown` are left out."""
    counts = Counter((each.pair.label, answer(each)) for each in judged)
    wrong = counts["distinct", True]
    distinct = wrong + counts["distinct", False]
    return Tally(counts["dup", True], wrong, counts["dup", False], distinct)


def evaluate(
    corpus: Corpus, config: Config, show: Callable[[int, int], object], seed: int = 0
) -> tuple[dict[str, Any], list[Judged]]:
    """Judge the pairs of a corpus; `show` gets the number of pages read, and of all."""
    pages = read_pages(corpus, config, show, seed)
    judged = judge_pairs(corpus, pages, config, seed)
    by_source: defaultdict[str, list[Judged]] = defaultdict(list)
    for each in judged:
        by_source[each.pair.source].append(each)
    figures = tally(judged).describe()
    return {
        "rule": config.rule,
        "pages": len(pages),
        "pairs": len(judged),
        "unknown": sum(each.pair.label == "unknown" for each in judged),
        "not_judged": Counter(page for page in pages.values() if isinstance(page, str)),
        **figures,
        "site_known": {"known": sum(each.known for each in judged), **figures},
        "site_unknown": tally(judged, lambda each: each.duplicate_if_unknown).describe(),
        "plain": _tally_plain(judged, PLAIN_DISTANCE_BITS).describe(),
        "by_distance": [_tally_within(judged, bits) for bits in _DISTANCES_SHOWN],
        "by_source": {name: tally(pairs).describe() for name, pairs in sorted(by_source.items())},
    }, judged


def _tally_plain(judged: Iterable[Judged], bits: int) -> Tally:
    return tally(judged, lambda each: each.plain_distance <= bits)


def _tally_within(judged: Sequence[Judged], bits: int) -> dict[str, Any]:
    """Return precision and recall at a distance, of the rule and of plain simhash."""
    found = tally(judged, lambda each: each.duplicate and each.distance <= bits).describe()
    plain = _tally_plain(judged, bits).describe()
    shares = ("precision", "recall")
    return {
        "distance": bits,
        **{name: found[name] for name in shares},
        **{f"plain_{name}": plain[name] for name in shares},
    }


def read_pages(
    corpus: Corpus, config: Config, show: Callable[[int, int], object], seed: int
) -> dict[str, PageFingerprint | str]:
    """Read the pages as a judge does; a `str` is the reason why a page is not judged."""
    reader = PageReader(config)
    made: dict[str, PageFingerprint | str] = {}
    for name, page in corpus.pages.items():
        try:
            made[name], _ = reader.read(0, Fetched(page.url), page.read(), seed)
        except NotJudgedError as error:
            made[name] = error.reason
        show(len(made), len(corpus.pages))
    return made


def judge_pairs(
    corpus: Corpus, pages: Mapping[str, PageFingerprint | str], config: Config, seed: int
) -> list[Judged]:
    """Judge the pairs whose pages could be read."""
    rule = config.chosen_rule
    documents = {
        name: make_document(page, rule, Fetched(locate(corpus.pages[name]), identity=b"-"))
        for name, page in pages.items()
        if not isinstance(page, str)
    }
    sites = FolderSites(corpus, documents, seed)
    judged = []
    for pair in corpus.pairs:
        names = pair.first, pair.second
        first, second = (pages[name] for name in names)
        if isinstance(first, str) or isinstance(second, str):
            missing = names[not isinstance(first, str)]
            judged.append(Judged(pair, duplicate=False, tests=(f"{missing} is not judged",)))
            continue
        found = sites.find(*names)
        answer = sites.compare(*names, rule, found)
        unknown = sites.compare(*names, rule, (UNKNOWN, UNKNOWN))
        bits, is_copy = answer.distance or 0, answer.status == "near_duplicate"
        if any(documents[name].facts.stub for name in names):  # equal, or they count as unrelated
            bits = 0 if is_copy else NO_DISTANCE
        enough = min(first.facts.features, second.facts.features) >= MIN_FEATURES
        plain = (first.facts.fingerprint ^ second.facts.fingerprint).bit_count()
        judged.append(
            Judged(
                pair,
                is_copy,
                answer.tests[1:],
                known=found[0].known,
                duplicate_if_unknown=unknown.status == "near_duplicate",
                distance=bits,
                plain_distance=plain if enough else NO_DISTANCE,
            )
        )
    return judged


_STATES = ("site_known", "site_unknown", "plain")
_FIGURES = ("precision", "recall", "false_positives", "false_negatives")


def _print(answer: dict[str, Any]) -> None:
    """Print the figures that people want: by state, by source, and the errors."""
    print(f"{answer['pages']:,} pages, {answer['pairs']:,} pairs")
    rows = {name: answer[name] for name in _STATES} | answer["by_source"]
    print(f"\n| | {' | '.join(_FIGURES)} |\n| --- |{' ---: |' * len(_FIGURES)}")
    for name, figures in rows.items():
        cells = ("-" if figures[each] is None else f"{figures[each]:g}" for each in _FIGURES)
        print(f"| {name} | {' | '.join(cells)} |")
    for error in answer.get("errors", ()):
        print(f"\n{error['first']}, {error['second']}: {error['label']}, judged {error['judged']}")
        print(f"    {'; '.join(error['tests'])}")


def _read_setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def main() -> None:
    """Judge the labelled pairs of a folder, and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="of labelled pages")
    parser.add_argument("--errors", action="store_true", help="list the wrong pairs, and why")
    parser.add_argument("--json", action="store_true", help="print all figures as JSON")
    parser.add_argument(
        *("-s", "--set"),
        metavar="NAME=VALUE",
        action="append",
        type=_read_setting,
        default=[],
        help="a setting of the plugin (may be repeated)",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the store (default: 0)")
    parser.add_argument(
        "--constant",
        metavar="NAME=VALUE",
        action="append",
        type=_read_setting,
        default=[],
        help="another value of a constant of the rule, such as OWN_SHARE=.2 (may be repeated)",
    )
    options = parser.parse_args()
    for name, value in options.constant:
        if not isinstance(getattr(words, name, None), int | float):
            parser.error(f"--constant {name}: judging/rule.py has no such number; take one of it")
        setattr(words, name, float(value))
    try:
        corpus, config = read_corpus(options.folder), read_config(dict(options.set))
        with show_progress("pages") as show:
            answer, judged = evaluate(corpus, config, show, options.seed)
    except (CorpusError, SettingError) as error:
        parser.error(str(error))
    if options.errors:
        answer["errors"] = [pair.describe() for pair in judged if pair.is_wrong]
    if options.json:
        print(json.dumps(answer))
    else:
        _print(answer)


if __name__ == "__main__":
    main()
