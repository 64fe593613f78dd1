"""Labelled pairs, from a folder of pages or of a store.

::

    pages.csv        id, path; also known: url, lang, source, licence
    pairs.csv        id_a, id_b, label (dup, distinct or unknown); also known: source, why
    clusters.csv     cluster, id; also known: size. The pages of a cluster are one document
    pairs_grey.csv   id_a, id_b; also known: label, source, why. Alike, and nobody would label them
    calibration.csv
      id_a, id_b     documents by their number in the store, the older one first
      label          dup, distinct or unknown
      source, why    host of the first page; distance and similarity of the two
      url_a, url_b   the pages with these numbers when the label was made

The last two of a folder may be missing.
Pages are HTML files, gzipped if the name ends in .gz. A bad row is reported and left out; the rest
is still judged. Labels of a store are written and read line by line, so an incomplete line of a
killed writer does not affect the others.
"""

from __future__ import annotations

import csv
import fcntl
import gzip
import io
import os
import zlib
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path  # noqa: TC003 - msgspec reads the annotations
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, get_args
from urllib.parse import quote

import msgspec

from scrapy_simhash._files import sync_folder
from scrapy_simhash._printable import escape, printable
from scrapy_simhash.errors import CorpusError, LabelsError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


Label: TypeAlias = Literal["dup", "distinct", "unknown"]
LABELS: tuple[str, ...] = get_args(Label)
# Some archives have long URLs and extracts in a cell; Python's default limit is 128 KiB.
_LARGEST_CELL_BYTES = 16 * 2**20


class LabelledPage(msgspec.Struct, frozen=True, rename={"language": "lang"}):
    """A row of `pages.csv`."""

    id: str
    path: Path
    url: str = ""
    language: str = ""
    source: str = ""

    def read(self) -> bytes:
        """Read its HTML. Raises OSError, also if a file named .gz is not a gzip file."""
        octets = self.path.read_bytes()
        if self.path.suffix != ".gz":
            return octets
        try:
            return gzip.decompress(octets)
        except (EOFError, zlib.error) as error:
            raise OSError(f"damaged gzip file: {error}") from error


class LabelledPair(msgspec.Struct, frozen=True, rename={"first": "id_a", "second": "id_b"}):
    """A row of `pairs.csv`, or of the labels of a store."""

    first: str
    second: str
    label: Label
    source: str = ""  # by default the source of its first page
    why: str = ""


@dataclass
class Corpus:
    """The pages of a folder by id, its pairs, and its problems, one line each."""

    # `clusters` has the name of the cluster that a page is in, by the page's id.
    pages: dict[str, LabelledPage] = field(default_factory=dict)
    pairs: list[LabelledPair] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    clusters: dict[str, str] = field(default_factory=dict)


class LabelledDocuments:
    """Which pages are one document: those of a cluster, and those that labels call duplicates."""

    def __init__(self, corpus: Corpus) -> None:
        firsts: dict[str, str] = {}  # pages of clusters
        self._document = {
            page: firsts[cluster]
            for page, cluster in corpus.clusters.items()
            if firsts.setdefault(cluster, page) != page
        }
        for pair in corpus.pairs:
            one, other = self.find(pair.first), self.find(pair.second)
            if pair.label == "dup" and one != other:
                self._document[other] = one

    def find(self, page: str) -> str:
        """Get the page that stands for all pages of its document; one in no cluster for itself."""
        while (other := self._document.get(page, page)) != page:
            page = other
        return page


def locate(page: LabelledPage) -> str:
    """Get the address of a page; that of a file ("deb:...") is on a host of its source."""
    if not page.url or page.url.startswith(("http://", "https://")):
        return page.url
    return f"http://{page.source}.invalid/{quote(page.url)}"


