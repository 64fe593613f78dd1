"""What a crawl of labelled pages drops and keeps, in several random orders, as JSON.

`python benchmarks/study/crawl_labelled.py FOLDER [--orders 3]`; labels judge each drop.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections import Counter, defaultdict
from dataclasses import asdict, replace
from pathlib import Path
from random import Random
from statistics import fmean
from typing import TYPE_CHECKING, Any

from msgspec import structs

from scrapy_simhash.config import Config
from scrapy_simhash.inspection import evaluation
from scrapy_simhash.inspection.evaluation import rounded
from scrapy_simhash.inspection.labels import LABELS, LabelledDocuments, locate, read_corpus
from scrapy_simhash.pages.fingerprint import make_recipe

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from scrapy_simhash.inspection.labels import Corpus
    from scrapy_simhash.judging.documents import Match

_MEANS = ("dropped", "right", "wrong", "cannot_tell", "wrong_share", "found_share", "lost")


def crawl_labelled(config: Config, folder: Path, orders: int) -> dict[str, Any]:
    """Judge all pages of a folder in one store, in so many orders, each with a seed of its own."""
    corpus = read_corpus(folder)
    truth = _Truth(corpus, folder / "pairs_grey.csv")
    # A crawl takes an equal address for a revisit.
    shared = Counter(page.url for page in corpus.pages.values())
    pages = {
        name: structs.replace(page, url=locate(page) + f"#{name}" * (shared[page.url] > 1))
        for name, page in corpus.pages.items()
    }
    known, problems = replace(corpus, pages=pages), list(corpus.problems)
    crawled: list[dict[str, Any]] = []
    for seed in range(orders):
        made = evaluation.fingerprint_all(
            known, config, lambda: None, [] if crawled else problems, seed
        )
        documents = evaluation.make_documents(known, made, config)
        names = sorted(documents)
        Random(seed).shuffle(names)  # noqa: S311 - repeatable, no secret
        judged = {name: document for name in names if (document := documents[name])}
        verdicts = evaluation.judge_in_order(judged.values(), config, seed)
        name_of = {each.document: name for name, each in zip(judged, verdicts, strict=True)}
        drops = {
            name: (name_of[each.match.document], each.match)
            for name, each in zip(judged, verdicts, strict=True)
            if each.match is not None
        }
        crawled.append({"seed": seed, **_describe(corpus, truth, names, drops)})
    shares = {name: [row[name] for row in crawled if row[name] is not None] for name in _MEANS}
    return {
        "recipe": asdict(make_recipe(config.extractor, config.features)),
        "distance": config.distance,
        "confirm": config.confirm,
        "pages": len(made),
        "documents": len({truth.document_of(name) for name in made}),
        "not_judged": Counter(page for page in made.values() if isinstance(page, str)),
        "problems": problems,
        "orders": crawled,
        "mean": {name: rounded(fmean(row)) if row else None for name, row in shares.items()},
    }


class _Truth:
    """Whether two pages are one document, by labels, clusters, and pairs nobody would label."""

    def __init__(self, corpus: Corpus, grey: Path) -> None:
        self.document_of = LabelledDocuments(corpus).find
        pairs: dict[str, list[tuple[str, str]]] = {label: [] for label in LABELS}
        for pair in corpus.pairs:
            pairs[pair.label].append((pair.first, pair.second))
        if grey.exists():
            with grey.open(newline="", encoding="utf-8-sig") as file:
                pairs["unknown"] += [(row["id_a"], row["id_b"]) for row in csv.DictReader(file)]
        unsure = dict.fromkeys(map(frozenset, pairs["unknown"]), "grey")
        different = dict.fromkeys(map(frozenset, pairs["distinct"]), "wrong")
        # Two documents differ if a label parts two of their pages, and no two others are unsure.
        self._pages = unsure | different
        self._documents = {
            frozenset(map(self.document_of, pair)): judgement
            for pair, judgement in [*different.items(), *unsure.items()]
        }

    def judge_drop(self, dropped: str, kept: str) -> str:
        """Judge a drop: `right`, `wrong`, or why nobody can tell: `grey`, `unlabelled`."""
        judgement = self._pages.get(frozenset((dropped, kept)))
        documents = frozenset(map(self.document_of, (dropped, kept)))
        if judgement != "wrong" and len(documents) == 1:
            return "right"
        return judgement or self._documents.get(documents, "unlabelled")


def _describe(
    corpus: Corpus, truth: _Truth, names: Iterable[str], drops: Mapping[str, tuple[str, Match]]
) -> dict[str, Any]:
    """Count what one order of the pages gave."""
    judgements = {name: truth.judge_drop(name, kept) for name, (kept, _) in drops.items()}
    kept: defaultdict[str, list[str]] = defaultdict(list)  # pages by document, in their order
    wronged: set[str] = set()  # documents of which a page was dropped wrongly
    redundant = found = 0  # came after a page of the document was kept; was dropped then
    for name in names:
        document, is_wrong = truth.document_of(name), judgements.get(name) == "wrong"
        redundant += bool(kept[document])
        wronged |= {document} if is_wrong else set()
        if name not in drops:
            kept[document].append(name)
        else:
            found += bool(kept[document]) and not is_wrong
    counts = Counter(judgements.values())
    gone = [document for document, pages in kept.items() if not pages]
    lost = [document for document in gone if document in wronged]
    return {
        "dropped": len(drops),
        "right": (right := counts["right"]),
        "wrong": (wrong := counts["wrong"]),
        "cannot_tell": counts["grey"] + counts["unlabelled"],
        "grey": counts["grey"],
        "wrong_share": rounded(wrong / (right + wrong)) if right + wrong else None,
        "redundant": redundant,
        "found": found,
        "found_share": rounded(found / redundant) if redundant else None,
        "lost": len(lost),
        "perhaps_lost": len(gone) - len(lost),
        "lost_documents": lost,
        "redundant_kept": [page for pages in kept.values() for page in pages[1:]],
        "wrong_drops": [
            {"dropped": name, "kept": original}
            | {"dropped_url": corpus.pages[name].url, "kept_url": corpus.pages[original].url}
            | {each: getattr(match, each) for each in ("distance", "similarity", "tests")}
            for name, (original, match) in drops.items()
            if judgements[name] == "wrong"
        ],
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--orders", type=int, default=3)
    print(json.dumps(crawl_labelled(Config(), **vars(parser.parse_args())), indent=1))
