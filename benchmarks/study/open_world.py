"""What a crawl of sites that nobody labelled drops, to be read by a person.

    python benchmarks/study/open_world.py NAME=FOLDER... [--seed 0] [--confirmed FILE]

Each FOLDER holds the HTML of one site, as `boost=/usr/share/doc/libboost1.81-doc/doc/html`, or
pages with their addresses in a `pages.csv` (`path`, `url`). They are judged in the order in which a
spider that follows all links meets them, breadth first from index pages; what no link leads to
comes last, and links of dropped pages are followed, too. Each drop is listed with its names, what
the rule counted, and the exact similarity of the shingles, which the rule does not know. A drop is
*clear* where nearly all shingles are the same and no name differs; a person reads the others.
Verdicts of people, `{"NAME": {"DROPPED < KEPT": "right", "arguable" or "wrong"}}`, are counted from
`--confirmed`; with `--draw 60` so many of what is still to be read are drawn and listed.
Drops depend a little on the secret of a store, which `--seed` stands for.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections import Counter, deque
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

from evaluate import judge_in_order
from scoring import print_table
from scrapy.http import HtmlResponse
from scrapy.linkextractors import LinkExtractor

from scrapy_simhash.config import Config
from scrapy_simhash.errors import NotJudgedError
from scrapy_simhash.judging.documents import Document, make_document
from scrapy_simhash.pages.facts import Page
from scrapy_simhash.pages.features import normalise, tokenise
from scrapy_simhash.pages.fingerprint import fingerprint_page, read_page

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_CONFIG = Config()
_SHINGLE = 3
_CLEARLY_ALIKE = 0.98
_LINKS = LinkExtractor(unique=True, deny_extensions=())


class Site:
    """A folder of HTML, as a site with a name."""

    def __init__(self, name: str, folder: Path) -> None:
        table = folder / "pages.csv"
        if table.exists():
            with table.open(encoding="utf-8", newline="") as file:
                self.files = {row["url"]: folder / row["path"] for row in csv.DictReader(file)}
        else:
            files = sorted(file for file in folder.rglob("*.htm*") if file.is_file())
            names = (quote(str(file.relative_to(folder))) for file in files)
            self.files = {
                f"http://{name}.test/{path}": file for path, file in zip(names, files, strict=True)
            }

    def walk(self) -> Iterator[str]:
        """List the addresses in the order in which links lead to them, each once."""
        starts = sorted(self.files, key=lambda url: (not url.endswith("/index.html"), url))
        seen: set[str] = set()
        for start in starts:
            waiting = deque([start])
            while waiting:
                url = waiting.popleft()
                if url not in seen:
                    seen.add(url)
                    yield url
                    waiting.extend(link for link in self._list_links(url) if link not in seen)

    def _list_links(self, url: str) -> Iterator[str]:
        response = HtmlResponse(url, body=self.files[url].read_bytes(), encoding="utf-8")
        for link in _LINKS.extract_links(response):
            parts = urlsplit(link.url)._replace(query="", fragment="")
            path = quote(unquote(parts.path))
            for found in (path, f"{path.rstrip('/')}/index.html"):
                if (address := parts._replace(path=found).geturl()) in self.files:
                    yield address

    def read(self, url: str, seed: int) -> Document | None:
        """Make the document of a page; None where it is not judged."""
        try:
            page = fingerprint_page(self.files[url].read_bytes(), seed=seed, url=url)
        except NotJudgedError:
            return None
        return make_document(page, _CONFIG.chosen_rule, Page(url, identity=b"-"))

    def measure(self, first: str, second: str) -> float:
        """Measure the exact similarity of the shingles of two pages, 0 to 1."""
        mine, theirs = map(self._shingle, (first, second))
        return len(mine & theirs) / max(1, len(mine | theirs))

    def _shingle(self, url: str) -> set[tuple[str, ...]]:
        whole = read_page(self.files[url].read_bytes(), None).whole
        words = tokenise(normalise(whole))
        return set(zip(*(words[start:] for start in range(_SHINGLE)), strict=False))


def look(
    name: str, site: Site, most: int, seed: int, confirmed: Mapping[str, str], drawn: int | None
) -> Counter[str]:
    """Judge the pages of a site, print its drops, and count them."""
    documents: dict[str, Document] = {}
    for url in site.walk():
        if len(documents) < most and (document := site.read(url, seed)) is not None:
            documents[url] = document
    verdicts = dict(zip(documents, judge_in_order(documents.values(), _CONFIG, seed), strict=True))
    urls = {verdict.document: url for url, verdict in verdicts.items()}
    counts = Counter(pages=len(documents))
    print(f"# {name}: {len(documents):,} pages of {len(site.files):,}")
    told: dict[str, list[str]] = {}
    for url, verdict in verdicts.items():
        if (match := verdict.match) is None:
            continue
        kept = urls[match.document]
        exact = site.measure(url, kept)
        path, other = (each.removeprefix(f"http://{name}.test") for each in (url, kept))
        clear = exact >= _CLEARLY_ALIKE and not any("differ" in said for said in match.tests[2:3])
        said = confirmed.get(f"{path} < {other}", "clear" if clear else "to be read")
        counts.update(("drops", said))
        mine, theirs = documents[url], documents[kept]
        lines = (
            f"{said}: {path}",
            f"< {other}",
            f"exact similarity {exact:.3f}",
            f"titles: {mine.facts.title!r}, {theirs.facts.title!r}",
            f"headings: {mine.facts.heading!r}, {theirs.facts.heading!r}",
            *match.tests,
        )
        told.setdefault(said, []).append("\n  ".join(lines))
    unread = told.pop("to be read", [])
    if drawn is not None and drawn < len(unread):
        unread = Random(0).sample(unread, drawn)  # noqa: S311 - repeatable, no secret
    for drop in (*unread, *(drop for drops in told.values() for drop in drops)):
        print(f"\n{drop}")
    print(f"\n{name}: {dict(counts)}\n")
    return counts


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="+", metavar="NAME=FOLDER")
    parser.add_argument("--most", type=int, default=4_000, help="pages of a folder, at most")
    parser.add_argument("--seed", type=int, default=0, help="the secret of the store")
    parser.add_argument("--confirmed", type=Path, help="verdicts of people, as JSON")
    parser.add_argument("--draw", type=int, help="list so many of what is to be read")
    arguments = parser.parse_args()
    confirmed = json.loads(arguments.confirmed.read_text()) if arguments.confirmed else {}
    rows = {}
    for given in arguments.folders:
        known, _, folder = given.rpartition("=")
        name = known or Path(folder).name
        site, said = Site(name, Path(folder)), confirmed.get(name, {})
        rows[name] = look(name, site, arguments.most, arguments.seed, said, arguments.draw)
    columns = ("pages", "drops", "clear", "right", "arguable", "wrong", "to be read")
    print_table(
        ["site", *columns],
        ([name, *(f"{counts[column]:,}" for column in columns)] for name, counts in rows.items()),
    )


if __name__ == "__main__":
    main()
