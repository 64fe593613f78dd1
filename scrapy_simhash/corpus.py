"""A folder of labelled pages: `pages.csv`, `pairs.csv` and the pages.

::

    pages.csv    id, path; also known: url, lang, source, licence
    pairs.csv    id_a, id_b, label (dup, distinct or unknown); also known: source, why

Pages are HTML files, gzipped where the name ends in .gz. Whatever is wrong with a row is named and
the row left out; the rest is still judged.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

Label: TypeAlias = Literal["dup", "distinct", "unknown"]
LABELS: tuple[str, ...] = get_args(Label)
# Some archives hold long URLs and extracts in a cell; Python's own limit is 128 KiB.
_LARGEST_CELL_BYTES = 16 * 2**20


class CorpusError(Exception):
    """The folder is no corpus at all; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class LabelledPage:
    """A row of `pages.csv`."""

    id: str
    path: Path
    url: str
    language: str
    source: str

    def read(self) -> bytes:
        """Read its HTML.

        Raises:
            OSError: it cannot be read, or is no gzip file although its name says so.
        """
        octets = self.path.read_bytes()
        if self.path.suffix != ".gz":
            return octets
        try:
            return gzip.decompress(octets)
        except (EOFError, zlib.error) as error:
            raise OSError(f"damaged gzip file: {error}") from error


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """A row of `pairs.csv`.

    Attributes:
        source: "" where the column is missing.
        why: of the label, for people; up to the first semicolon it is a tag.
    """

    first: str
    second: str
    label: Label
    source: str
    why: str

    @property
    def tag(self) -> str:
        """What kind of pair it is; "" where nothing says so."""
        return self.why.partition(";")[0].strip()

    @property
    def difficulty(self) -> str:
        """How hard it is to tell, by the second part of `why`; "" where nothing says so."""
        parts = self.why.split(";")
        return parts[1].strip() if len(parts) > 1 else ""


@dataclass
class Corpus:
    """What was read of a folder.

    Attributes:
        problems: what was wrong with it, one line each.
    """

    pages: dict[str, LabelledPage] = field(default_factory=dict)
    pairs: list[LabelledPair] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def read_corpus(folder: Path) -> Corpus:
    """Read the two tables; no page is opened.

    Raises:
        CorpusError: a table is missing, unreadable, or lacks a column that it must have.
    """
    corpus = Corpus()
    for number, row in _read_rows(
        folder / "pages.csv", ("id", "path"), ("url", "lang", "source", "licence"), corpus
    ):
        _add_page(corpus, folder, number, row)
    for number, row in _read_rows(
        folder / "pairs.csv", ("id_a", "id_b", "label"), ("source", "why"), corpus
    ):
        _add_pair(corpus, number, row)
    return corpus


def _read_rows(
    path: Path, wanted: Sequence[str], known: Sequence[str], corpus: Corpus
) -> list[tuple[int, dict[str, str]]]:
    csv.field_size_limit(_LARGEST_CELL_BYTES)
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, restkey="", strict=True)
            columns = list(reader.fieldnames or ())
            rows = [(reader.line_num, row) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise CorpusError(f"{path} cannot be read: {error}") from error
    if missing := [name for name in wanted if name not in columns]:
        raise CorpusError(f"{path} has no column {', '.join(missing)}; it has {', '.join(columns)}")
    for name in columns:
        if name not in {*wanted, *known}:
            corpus.problems.append(f"{path.name}: unknown column {name!r}; not used")
    whole = []
    for number, row in rows:
        if "" in row or None in row.values():
            corpus.problems.append(f"{path.name} line {number}: not {len(columns)} cells")
        else:
            whole.append((number, row))
    return whole


def _add_page(corpus: Corpus, folder: Path, number: int, row: dict[str, str]) -> None:
    name = row["id"]
    path = folder / row["path"]
    if not name:
        corpus.problems.append(f"pages.csv line {number}: no id")
    elif name in corpus.pages:
        corpus.problems.append(f"pages.csv line {number}: id {name!r} a second time; not used")
    elif not path.resolve().is_relative_to(folder.resolve()):
        corpus.problems.append(f"pages.csv line {number}: {row['path']!r} is outside of the folder")
    else:
        corpus.pages[name] = LabelledPage(
            name, path, row.get("url", ""), row.get("lang", ""), row.get("source", "")
        )


def _add_pair(corpus: Corpus, number: int, row: dict[str, str]) -> None:
    first, second, label = row["id_a"], row["id_b"], row["label"]
    unknown = [name for name in (first, second) if name not in corpus.pages]
    if unknown:
        corpus.problems.append(f"pairs.csv line {number}: no page {', '.join(map(repr, unknown))}")
    elif first == second:
        corpus.problems.append(f"pairs.csv line {number}: {first!r} with itself")
    elif label not in LABELS:
        corpus.problems.append(
            f"pairs.csv line {number}: label {label!r}; must be {', '.join(LABELS)}"
        )
    else:
        source = row.get("source") or corpus.pages[first].source
        corpus.pairs.append(LabelledPair(first, second, label, source, row.get("why", "")))  # type: ignore[arg-type]  # asked above
