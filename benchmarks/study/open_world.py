"""What a crawl of sites that nobody labelled drops, to be read by a person.

    python benchmarks/study/open_world.py NAME=FOLDER... [--most 4000] [--confirmed drops.json]

Each FOLDER holds the HTML of one site, such as `boost=/usr/share/doc/libboost-doc/HTML/doc/html`.
Its pages are judged in the order in which a spider that follows all links meets them, breadth first
from its index pages; what no link leads to comes last. Each drop is listed with its names, what the
rule counted, and the exact similarity of the shingles, which the rule does not know. A drop is
*clear* where nearly all shingles are the same and no name differs; a person reads the others.
Verdicts of people, `{"NAME": {"DROPPED < KEPT": "right" or "wrong"}}`, are counted from a file.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, deque
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

from scrapy.http import HtmlResponse
from scrapy.linkextractors import LinkExtractor

from scrapy_simhash.config import Config
from scrapy_simhash.errors import UnjudgedError
from scrapy_simhash.inspection.evaluation.evaluation import judge_in_order
from scrapy_simhash.judging.documents import Document, make_document
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
        self.host = f"{name}.test"
        files = sorted(file for file in folder.rglob("*.htm*") if file.is_file())
        self.files = {f"http://{self.host}/{quote(str(f.relative_to(folder)))}": f for f in files}

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
            path = quote(unquote(urlsplit(link.url).path))
            for found in (path, f"{path.rstrip('/')}/index.html"):
                if f"http://{self.host}{found}" in self.files:
                    yield f"http://{self.host}{found}"

    def read(self, url: str) -> Document | None:
        """Make the document of a page; None where it is not judged."""
        try:
            page = fingerprint_page(self.files[url].read_bytes(), url=url)
        except UnjudgedError:
            return None
        return make_document(page, _CONFIG.rule, url=url)

    def measure(self, first: str, second: str) -> float:
        """Measure the exact similarity of the shingles of two pages, 0 to 1."""
        mine, theirs = map(self._shingle, (first, second))
        return len(mine & theirs) / max(1, len(mine | theirs))

    def _shingle(self, url: str) -> set[tuple[str, ...]]:
        whole = read_page(self.files[url].read_bytes(), None, _CONFIG.extractor).whole
        words = tokenise(normalise(whole))
        return set(zip(*(words[start:] for start in range(_SHINGLE)), strict=False))


def look(name: str, folder: Path, most: int, confirmed: Mapping[str, str]) -> Counter[str]:
    """Judge the pages of a folder, print its drops, and count them."""
    site = Site(name, folder)
    documents: dict[str, Document] = {}
    for url in site.walk():
        if len(documents) < most and (document := site.read(url)) is not None:
            documents[url] = document
    verdicts = dict(zip(documents, judge_in_order(documents.values(), _CONFIG), strict=True))
    urls = {verdict.document: url for url, verdict in verdicts.items()}
    counts = Counter(pages=len(documents))
    print(f"# {name}: {len(documents):,} pages of {len(site.files):,}")
    for url, verdict in verdicts.items():
        if (match := verdict.match) is None:
            continue
        kept = urls[match.document]
        exact = site.measure(url, kept)
        path, other = (urlsplit(each).path for each in (url, kept))
        clear = exact >= _CLEARLY_ALIKE and not any("differ" in said for said in match.tests[2:3])
        said = confirmed.get(f"{path} < {other}", "clear" if clear else "to be read")
        counts.update(("drops", said))
        mine, theirs = documents[url], documents[kept]
        print(f"\n{said}: {path}\n  < {other}\n  exact similarity {exact:.3f}")
        for kind, called, another in (
            ("titles", mine.title, theirs.title),
            ("headings", mine.heading, theirs.heading),
        ):
            print(f"  {kind}: {called!r}, {another!r}")
        print("\n".join(f"  {said}" for said in chain(match.tests)))
    print(f"\n{name}: {dict(counts)}\n")
    return counts


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="+", metavar="NAME=FOLDER")
    parser.add_argument("--most", type=int, default=4_000, help="pages of a folder, at most")
    parser.add_argument("--confirmed", type=Path, help="verdicts of people, as JSON")
    arguments = parser.parse_args()
    confirmed = json.loads(arguments.confirmed.read_text()) if arguments.confirmed else {}
    rows = {}
    for given in arguments.folders:
        known, _, folder = given.rpartition("=")
        name = known or Path(folder).name
        rows[name] = look(name, Path(folder), arguments.most, confirmed.get(name, {}))
    print("| site | pages | drops | right | clear | wrong | to be read |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    columns = ("pages", "drops", "right", "clear", "wrong", "to be read")
    for name, counts in rows.items():
        print(f"| {name} | {' | '.join(f'{counts[column]:,}' for column in columns)} |")


if __name__ == "__main__":
    main()
