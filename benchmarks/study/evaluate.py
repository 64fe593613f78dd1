"""How often is the plugin right on pages that people labelled?

`python benchmarks/study/evaluate.py FOLDER [--errors] [--json] [-s NAME=VALUE]`; `labels` says what
is in FOLDER. Exit code 1: some of it could not be read.

Both pages of a pair are read, and the rule of a crawl compares them, by the settings and seed 0,
in two states: `site known`, with the other pages of the folder as a sample of their hosts, and
`site unknown`, with no other page.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from labels import CorpusError, FolderSites, locate, read_corpus
from msgspec import structs

from scrapy_simhash._progress import show_steps
from scrapy_simhash.config import Config, read_config
from scrapy_simhash.errors import NotJudgedError, SettingError
from scrapy_simhash.judge.client import Judges, read_only
from scrapy_simhash.judging.documents import Document, make_document
from scrapy_simhash.judging.evidence import MIN_FEATURES, PLAIN_DISTANCE_BITS, Deciding
from scrapy_simhash.judging.rule import UNKNOWN
from scrapy_simhash.pages.facts import Page
from scrapy_simhash.pages.recipe import Recipe
from scrapy_simhash.simhash import hamming_distance
from scrapy_simhash.stores.opening import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from labels import Corpus, LabelledPage, LabelledPair

    from scrapy_simhash.judging.comparison import Answer
    from scrapy_simhash.judging.documents import Verdict
    from scrapy_simhash.pages.facts import PageFingerprint

NO_DISTANCE = 65  # if a page has no fingerprint
_DISTANCES_SHOWN = range(11)
# 95 % of a normal distribution are within this number of standard deviations.
NORMAL_95 = 1.959964


class Judged(NamedTuple):
    """A labelled pair and the plugin's answer."""

    pair: LabelledPair
    duplicate: bool  # the plugin would drop the second page, by what it knows of the site
    known: bool = False  # the site is known
    duplicate_if_unknown: bool = False  # it would, if it were not
    distance: int = NO_DISTANCE  # bits between their fingerprints
    plain_distance: int = NO_DISTANCE  # bits between those of their main texts
    similarity: float = 0.0
    tests: tuple[str, ...] = ()

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
            "distance": None if self.distance == NO_DISTANCE else self.distance,
            "similarity": self.similarity,
            "tests": list(self.tests),
            "source": self.pair.source,
            "why": self.pair.why,
        }


@dataclass
class Tally:
    """Counts of right and wrong answers."""

    right: int = 0
    wrong: int = 0
    missed: int = 0
    distinct: int = 0

    def add(self, label: str, *, duplicate: bool) -> None:
        """Count the answer to a labelled pair."""
        same, distinct = label == "dup", label == "distinct"
        self.right += duplicate and same
        self.missed += not duplicate and same
        self.wrong += duplicate and distinct
        self.distinct += distinct

    @property
    def matches(self) -> int:
        """The number of pairs that would be dropped."""
        return self.right + self.wrong

    @property
    def duplicates(self) -> int:
        """The number of pairs labelled as duplicates."""
        return self.right + self.missed

    @property
    def precision(self) -> float | None:
        """The share of matches that are duplicates; None without matches."""
        return self.right / self.matches if self.matches else None

    @property
    def recall(self) -> float | None:
        """The share of duplicates that are found; None without duplicates."""
        return self.right / self.duplicates if self.duplicates else None

    def describe(self) -> dict[str, Any]:
        """Return all figures, precision and recall with their 95 % intervals."""
        return {
            "precision": rounded(self.precision),
            "precision_interval": wilson(self.precision, self.matches),
            "recall": rounded(self.recall),
            "recall_interval": wilson(self.recall, self.duplicates),
            "false_positives": self.wrong,
            "false_negatives": self.missed,
            "duplicates": self.duplicates,
            "distinct": self.distinct,
        }


def wilson(share: float | None, of: int) -> list[float] | None:
    """Return the 95 % interval of a share (Wilson, JASA 1927), or None for a share of nothing."""
    if share is None or not of:
        return None
    z = NORMAL_95
    middle = (share + z * z / (2 * of)) / (1 + z * z / of)
    half = z * (share * (1 - share) / of + z * z / (4 * of * of)) ** 0.5 / (1 + z * z / of)
    return [round(max(0.0, middle - half), 4), round(min(1.0, middle + half), 4)]


def rounded(share: float | None) -> float | None:
    """Round to four digits, for display and JSON."""
    return None if share is None else round(share, 4)


