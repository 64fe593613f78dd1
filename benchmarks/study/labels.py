"""Read labelled pairs of pages from a folder.

::

    pages.csv        id, path; also read: url, source
    pairs.csv        id_a, id_b, label (dup, distinct or unknown); also read: source, why
    clusters.csv     cluster, id. The pages of a cluster are one document

The last one may be missing. Pages are HTML files, gzipped if the name ends in .gz.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from collections import defaultdict
from functools import lru_cache
from pathlib import Path  # noqa: TC003 - msgspec reads the annotations
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, get_args
from urllib.parse import quote

import msgspec
import xxhash

from scrapy_simhash.judging.hosts import SAMPLE, draw_sample
from scrapy_simhash.judging.matching import compare_by_words, compare_plainly
from scrapy_simhash.judging.rule import UNKNOWN, Site
from scrapy_simhash.judging.words import Page
from scrapy_simhash.pages.addresses import form_of, host_of
from scrapy_simhash.pages.facts import unpack

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from scrapy_simhash.judging.documents import Decision, Document, Rule

Label: TypeAlias = Literal["dup", "distinct", "unknown"]
LABELS: tuple[str, ...] = get_args(Label)
# Some archives have long URLs and extracts in a cell; Python's default limit is 128 KiB.
_LARGEST_CELL_BYTES = 16 * 2**20


class CorpusError(Exception):
    """A folder has no labelled pages, or bad ones; the message says what is missing or wrong."""


class LabelledPage(msgspec.Struct, frozen=True):
    """A row of `pages.csv`."""

    id: str
    path: Path
    url: str = ""
    source: str = ""

    def read(self) -> bytes:
        """Read its HTML."""
        try:
            octets = self.path.read_bytes()
            return gzip.decompress(octets) if self.path.suffix == ".gz" else octets
        except (OSError, EOFError, zlib.error) as error:
            raise CorpusError(f"page {self.id!r} cannot be read: {error}") from error


class LabelledPair(msgspec.Struct, frozen=True, rename={"first": "id_a", "second": "id_b"}):
    """A row of `pairs.csv`."""

    first: str
    second: str
    label: Label
    source: str = ""  # by default the source of its first page
    why: str = ""


class Corpus(NamedTuple):
    """The pages of a folder by id, its pairs, and the names of clusters by a page's id."""

    pages: dict[str, LabelledPage]
    pairs: list[LabelledPair]
    clusters: dict[str, str]


class LabelledDocuments:
    """Which pages are one document: those of a cluster, and those that labels call duplicates."""

    def __init__(self, corpus: Corpus) -> None:
        firsts: dict[str, str] = {}  # pages of clusters
        self._document = {
            page: firsts[cluster]
            for page, cluster in corpus.clusters.items()
            if page in corpus.pages and firsts.setdefault(cluster, page) != page
        }
        for pair in corpus.pairs:
            one, other = self.find(pair.first), self.find(pair.second)
            if pair.label == "dup" and one != other:
                self._document[other] = one

    def find(self, page: str) -> str:
        """Return the page that stands for all pages of its document, or the page itself."""
        while (other := self._document.get(page, page)) != page:
            page = other
        return page


def locate(page: LabelledPage) -> str:
    """Return the address of a page; a file ("deb:...") is on a host of its source."""
    if not page.url or page.url.startswith(("http://", "https://")):
        return page.url
    return f"http://{page.source}.invalid/{quote(page.url)}"


def read_corpus(folder: Path) -> Corpus:
    """Read the tables of a folder; opens no page."""
    if not folder.is_dir():
        raise CorpusError(f"there is no folder {folder}; name one with pages.csv and pairs.csv")
    corpus = Corpus({}, [], {})
    for place, row in _read_rows(folder / "pages.csv", ("id", "path")):
        page = msgspec.convert(row, LabelledPage, dec_hook=lambda _, path: folder / path)
        if not page.id or page.id in corpus.pages:
            raise CorpusError(f"{place}: id {page.id!r} is empty or repeated; name it otherwise")
        if not page.path.resolve().is_relative_to(folder.resolve()):
            raise CorpusError(f"{place}: {row['path']!r} is outside of the folder; put it there")
        corpus.pages[page.id] = page
    for place, row in _read_rows(folder / "pairs.csv", ("id_a", "id_b", "label")):
        corpus.pairs.append(_read_pair(corpus, place, row))
    if (path := folder / "clusters.csv").exists():
        rows = [row for _, row in _read_rows(path, ("cluster", "id"))]
        corpus.clusters.update((row["id"], row["cluster"]) for row in rows)
    return corpus


