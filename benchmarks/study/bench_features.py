"""Features: what words, shingles and weights find, on labelled pages.

`python benchmarks/study/bench_features.py FOLDER... [--tables NAME,...] [--output FILE]`. Each pair
is judged on its own, with seed 0 and without addresses. In the tables of features the confirmation
is the product's, the same in all rows, so that a row shows what its features propose; the number of
features that makes a page a stub is counted in the row's own features. Pairs labelled `unknown` are
left out. Not measured: what a crawl adds, such as chance neighbours among a million pages.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import feature_sets as sets
import numpy as np
from labelled import describe_run, load, make_parser
from scoring import CONFIG, both, print_table, score_all, share, update_json

from scrapy_simhash._progress import track
from scrapy_simhash.pages.features import (
    FEATURE_SETS,
    FeatureSet,
    WeightedFeatures,
    normalise,
    tokenise,
)
from scrapy_simhash.pages.fingerprint import PageFingerprint, fingerprint_text
from scrapy_simhash.simhash import simhash

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from labelled import Pages

    from scrapy_simhash.inspection.evaluation.labels import Corpus, LabelledPage, LabelledPair
    from scrapy_simhash.pages.text import PageText

_DEFAULT = FEATURE_SETS[CONFIG.features]
_NAME_WEIGHT = 3
_WEIGHT_UNIT = 1_000
_PAGES_TIMED = 5  # every so many
_KEYWORDS = (20, 200)
TABLES = (
    "shingles", "features", "chinese", "japanese",
)  # fmt: skip
_VERSIONS = ("scrapy-simhash", "turbohtml", "numpy", "xxhash", "jieba")


@dataclass(frozen=True)
class Row:
    """A way to make features of a text of a page.

    Attributes:
        name: in the table.
        make: from a page, what the corpus says of it, and one of its texts, to features.
        counted: whether a page with few of these features is a stub; otherwise one with few
            default features is.
    """

    name: str
    make: Callable[[PageText, LabelledPage, str], WeightedFeatures]
    counted: bool = True


def of_set(name: str, features: FeatureSet) -> Row:
    """Make a row of a feature set, which looks at nothing but the text."""
    return Row(name, lambda _page, _labelled, text: features.extract(text))


def list_windows() -> list[Row]:
    """List the lengths of shingles and their weights."""
    rows = [
        ("words-1, log (the default)", FEATURE_SETS["words-1"]),
        ("words-1, set", sets.WORDS_1_SET),
        ("words-1, counts", FEATURE_SETS["words-1-counts"]),
        ("words-2, log", FEATURE_SETS["words-2"]),
        ("words-2, set", sets.WORDS_2_SET),
        ("words-2, counts", sets.WORDS_2_COUNTS),
        ("words-3, log", FEATURE_SETS["words-3"]),
        ("words-3, set", FEATURE_SETS["words-3-set"]),
        ("words-3, counts", sets.WORDS_3_COUNTS),
        ("words-5, log", sets.WORDS_5),
        ("words-3 and words-5, set", sets.WORDS_3_5_SET),
    ]
    return [of_set(name, features) for name, features in rows]


def list_ideas(corpus: Corpus, pages: Pages) -> list[Row]:
    """List what can be done to single words."""
    rows = [
        ("words-1, log (the default)", _DEFAULT),
        ("stop words left out", sets.WITHOUT_STOP_WORDS),
        ("SpotSigs: a stop word and the next two others", sets.SPOTS),
        ("stems (Snowball)", sets.STEMMED),
        ("words and pairs of words", sets.WORDS_1_2),
        ("words and pairs that occur twice", sets.PHRASES),
        ("digits masked", sets.DIGITS_MASKED),
        ("dates and numbers masked", sets.DATES_MASKED),
        ("character 4-grams", sets.CHARACTERS_4),
    ]
    return [
        *(of_set(name, features) for name, features in rows),
        idf_row("IDF of the other sources", corpus, pages, most=float("inf")),
        idf_row("the same, at most 4", corpus, pages, most=4.0),
        Row("words of the title added, weight 3", add_names(lambda page: page.title)),
    ]


def list_unspaced() -> list[Row]:
    """List ways to cut Chinese; the last two also work where there is nothing but Chinese."""
    rows = [
        ("pairs of characters, log (the default)", _DEFAULT),
        ("single characters, log", sets.SINGLE_CHARACTERS),
        ("pairs of characters, shingles of two", FEATURE_SETS["words-2"]),
        ("jieba words, log", sets.JIEBA),
        ("jieba words, counts times jieba's IDF", sets.JIEBA_WEIGHED),
    ]
    return [
        *(of_set(name, features) for name, features in rows),
        *(
            Row(f"jieba, {most} keywords by TF-IDF", keep_heaviest(sets.JIEBA_WEIGHED, most), False)  # noqa: FBT003 - counted
            for most in _KEYWORDS
        ),
    ]


def keep_heaviest(
    features: FeatureSet, most: int
) -> Callable[[PageText, LabelledPage, str], WeightedFeatures]:
    """Keep the heaviest features only, as yanyiwu/simhash does; its demonstration keeps five."""

    def make(_page: PageText, _labelled: LabelledPage, text: str) -> WeightedFeatures:
        made = features.extract(text)
        kept = np.sort(np.argsort(-made.weights, kind="stable")[:most])
        return WeightedFeatures(made.hashes[kept], made.weights[kept])

    return make


def add_names(
    read: Callable[[PageText], str], weight: int = _NAME_WEIGHT
) -> Callable[[PageText, LabelledPage, str], WeightedFeatures]:
    """Add the words of a page's names to those of its text.

    Args:
        read: the names of a page.
        weight: of each distinct word; 0 gives a word its usual weight, and lets it be another
            feature than the same word in the text.
    """

    def make(page: PageText, _labelled: LabelledPage, text: str) -> WeightedFeatures:
        made, names = _DEFAULT.extract(text), _DEFAULT.extract(read(page), seed=int(not weight))
        added = names.weights if not weight else np.full(len(names.hashes), weight * _WEIGHT_UNIT)
        hashes, places = np.unique(np.concatenate([made.hashes, names.hashes]), return_inverse=True)
        weights = np.zeros(len(hashes), np.int64)
        np.add.at(weights, places, np.concatenate([made.weights, added]))
        return WeightedFeatures(hashes, weights)

    return make


def idf_row(name: str, corpus: Corpus, pages: Pages, most: float) -> Row:
    """Weigh words by their rarity on the main texts of all sources but the page's own."""
    inside: defaultdict[str, Counter[str]] = defaultdict(Counter)
    size: Counter[str] = Counter()
    for page_id, page in pages.items():
        source = corpus.pages[page_id].source
        inside[source].update(set(tokenise(normalise(page.main))))
        size[source] += 1
    total = sum(inside.values(), Counter[str]())
    by_source = {
        source: sets.with_idf(size.total() - size[source], total - inside[source], most)
        for source in size
    }
    return Row(name, lambda _page, labelled, text: by_source[labelled.source].extract(text))