def tally(
    judged: Iterable[Judged], answer: Callable[[Judged], bool] = lambda judged: judged.duplicate
) -> Tally:
    """Count the answers to labelled pairs."""
    counted = Tally()
    for pair in judged:
        counted.add(pair.pair.label, duplicate=answer(pair))
    return counted


def summarise(judged: Sequence[Judged], distance: int) -> dict[str, Any]:
    """Count the answers; pairs labelled `unknown` are counted and otherwise left out."""
    known = [pair for pair in judged if pair.pair.label != "unknown"]
    rows = range(max(_DISTANCES_SHOWN.stop, distance + 1))
    groups = group_by_source(known).items()
    return {
        "unknown": len(judged) - len(known),
        **tally(known).describe(),
        "site_known": {"known": sum(pair.known for pair in known), **tally(known).describe()},
        "site_unknown": tally(known, lambda pair: pair.duplicate_if_unknown).describe(),
        "plain": tally(known, lambda pair: pair.plain_distance <= PLAIN_DISTANCE_BITS).describe(),
        "by_distance": [_at_distance(known, bits) for bits in rows],
        "by_source": {source: tally(pairs).describe() for source, pairs in groups},
    }


def group_by_source(judged: Iterable[Judged]) -> dict[str, list[Judged]]:
    """Group pairs by their source, in alphabetical order."""
    groups: defaultdict[str, list[Judged]] = defaultdict(list)
    for pair in judged:
        groups[pair.pair.source].append(pair)
    return dict(sorted(groups.items()))


def _at_distance(judged: Sequence[Judged], bits: int) -> dict[str, Any]:
    """Return precision, recall and false positives at a distance, with and without confirmation."""
    found = tally(judged, lambda each: each.duplicate and each.distance <= bits)
    plain = tally(judged, lambda pair: pair.plain_distance <= bits)
    return {
        "distance": bits,
        "precision": rounded(found.precision),
        "recall": rounded(found.recall),
        "false_positives": found.wrong,
        "plain_precision": rounded(plain.precision),
        "plain_recall": rounded(plain.recall),
        "plain_false_positives": plain.wrong,
    }


def evaluate(
    corpus: Corpus, config: Config, advance: Callable[[], object] = lambda: None, seed: int = 0
) -> tuple[dict[str, Any], list[Judged]]:
    """Judge the pairs of a corpus; `advance` is called after each page."""
    problems = list(corpus.problems)
    pages = fingerprint_all(corpus, config, advance, problems, seed)
    documents = make_documents(corpus, pages, config)
    judged, judging_ms = _judge_pairs(corpus, pages, documents, config, seed)
    made = [page for page in pages.values() if not isinstance(page, str)]
    return {
        "distance": config.distance,
        "rule": config.rule,
        "pages": len(pages),
        "pairs": len(judged),
        "not_judged": Counter(page for page in pages.values() if isinstance(page, str)),
        "problems": problems,
        **summarise(judged, config.distance),
        "milliseconds_per_page": {
            "extract": _mean([page.extract_ms for page in made]),
            "fingerprint": _mean([page.fingerprint_ms for page in made]),
            "judge": judging_ms,
        },
    }, judged


def make_documents(
    corpus: Corpus, pages: Mapping[str, PageFingerprint | str], config: Config
) -> dict[str, Document | None]:
    """Make the documents of pages; None for those that are not judged."""
    return {
        name: None
        if isinstance(page, str)
        else make_document(
            page, config.chosen_rule, Page(locate(corpus.pages[name]), identity=b"-")
        )
        for name, page in pages.items()
    }


def fingerprint_all(
    corpus: Corpus, config: Config, advance: Callable[[], object], problems: list[str], seed: int
) -> dict[str, PageFingerprint | str]:
    """Fingerprint the pages; a `str` is the reason why a page is not judged."""
    made: dict[str, PageFingerprint | str] = {}

    async def fingerprint(page: LabelledPage, reader: Judges, room: asyncio.Semaphore) -> None:
        async with room:
            try:
                body = page.read()
                made[page.id] = await reader.read(Page(page.url), body)
            except OSError as error:
                problems.append(f"page {page.id!r} cannot be read: {error}")
            except NotJudgedError as error:
                made[page.id] = error.reason
            advance()

    async def fingerprint_pages() -> None:
        count = max(1, (os.cpu_count() or 1) - 1)
        reader = read_only(config, Recipe(), seed, count)
        # Keeps only as many bodies in memory as the readers need.
        room = asyncio.Semaphore(4 * count)
        await reader.open()
        try:
            await asyncio.gather(
                *(fingerprint(page, reader, room) for page in corpus.pages.values())
            )
        finally:
            await reader.close()

    asyncio.run(fingerprint_pages())
    return made