def read_corpus(folder: Path) -> Corpus:
    """Read the tables of a folder, but for grey pairs; opens no page."""
    corpus = Corpus()
    tables = (
        ("pages.csv", ("id", "path"), ("url", "lang", "source", "licence"), _add_page),
        ("pairs.csv", ("id_a", "id_b", "label"), ("source", "why"), _add_pair),
    )
    for name, wanted, known, add in tables:
        for number, row in _read_rows(folder / name, wanted, known, corpus):
            if problem := add(corpus, folder, row):
                corpus.problems.append(f"{name} line {number}: {problem}")
    path = folder / "clusters.csv"
    rows = _read_rows(path, ("cluster", "id"), ("size",), corpus) if path.exists() else ()
    corpus.clusters = {row["id"]: row["cluster"] for _, row in rows if row["id"] in corpus.pages}
    return corpus


def read_grey(folder: Path, corpus: Corpus) -> list[tuple[str, str]]:
    """Read the pairs that are alike and that nobody would label; none without the table."""
    path = folder / "pairs_grey.csv"
    known = ("label", "source", "why")
    rows = _read_rows(path, ("id_a", "id_b"), known, corpus) if path.exists() else ()
    return [(row["id_a"], row["id_b"]) for _, row in rows]


def _read_rows(
    path: Path, wanted: Sequence[str], known: Sequence[str], corpus: Corpus
) -> Iterator[tuple[int, dict[str, str]]]:
    csv.field_size_limit(_LARGEST_CELL_BYTES)
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, restkey="", strict=True)
            columns = list(reader.fieldnames or ())
            rows = [(reader.line_num, row) for row in reader]
    except FileNotFoundError as error:
        needed = f"{path.name} has the columns {', '.join(wanted)}; name a folder with this file"
        raise CorpusError(f"{path} is missing: {needed}, or write it") from error
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise CorpusError(f"{path} cannot be read: {error}") from error
    if missing := [name for name in wanted if name not in columns]:
        raise CorpusError(f"{path} has no column {', '.join(missing)}; it has {', '.join(columns)}")
    for name in columns:
        if name not in {*wanted, *known}:
            corpus.problems.append(f"{path.name}: unknown column {name!r} is ignored")
    for number, row in rows:
        if "" in row or None in row.values():
            corpus.problems.append(f"{path.name} line {number}: not {len(columns)} cells")
        else:
            yield number, row


def _add_page(corpus: Corpus, folder: Path, row: dict[str, str]) -> str:
    """Add a page, or return what is wrong with its row."""
    page = msgspec.convert(row, LabelledPage, dec_hook=lambda _, path: folder / path)
    if not page.id:
        return "no id"
    if page.id in corpus.pages:
        return f"id {page.id!r} is repeated; not used"
    if not page.path.resolve().is_relative_to(folder.resolve()):
        return f"{row['path']!r} is outside of the folder"
    corpus.pages[page.id] = page
    return ""


def _add_pair(corpus: Corpus, _: Path, row: dict[str, str]) -> str:
    """Add a pair, or return what is wrong with its row."""
    if unknown := [row[key] for key in ("id_a", "id_b") if row[key] not in corpus.pages]:
        return f"no page {', '.join(map(repr, unknown))}"
    try:
        pair = read_pair(row)
    except ValueError as error:
        return str(error)
    source = pair.source or corpus.pages[pair.first].source
    corpus.pairs.append(msgspec.structs.replace(pair, source=source))
    return ""


def read_pair(row: Mapping[str, str]) -> LabelledPair:
    """Read a labelled pair; ignores other columns."""
    try:
        pair = msgspec.convert(row, LabelledPair)
    except msgspec.ValidationError:  # all other columns are free text
        raise ValueError(f"label {row['label']!r}; must be {', '.join(LABELS)}") from None
    if pair.first == pair.second:
        raise ValueError(f"{pair.first!r} is paired with itself")
    return pair


LABELS_FILE = "calibration.csv"
COLUMNS = ("id_a", "id_b", "label", "source", "why", "url_a", "url_b")
_FILE_MODE = 0o600
_SHOWN = 60


