"""The labels of pairs of a store: a CSV that people may read, written a line at a time.

::

    id_a, id_b     documents by their number in the store, the older one first
    label          dup, distinct or unknown
    source, why    host of the first page; how near the two were
    url_a, url_b   what the numbers were when the label was made

Every line is a row and read by itself, so one that a killed writer left half written spoils no
other.
"""

from __future__ import annotations

import csv
import fcntl
import io
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from scrapy_simhash.corpus import LABELS, LabelledPair
from scrapy_simhash.untrusted import printable
from scrapy_simhash.wholefile import sync_folder

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType
    from typing import Self

LABELS_FILE = "calibration.csv"
COLUMNS = ("id_a", "id_b", "label", "source", "why", "url_a", "url_b")
_FILE_MODE = 0o600
_SHOWN = 60


class LabelsError(ValueError):
    """The file holds no labels, or is in use; the message says why."""


class LabelledRow(NamedTuple):
    """A label, and which documents of a store it is about.

    Attributes:
        urls: of both documents when the label was made, escaped as `printable` does.
        line: of the file, from 1.
    """

    pair: LabelledPair
    urls: tuple[str, str]
    line: int

    @property
    def documents(self) -> tuple[int, int]:
        """Their numbers in the store."""
        return int(self.pair.first), int(self.pair.second)


@dataclass
class Labels:
    """What was read of a file.

    Attributes:
        rows: by the numbers of both documents; of two labels for one pair the later one.
        problems: lines that could not be used, one text each.
    """

    rows: dict[tuple[int, int], LabelledRow] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def read_labels(path: Path) -> Labels:
    """Read a file of labels; one that is not there has none.

    Raises:
        LabelsError: its first line does not name the columns, or it is no text.
        OSError: it cannot be read.
    """
    labels = Labels()
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return labels
    except UnicodeDecodeError as error:
        raise LabelsError(f"{path} is no text: {error}") from error
    lines = text.split("\n")
    heading = tuple(lines[0].rstrip("\r").split(","))
    if text and heading != COLUMNS:
        raise LabelsError(
            f"{path} holds no labels of a store: its first line is "
            f"{printable(lines[0][:_SHOWN])!r}, must be {','.join(COLUMNS)!r}; name another file"
        )
    for number, line in enumerate(lines[1:], 2):
        if line:
            whole = number < len(lines)
            _add_row(labels, line.rstrip("\r"), f"{path.name} line {number}", number, whole=whole)
    return labels


def _add_row(labels: Labels, line: str, where: str, number: int, *, whole: bool) -> None:
    try:
        cells = next(csv.reader([line], strict=True))
    except csv.Error:
        cells = []
    if not whole or len(cells) != len(COLUMNS):
        labels.problems.append(
            f"{where}: {printable(line[:_SHOWN])!r} is half a row, as a killed writer leaves it; "
            "not used: label the pair again, and delete the line"
        )
        return
    first, second, label, source, why, *urls = cells
    if not (_is_number(first) and _is_number(second)) or first == second:
        labels.problems.append(f"{where}: {first!r} and {second!r} are no two document numbers")
    elif label not in LABELS:
        labels.problems.append(f"{where}: label {label!r}; must be {', '.join(LABELS)}")
    else:
        pair = LabelledPair(first, second, label, source, why)  # type: ignore[arg-type]  # asked above
        row = LabelledRow(pair, (urls[0], urls[1]), number)
        labels.rows[row.documents] = row


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


class LabelWriter:
    """Appends labels to a file, each of them durable before the next question is asked.

    Args:
        path: made with its heading, and its folder, where there is none. A last line without its
            end is ended, so that it spoils no later one; nothing is deleted.

    Attributes:
        labels: what was in it at the beginning.

    Raises:
        LabelsError: another process is writing to it, or it holds no labels.
        OSError: it cannot be opened for writing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._starts: list[int] = []
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, _FILE_MODE)
        try:
            self._lock()
            self.labels = read_labels(path)
            if not os.fstat(self._file).st_size:
                self._append(",".join(COLUMNS) + "\n")
                sync_folder(path.parent)
            elif os.pread(self._file, 1, os.fstat(self._file).st_size - 1) != b"\n":
                self._append("\n")
        except BaseException:
            self.close()
            raise

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LabelsError(
                f"{self._path} is in use by another calibrate; end that one, or name another file"
            ) from None

    def write(self, pair: LabelledPair, urls: tuple[str, str]) -> None:
        """Append a label; when this returns it is on disk.

        Raises:
            OSError: it could not be written as a whole.
        """
        cells = (pair.first, pair.second, pair.label, pair.source, pair.why, *urls)
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow([printable(cell) for cell in cells])
        self._starts.append(self._append(line.getvalue()))

    def take_back(self) -> None:
        """Remove the last label that was written here and not yet taken back."""
        os.ftruncate(self._file, self._starts.pop())
        os.fsync(self._file)

    def _append(self, text: str) -> int:
        start = os.fstat(self._file).st_size
        octets = text.encode()
        if (written := os.write(self._file, octets)) < len(octets):
            raise OSError(f"{self._path}: only {written} of {len(octets)} bytes could be written")
        os.fsync(self._file)
        return start

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