def _mean(values: Sequence[float]) -> float | None:
    return round(statistics.fmean(values), 3) if values else None


def _judge_pairs(
    corpus: Corpus,
    pages: Mapping[str, PageFingerprint | str],
    documents: Mapping[str, Document | None],
    config: Config,
    seed: int,
) -> tuple[list[Judged], float]:
    """Judge the pairs whose pages could be read; also measure milliseconds a page."""
    of_folder = FolderSites(corpus, documents, seed)
    pairs = [pair for pair in corpus.pairs if pair.first in documents and pair.second in documents]
    judged, seconds = [], 0.0
    for pair in pairs:
        first, second = documents[pair.first], documents[pair.second]
        if first is None or second is None:
            missing = pair.first if first is None else pair.second
            judged.append(Judged(pair, duplicate=False, tests=(f"{missing} is not judged",)))
            continue
        started = time.perf_counter()
        sites = of_folder.find(pair.first, pair.second)
        answer = of_folder.compare(pair.first, pair.second, config.chosen_rule, sites)
        seconds += time.perf_counter() - started
        alone = UNKNOWN, UNKNOWN
        unknown = of_folder.compare(pair.first, pair.second, config.chosen_rule, alone)
        plain_bits = _count_plain_bits(pages[pair.first], pages[pair.second])
        judged.append(_judge(pair, plain_bits, sites[0].known, (answer, unknown)))
    return judged, round(1000 * seconds / max(1, 2 * len(pairs)), 3)


def judge_in_order(documents: Iterable[Document], config: Config, seed: int) -> list[Verdict]:
    """Judge documents by an empty store in memory, as a crawl with these settings does."""
    arriving = [
        structs.replace(document, facts=structs.replace(document.facts, identity=b"%d" % number))
        for number, document in enumerate(documents)
    ]
    with open_store(
        "memory:", config.distance, config.tables, plain=config.plain, seed=seed
    ) as store:
        return store.find_and_add(arriving)


def _count_plain_bits(first: PageFingerprint | str, second: PageFingerprint | str) -> int:
    """Count the bits between two main texts; `NO_DISTANCE` if one has too few words."""
    if isinstance(first, str) or isinstance(second, str):
        return NO_DISTANCE
    if min(first.facts.features, second.facts.features) < MIN_FEATURES:
        return NO_DISTANCE
    return hamming_distance(first.facts.fingerprint, second.facts.fingerprint)


def _judge(
    pair: LabelledPair, plain_bits: int, known: bool, answers: tuple[Answer, Answer]
) -> Judged:
    """Describe how a pair was judged, with its site known and unknown, and by plain simhash."""
    answer, unknown = answers
    bits = answer.evidence.distance
    if answer.evidence.deciding is Deciding.DIGEST:  # they are equal, or count as unrelated
        bits = 0 if answer.duplicate else NO_DISTANCE
    return Judged(
        pair,
        answer.duplicate,
        known=known,
        duplicate_if_unknown=unknown.duplicate,
        distance=bits,
        plain_distance=plain_bits,
        similarity=answer.similarity or 0.0,
        tests=answer.tests[1:],
    )


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


def main() -> int:
    """Judge the labelled pairs of a folder, and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="of labelled pages")
    parser.add_argument("--errors", action="store_true", help="list the wrong pairs, and why")
    parser.add_argument("--json", action="store_true", help="print all figures as JSON")
    about = "a setting of the plugin (may be repeated)"
    parser.add_argument(
        *("-s", "--set"),
        metavar="NAME=VALUE",
        action="append",
        type=_read_setting,
        default=[],
        help=about,
    )
    options = parser.parse_args()
    try:
        corpus, config = read_corpus(options.folder), read_config(dict(options.set))
    except (CorpusError, SettingError) as error:
        parser.error(str(error))
    with show_steps("pages", len(corpus.pages)) as advance:
        answer, judged = evaluate(corpus, config, advance)
    if options.errors:
        answer["errors"] = [pair.describe() for pair in judged if pair.is_wrong]
    if options.json:
        print(json.dumps(answer))
    else:
        _print(answer)
    if problems := answer["problems"]:
        sys.stderr.write(f"left out, {len(problems)}: {'; '.join(problems)}\n")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
