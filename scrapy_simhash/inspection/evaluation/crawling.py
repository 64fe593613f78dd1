"""`scrapy simhash evaluate DIR --crawl`: what a crawl of labelled pages drops, and keeps.

All pages of a folder go through one store, as with the action `drop`, in several random orders. The
labels say of each drop whether it was right: two pages of one document, two of different ones, or
nothing that helps.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import asdict, replace
from random import Random
from statistics import fmean
from typing import TYPE_CHECKING, Any

from msgspec import structs

from scrapy_simhash._progress import show_steps
from scrapy_simhash.errors import InspectionError
from scrapy_simhash.inspection.evaluation.evaluation import (
    fingerprint_all,
    judge_in_order,
    make_documents,
)
from scrapy_simhash.inspection.evaluation.labels import (
    LabelledDocuments,
    locate,
    read_corpus,
    read_grey,
)
from scrapy_simhash.inspection.evaluation.quality import rounded
from scrapy_simhash.pages.fingerprint import make_recipe

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from scrapy_simhash.config import Config
    from scrapy_simhash.inspection.evaluation.labels import Corpus
    from scrapy_simhash.judging.documents import Document, Match
    from scrapy_simhash.pages.fingerprint import PageFingerprint


_MEANS = ("dropped", "right", "wrong", "cannot_tell", "wrong_share", "found_share", "lost")


def crawl_labelled(config: Config, folder: Path, orders: int) -> dict[str, Any]:
    """Judge all pages of a folder in one store, in so many orders, each with a seed of its own."""
    if not folder.is_dir():
        raise InspectionError(
            f"{folder} is not a folder; --crawl needs one, with pages.csv and pairs.csv"
        )
    corpus = read_corpus(folder)
    truth = Truth(corpus, read_grey(folder, corpus))
    known, problems = _tell_apart(corpus), list(corpus.problems)
    made: dict[str, PageFingerprint | str] = {}
    crawled: list[dict[str, Any]] = []
    with show_steps("pages", orders * len(corpus.pages)) as advance:
        for seed in range(orders):
            made = fingerprint_all(known, config, advance, [] if crawled else problems, seed)
            documents = make_documents(known, made, config)
            names = sorted(documents)
            Random(seed).shuffle(names)  # noqa: S311 - repeatable, no secret
            drops = _find_drops(names, documents, config, seed)
            crawled.append({"seed": seed, **_describe(corpus, truth, names, drops)})
    return {
        "recipe": asdict(make_recipe(config.extractor, config.features)),
        "distance": config.distance,
        "confirm": config.confirm,
        "pages": len(made),
        "documents": len({truth.document_of(name) for name in made}),
        "unjudged": Counter(page for page in made.values() if isinstance(page, str)),
        "problems": problems,
        "orders": crawled,
        "mean": {name: _mean([order[name] for order in crawled]) for name in _MEANS},
    }


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return rounded(fmean(known)) if known else None


def _tell_apart(corpus: Corpus) -> Corpus:
    """Give each page that has an address one of its own, see `locate`."""
    # A crawl takes an equal address for a revisit.
    shared = Counter(page.url for page in corpus.pages.values())
    pages = {}
    for name, page in corpus.pages.items():
        url = locate(page)
        alone = not url or shared[page.url] == 1
        pages[name] = structs.replace(page, url=url if alone else f"{url}#{name}")
    return replace(corpus, pages=pages)


def _find_drops(
    names: Iterable[str], documents: Mapping[str, Document | None], config: Config, seed: int
) -> dict[str, tuple[str, Match]]:
    """Judge pages in their order; returned are, for each dropped page, the kept one and why."""
    known = {name: document for name in names if (document := documents[name]) is not None}
    verdicts = dict(zip(known, judge_in_order(known.values(), config, seed), strict=True))
    judged = {verdict.document: name for name, verdict in verdicts.items()}
    return {
        name: (judged[verdict.match.document], verdict.match)
        for name, verdict in verdicts.items()
        if verdict.match is not None
    }


class Truth:
    """What the labels of a corpus say of any two of its pages.

    Args:
        corpus: with its labelled pairs and clusters.
        grey: pairs of ids that are alike, and that nobody would label.
    """

    # Two documents are different if a label parts two of their pages, and no two others are unsure.

    def __init__(self, corpus: Corpus, grey: Iterable[tuple[str, str]]) -> None:
        self.document_of = LabelledDocuments(corpus).find
        by_label = defaultdict(list)
        for pair in corpus.pairs:
            by_label[pair.label].append((pair.first, pair.second))
        unsure = dict.fromkeys(map(frozenset, [*grey, *by_label["unknown"]]), "grey")
        different = dict.fromkeys(map(frozenset, by_label["distinct"]), "wrong")
        self._pages = unsure | different
        self._documents = {
            frozenset(map(self.document_of, pair)): judgement
            for pair, judgement in [*different.items(), *unsure.items()]
        }

    def judge_drop(self, dropped: str, kept: str) -> str:
        """Judge a drop: `right`, `wrong`, or why nobody can tell: `grey`, `unlabelled`."""
        judgement = self._pages.get(frozenset((dropped, kept)))
        if judgement == "wrong":
            return judgement
        documents = frozenset(map(self.document_of, (dropped, kept)))
        if len(documents) == 1:
            return "right"
        return judgement or self._documents.get(documents, "unlabelled")


def _describe(
    corpus: Corpus, truth: Truth, names: Iterable[str], drops: Mapping[str, tuple[str, Match]]
) -> dict[str, Any]:
    """Count what one order of the pages gave."""
    judgements = {name: truth.judge_drop(name, kept) for name, (kept, _) in drops.items()}
    # By document: the kept pages in their order, and whether a page was wrongly dropped.
    kept: defaultdict[str, list[str]] = defaultdict(list)
    wronged: dict[str, bool] = {}
    redundant = found = 0  # came after a page of the document was kept; was dropped then
    for name in names:
        document = truth.document_of(name)
        is_wrong = judgements.get(name) == "wrong"
        wronged[document] = wronged.get(document, False) or is_wrong
        redundant += bool(kept[document])
        if name not in drops:
            kept[document].append(name)
        else:
            found += bool(kept[document]) and not is_wrong
    counts = Counter(judgements.values())
    right, wrong = counts["right"], counts["wrong"]
    lost = [document for document, is_wrong in wronged.items() if is_wrong and not kept[document]]
    gone = sum(not pages for pages in kept.values())
    return {
        "dropped": len(drops),
        "right": right,
        "wrong": wrong,
        "cannot_tell": counts["grey"] + counts["unlabelled"],
        "grey": counts["grey"],
        "wrong_share": rounded(wrong / (right + wrong)) if right + wrong else None,
        "redundant": redundant,
        "found": found,
        "found_share": rounded(found / redundant) if redundant else None,
        "lost": len(lost),
        "perhaps_lost": gone - len(lost),
        "lost_documents": lost,
        "redundant_kept": [page for pages in kept.values() for page in pages[1:]],
        "wrong_drops": [
            {
                "dropped": name,
                "dropped_url": corpus.pages[name].url,
                "kept": original,
                "kept_url": corpus.pages[original].url,
                "distance": match.distance,
                "similarity": match.similarity,
                "tests": list(match.tests),
            }
            for name, (original, match) in drops.items()
            if judgements[name] == "wrong"
        ],
    }