def fingerprint_all(
    row: Row, corpus: Corpus, pages: Pages, base: dict[str, PageFingerprint]
) -> dict[str, PageFingerprint]:
    """Fingerprint main and whole texts with a row's features; all else stays as it is."""
    made = {}
    for name, default in base.items():
        page, labelled = pages[name], corpus.pages[name]
        main, whole = (row.make(page, labelled, text) for text in (page.main, page.whole))
        made[name] = replace(default, fingerprint=simhash(*main), whole_fingerprint=simhash(*whole))
        if row.counted:
            made[name] = replace(
                made[name], features=len(main.hashes), whole_features=len(whole.hashes)
            )
    return made


def time_rows(rows: Sequence[Row], corpus: Corpus, pages: Pages) -> dict[str, float]:
    """Get the median milliseconds from main text to fingerprint, all rows page by page."""
    taken: defaultdict[str, list[float]] = defaultdict(list)
    for number, name in enumerate(list(pages)[::_PAGES_TIMED]):
        page, labelled = pages[name], corpus.pages[name]
        for place in range(len(rows)):
            row = rows[(place + number) % len(rows)]
            started = time.perf_counter()
            simhash(*row.make(page, labelled, page.main))
            taken[row.name].append(1000 * (time.perf_counter() - started))
    return {name: round(statistics.median(times), 3) for name, times in taken.items()}


