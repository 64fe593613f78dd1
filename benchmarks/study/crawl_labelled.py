"""What a crawl of labelled pages drops and keeps, in several random orders, as JSON.

`python benchmarks/study/crawl_labelled.py FOLDER [--orders 3] [--beside CHECKOUT]`; labels judge
each drop. Each order is a crawl by Scrapy with the defaults, in a process of its own; no page is
fetched from anywhere. With another checkout, its crawls alternate with those of this one.
"""

from __future__ import annotations

import csv
import gzip
import json
import sys
from collections import Counter, defaultdict
from pathlib import Path
from random import Random
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider
from scrapy.settings.default_settings import CONCURRENT_REQUESTS_PER_DOMAIN

# One folder up, beside the benchmarks.
sys.path.append(str(Path(__file__).parent.parent))
from crawling import PLUGIN, answer_html, crawl
from measuring import ROOT, make_parser, run_apart, run_script, write_result

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Mapping

    from labels import Corpus
    from scrapy.http import Response

    Drops = Mapping[str, tuple[str, Mapping[str, Any]]]

_MEANS = ("dropped", "right", "wrong", "cannot_tell", "wrong_share", "found_share", "lost")


class LabelledSpider(Spider):
    """Asks for all pages, and yields an item of each."""

    name = "labelled"
    urls: list[str]

    async def start(self) -> AsyncIterator[Request]:
        """Ask for the pages in their order."""
        for number, url in enumerate(self.urls):
            yield Request(url, priority=-number, dont_filter=True)

    def parse(self, response: Response) -> Iterator[dict[str, str]]:
        """Yield the address of a page."""
        yield {"url": response.url}


def crawl_here(given: dict[str, Any]) -> None:
    """Crawl pages, `paths` by URL, with a `store`."""
    paths = given["paths"]

    def read(path: Path) -> bytes:
        body = path.read_bytes()
        return gzip.decompress(body) if path.suffix == ".gz" else body

    async def answer(request: Request) -> Response:
        return answer_html(request, read(Path(paths[request.url])))

    settings = {
        "ADDONS": PLUGIN,
        "SIMHASH_STORE": given["store"],
        "CONCURRENT_REQUESTS_PER_DOMAIN": CONCURRENT_REQUESTS_PER_DOMAIN,
    }
    crawl(LabelledSpider, answer, settings, urls=[*paths])


def crawl_apart(checkout: Path, names: Mapping[str, str], paths: Mapping[str, str]) -> Drops:
    """Crawl pages by the code of a checkout; return what was dropped for what, by their names."""
    with TemporaryDirectory() as folder:
        run_apart({"store": folder, "paths": paths}, checkout)
        log = (Path(folder) / "log.jsonl").read_text("ascii").splitlines()
    lines = map(json.loads, log)
    return {
        names[line["url"]]: (names[line["match_url"]], line)
        for line in lines
        if line["status"] == "near_duplicate" and line["action"] == "drop"
    }


def crawl_labelled(folder: Path, orders: int, beside: Path | None = None) -> dict[str, Any]:
    """Crawl all pages of a folder in so many orders, each by each of the checkouts."""
    from labels import locate, read_corpus  # noqa: PLC0415 - crawls run by another checkout

    corpus = read_corpus(folder)
    truth = _Truth(corpus, folder / "pairs_grey.csv")
    # A crawl takes an equal address for a revisit; a page without one is not in it.
    pages_at = ((locate(page), name) for name, page in corpus.pages.items())
    name_of = {Request(url).url: name for url, name in pages_at if url}
    urls = {name: url for url, name in name_of.items()}
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for seed in range(orders):
        names = sorted(urls)
        Random(seed).shuffle(names)  # noqa: S311 - repeatable, no secret
        paths = {urls[name]: str(corpus.pages[name].path.absolute()) for name in names}
        for checkout in filter(None, (ROOT, beside)):
            drops = crawl_apart(checkout, name_of, paths)
            found[str(checkout)].append({"seed": seed, **_describe(corpus, truth, names, drops)})
    return {
        "pages": len(urls),
        "documents": len({truth.document_of(name) for name in urls}),
        **{
            "here" if checkout == str(ROOT) else "beside": {
                "mean": {name: _find_mean(name, crawls) for name in _MEANS},
                "orders": crawls,
            }
            for checkout, crawls in found.items()
        },
    }


def _find_mean(name: str, crawls: Iterable[Mapping[str, Any]]) -> float | None:
    values = [each[name] for each in crawls if each[name] is not None]
    return round(fmean(values), 4) if values else None


class _Truth:
    """Whether two pages are one document, by labels, clusters, and pairs nobody would label."""

    def __init__(self, corpus: Corpus, grey: Path) -> None:
        from labels import LABELS, LabelledDocuments  # noqa: PLC0415 - as above

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


def _describe(corpus: Corpus, truth: _Truth, names: Iterable[str], drops: Drops) -> dict[str, Any]:
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
        "wrong_share": round(wrong / (right + wrong), 4) if right + wrong else None,
        "redundant": redundant,
        "found": found,
        "found_share": round(found / redundant, 4) if redundant else None,
        "lost": len(lost),
        "perhaps_lost": len(gone) - len(lost),
        "lost_documents": lost,
        "redundant_kept": [page for pages in kept.values() for page in pages[1:]],
        "wrong_drops": [
            {"dropped": name, "kept": original}
            | {"dropped_url": corpus.pages[name].url, "kept_url": corpus.pages[original].url}
            | {each: match[each] for each in ("distance", "similarity", "tests")}
            for name, (original, match) in drops.items()
            if judgements[name] == "wrong"
        ],
    }


def main() -> None:
    """Crawl, and print what came of it."""
    parser = make_parser(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--orders", type=int, default=3)
    parser.add_argument("--beside", type=Path, help="another checkout")
    options = parser.parse_args()
    found = crawl_labelled(options.folder, options.orders, options.beside)
    print(json.dumps(found, indent=2))
    write_result(options.output, ("scrapy-simhash", "scrapy", "turbohtml"), **found)


if __name__ == "__main__":
    run_script(main, crawl_here)