def _read_rows(path: Path, wanted: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Read the rows of a table, each with its place, for people."""
    csv.field_size_limit(_LARGEST_CELL_BYTES)
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, restkey="", strict=True)
            columns = list(reader.fieldnames or ())
            rows = [(f"{path.name} line {reader.line_num}", row) for row in reader]
    except FileNotFoundError as error:
        needed = f"{path.name} has the columns {', '.join(wanted)}; name a folder with this file"
        raise CorpusError(f"{path} is missing: {needed}, or write it") from error
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise CorpusError(f"{path} cannot be read: {error}") from error
    if missing := [name for name in wanted if name not in columns]:
        raise CorpusError(f"{path} has no column {', '.join(missing)}; it has {', '.join(columns)}")
    for place, row in rows:
        if "" in row or None in row.values():
            raise CorpusError(f"{place}: not {len(columns)} cells, as its head has")
        yield place, row


def _read_pair(corpus: Corpus, place: str, row: dict[str, str]) -> LabelledPair:
    if unknown := [row[key] for key in ("id_a", "id_b") if row[key] not in corpus.pages]:
        raise CorpusError(f"{place}: no page {', '.join(map(repr, unknown))} in pages.csv")
    try:
        pair = msgspec.convert(row, LabelledPair)
    except msgspec.ValidationError:  # all other columns are free text
        told = f"label {row['label']!r}; must be {', '.join(LABELS)}"
        raise CorpusError(f"{place}: {told}") from None
    if pair.first == pair.second:
        raise CorpusError(f"{place}: {pair.first!r} is paired with itself")
    source = pair.source or corpus.pages[pair.first].source
    return msgspec.structs.replace(pair, source=source)


_SITES_REMEMBERED = 32


class FolderSites:
    """Finds the sites of two pages of a folder, without all pages of their documents.

    Another seed draws other samples.
    """

    def __init__(self, corpus: Corpus, documents: Mapping[str, Document], seed: int) -> None:
        self._document_of, self._seed, self._pages = LabelledDocuments(corpus).find, seed, documents
        self._by_host: defaultdict[str, list[str]] = defaultdict(list)
        for name in sorted(self._pages, key=self._place):
            facts = self._pages[name].facts
            host = host_of(facts.url)
            if host and facts.sketch and not facts.stub:
                self._by_host[host].append(name)
        self._drawn: dict[str, list[str]] = {}
        self._make_site = lru_cache(_SITES_REMEMBERED)(self._read_site)

    def find(self, first: str, second: str) -> tuple[Site, Site]:
        """Find the sites of two pages by their ids; where one is not known, none is."""
        without = frozenset(map(self._document_of, (first, second)))
        mine, theirs = (
            self._find_site(host_of(self._pages[page].facts.url), without)
            for page in (first, second)
        )
        return (mine, theirs) if mine.known and theirs.known else (UNKNOWN, UNKNOWN)

    def compare(self, first: str, second: str, rule: Rule, sites: tuple[Site, Site]) -> Decision:
        """Compare two pages by a rule; the one is judged that the seed has come second."""
        page, kept = sorted((first, second), key=self._place)
        mine, theirs = self._pages[page], self._pages[kept]
        if rule.name == "plain" or not (mine.wording and theirs.wording):
            return compare_plainly(mine.facts, theirs.facts, rule)
        wordings = unpack(mine.wording), unpack(theirs.wording)
        return compare_by_words(mine.facts, theirs.facts, wordings, sites)

    def _place(self, name: str) -> int:
        return xxhash.xxh3_64_intdigest(name.encode(), self._seed)

    def _read_site(self, names: tuple[str, ...]) -> Site:
        pages = enumerate(map(self._pages.__getitem__, names))
        return Site({n: Page.make(page.facts, unpack(page.wording)) for n, page in pages})

    def _find_site(self, host: str, without: frozenset[str]) -> Site:
        """Find the site of a host, by one page of each of its other documents."""
        drawn = self._drawn.get(host)
        if drawn is None:
            first = {self._document_of(name): name for name in reversed(self._by_host[host])}
            names = [name for name in self._by_host[host] if first[self._document_of(name)] == name]
            drawn = self._drawn[host] = draw_sample(names, self._describe, SAMPLE + 2)
        others = [name for name in drawn if self._document_of(name) not in without]
        return self._make_site(tuple(others[:SAMPLE]))

    def _describe(self, name: str) -> tuple[int, str]:
        page = self._pages[name]
        return page.facts.suspicion, form_of(page.facts.url)