def measure_rows(
    title: str,
    rows: Sequence[Row],
    corpus: Corpus,
    pages: Pages,
    base: dict[str, PageFingerprint],
    pairs: Sequence[LabelledPair],
) -> dict[str, Any]:
    """Score rows of features, print their table, and give their figures by name."""
    milliseconds = time_rows(rows, corpus, pages)
    wanted = {name for pair in pairs for name in (pair.first, pair.second)}
    some = {name: page for name, page in base.items() if name in wanted}
    figures = {}
    for row in track(rows, "rows", len(rows)):
        scored = score_all(pairs, fingerprint_all(row, corpus, pages, some))
        figures[row.name] = {**scored, "median_ms": milliseconds[row.name]}
    head = ["features", *_HEAD, "ms a page"]
    print_table(
        head,
        ([name, *_cells(of), f"{of['median_ms']:.2f}"] for name, of in figures.items()),
        f"{title}: {_count(pairs)}",
    )
    return figures


_HEAD = (
    "precision k=3", "recall k=3", "precision k=7", "recall k=7", "precision, rule", "recall, rule",
    "means over sources",
)  # fmt: skip


def _cells(of: dict[str, Any]) -> list[str]:
    means = of["rule"]["mean_over_sources"]
    return [
        *both(of["k=3"]), *both(of["k=7"]), *both(of["rule"]),
        f"{share(means['precision'])} / {share(means['recall'])}",
    ]  # fmt: skip


def _count(pairs: Sequence[LabelledPair]) -> str:
    labels = Counter(pair.label for pair in pairs)
    return f"{labels['dup']} duplicates, {labels['distinct']} distinct pairs"


def measure(corpus: Corpus, pages: Pages, tables: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Make the tables that are asked for, one after the other."""
    pairs = [pair for pair in corpus.pairs if pair.label != "unknown"]
    base = {name: fingerprint_text(page, _DEFAULT) for name, page in pages.items()}

    def measure_language(title: str, language: str, rows: Sequence[Row]) -> dict[str, Any]:
        spoken = [pair for pair in pairs if _both_in(pair, corpus, language)]
        return measure_rows(title, rows, corpus, pages, base, spoken)

    known: dict[str, Callable[[], dict[str, Any]]] = {
        "shingles": lambda: measure_rows(
            "Shingles and weights", list_windows(), corpus, pages, base, pairs
        ),
        "features": lambda: measure_rows(
            "Other features", list_ideas(corpus, pages), corpus, pages, base, pairs
        ),
        "chinese": lambda: measure_language("Chinese", "zh", list_unspaced()),
        "japanese": lambda: measure_language("Japanese", "ja", list_unspaced()[:3]),
    }
    for table in tables:
        yield table, known[table]()


def _both_in(pair: LabelledPair, corpus: Corpus, language: str) -> bool:
    return all(
        corpus.pages[name].language.partition("-")[0] == language
        for name in (pair.first, pair.second)
    )


def main() -> None:
    """Print the tables."""
    parser = make_parser(__doc__, "JSON file; tables not made now stay in it")
    parser.add_argument("--tables", default=",".join(TABLES), help="those to make (default: all)")
    options = parser.parse_args()
    tables = options.tables.split(",")
    if unknown := set(tables).difference(TABLES):
        parser.error(f"unknown tables: {', '.join(unknown)}; there are {', '.join(TABLES)}")
    about = describe_run("bench_features", _VERSIONS)
    for place, folder in enumerate(options.folders, 1):
        print(f"\n## Corpus {place}")
        for table, figures in measure(
            *load(folder, without_addresses=options.without_addresses), tables
        ):
            update_json(options.output, {**about, f"{place} {table}": figures})


if __name__ == "__main__":
    main()
