"""What joins take and give: fingerprints as seomoz/simhash-cpp has them, and those of a store."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from scrapy_simhash.batch.archive import MAGIC, Archive
from scrapy_simhash.stores.opening import open_as_it_is

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from scrapy_simhash.config import Config


STANDARD_STREAM = "-"
_LARGEST = 2**64 - 1
_BYTES_PER_READ = 1 << 24
_ROWS_PER_TEXT = 65_536
_SHOWN = 40


def read_stored(config: Config, store: str | None, input_path: str) -> NDArray[np.uint64]:
    """Read the fingerprints of a store if one was named, or else of an input."""
    if store is None:
        return read_fingerprints(input_path)
    with open_as_it_is(config.store) as opened:
        return opened.fingerprints()


def read_fingerprints(path: str) -> NDArray[np.uint64]:
    """Read an archive, or numbers of a file or of standard input (`-`)."""
    if path == STANDARD_STREAM:
        if sys.stdin.buffer.isatty():
            sys.stderr.write("waiting for numbers, one a line, until Ctrl-D; or use --store\n")
        return read_numbers(sys.stdin.buffer, "standard input")
    if _is_archive(path):
        with Archive(path) as archive:
            return archive.read_all()
    with Path(path).open("rb") as file:
        return read_numbers(file, path)


def _is_archive(path: str) -> bool:
    """Return True if a file is an archive; never reads pipes, because that would empty them."""
    if path == STANDARD_STREAM or not Path(path).is_file():
        return False
    with Path(path).open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


@contextmanager
def open_chunks(
    config: Config, store: str | None, input_path: str
) -> Iterator[tuple[int, Iterable[NDArray[np.uint64]]]]:
    """Open the stored fingerprints; yields their number, and chunks of them."""
    if store is None and _is_archive(input_path):
        with Archive(input_path) as archive:
            yield archive.count, archive.read_chunks()
        return
    stored = read_stored(config, store, input_path)
    yield stored.size, [stored]


def read_numbers(file: IO[bytes], name: str) -> NDArray[np.uint64]:
    """Read newline-separated unsigned decimals; `name` is for error messages; shape (n,)."""
    # Lines may end in CR LF; the last one may have no end. Raises `ValueError`, with file and line,
    # if a line, even an empty one, is not a number from 0 to 2**64 - 1.
    parts, lines = [np.empty(0, np.uint64)], 0
    while some := file.readlines(_BYTES_PER_READ):
        parts.append(_parse(b"".join(some).removesuffix(b"\n"), name, lines + 1))
        lines += len(some)
    return np.concatenate(parts)


def _parse(text: bytes, name: str, first_line: int) -> NDArray[np.uint64]:
    """Parse whole lines, without the last newline."""
    text = text.replace(b"\r\n", b"\n").removesuffix(b"\r")
    clean = not text.translate(None, b"0123456789\n")
    if clean and b"\n\n" not in text and text[:1].isdigit() and text[-1:].isdigit():
        numbers = np.fromstring(text, np.uint64, sep="\n")
        # numpy reads numbers that are too large as the largest one: check all lines with that.
        if not (numbers == _LARGEST).any():
            return numbers
    for line, number in enumerate(text.split(b"\n"), first_line):
        _check_line(number, f"{name}, line {line}")
    return np.fromstring(text, np.uint64, sep="\n")


def _check_line(number: bytes, where: str) -> None:
    shown = repr(number.decode("ascii", "backslashreplace")[:_SHOWN])
    significant = number.lstrip(b"0")
    if not number:
        problem = "is empty"
    elif not number.isdigit():
        problem = f"{shown} is not such a number"
    elif len(significant) > len(str(_LARGEST)) or int(significant or b"0") > _LARGEST:
        problem = f"{shown} has more than 64 bits"
    else:
        return
    cure = "each line holds one fingerprint, a whole number from 0 to 18446744073709551615"
    raise ValueError(f"{where}: {problem}; {cure}")


def format_rows(rows: NDArray[np.uint64]) -> Iterator[str]:
    """Write rows of numbers, shape (n, columns), as lines of JSON arrays; yields many at a time."""
    pattern = f"[{', '.join(['%d'] * rows.shape[1])}]\n"
    for start in range(0, len(rows), _ROWS_PER_TEXT):
        some = rows[start : start + _ROWS_PER_TEXT]
        yield pattern * len(some) % tuple(some.ravel().tolist())