class LabelledRow(NamedTuple):
    """A label for two documents of a store."""

    pair: LabelledPair
    urls: tuple[str, str]  # when the label was made, escaped as `printable` does
    line: int  # of the file, from 1

    @property
    def documents(self) -> tuple[int, int]:
        """The numbers of the two documents in the store."""
        return int(self.pair.first), int(self.pair.second)


@dataclass
class Labels:
    """The rows of a file, and a problem for each line that could not be used."""

    # By the numbers of both documents; of two labels for one pair the later one counts.
    rows: dict[tuple[int, int], LabelledRow] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def read_labels(path: Path) -> Labels:
    """Read a file of labels; a missing file has none."""
    labels = Labels()
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return labels
    except UnicodeDecodeError as error:
        raise LabelsError(f"{path} is not a text file: {error}") from error
    lines = text.split("\n")
    heading = tuple(lines[0].rstrip("\r").split(","))
    if text and heading != COLUMNS:
        raise LabelsError(
            f"{path} has no labels of a store: its first line is "
            f"{printable(lines[0][:_SHOWN])!r}, not {','.join(COLUMNS)!r}; name another file"
        )
    for number, line in enumerate(lines[1:], 2):
        if line:
            try:
                row = _read_row(line.rstrip("\r"), number, whole=number < len(lines))
            except ValueError as error:
                labels.problems.append(f"{path.name} line {number}: {error}")
            else:
                labels.rows[row.documents] = row
    return labels


def _read_row(line: str, number: int, *, whole: bool) -> LabelledRow:
    try:
        cells = next(csv.reader([line], strict=True))
    except csv.Error:
        cells = []
    if not whole or len(cells) != len(COLUMNS):
        raise ValueError(
            f"{printable(line[:_SHOWN])!r} is an incomplete row, as a killed writer leaves it; "
            "not used: label the pair again, and delete the line"
        )
    row = dict(zip(COLUMNS, cells, strict=True))
    first, second = row["id_a"], row["id_b"]
    if not all(name.isascii() and name.isdigit() for name in (first, second)) or first == second:
        raise ValueError(f"{first!r} and {second!r} are not two different document numbers")
    return LabelledRow(read_pair(row), (row["url_a"], row["url_b"]), number)


class LabelWriter:
    """Appends labels to a file, each durably before the next pair is shown; see `open_labels`."""

    def __init__(self, path: Path, file: int) -> None:
        self._path, self._file = path, file
        self._starts: list[int] = []
        self.labels = read_labels(path)  # as they are now
        size = os.fstat(file).st_size
        if not size:
            self._append(",".join(COLUMNS) + "\n")
            sync_folder(path.parent)
        elif os.pread(file, 1, size - 1) != b"\n":
            self._append("\n")

    def write(self, pair: LabelledPair, urls: tuple[str, str]) -> None:
        """Append a label durably."""
        cells = (pair.first, pair.second, pair.label, pair.source, pair.why, *urls)
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow([escape(str(cell)) for cell in cells])
        self._starts.append(self._append(line.getvalue()))

    def take_back(self) -> None:
        """Remove the last label that this object wrote and has not removed yet."""
        os.ftruncate(self._file, self._starts.pop())
        os.fsync(self._file)

    def _append(self, text: str) -> int:
        start = os.fstat(self._file).st_size
        octets = text.encode()
        if (written := os.write(self._file, octets)) < len(octets):
            raise OSError(f"{self._path}: only {written} of {len(octets)} bytes could be written")
        os.fsync(self._file)
        return start


@contextmanager
def open_labels(path: Path) -> Iterator[LabelWriter]:
    """Open a file of labels, for one writer at a time."""
    # A missing file is made with its folder and heading. An incomplete last line is ended, so that
    # it does not affect later ones; nothing is deleted.
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, _FILE_MODE)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LabelsError(
                f"another `evaluate --label` uses {path}; end that one, or name another file"
            ) from None
        yield LabelWriter(path, file)
    finally:
        os.close(file)
