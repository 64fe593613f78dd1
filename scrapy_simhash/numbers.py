"""Fingerprints as lines of decimal numbers in, lines of JSON arrays out."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

import numpy as np

from scrapy_simhash.wholefile import open_whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

_LARGEST = 2**64 - 1
_BYTES_PER_READ = 1 << 24
_ROWS_PER_TEXT = 65_536
_SHOWN = 40


def read_numbers(file: IO[bytes], name: str) -> NDArray[np.uint64]:
    """Read newline-separated unsigned decimals.

    Args:
        file: opened for reading bytes; lines may end in CR LF, the last one in nothing.
        name: of the file, for messages.

    Returns:
        All of them in their order, shape (n,). Cost: some passes of numpy over the text, 16 MiB
        of it at a time.

    Raises:
        ValueError: a line that is no number from 0 to 2**64 - 1, an empty one included; names
            file and line.
    """
    parts = [np.empty(0, np.uint64)]
    rest, lines = b"", 0
    while text := file.read(_BYTES_PER_READ):
        whole, newline, rest_after = (rest + text).rpartition(b"\n")
        if newline:
            parts.append(_parse(whole, name, lines + 1))
            lines += parts[-1].size
        rest = rest_after
    if rest:
        parts.append(_parse(rest, name, lines + 1))
    return np.concatenate(parts)


def _parse(text: bytes, name: str, first_line: int) -> NDArray[np.uint64]:
    """Parse whole lines, without the last newline."""
    text = text.replace(b"\r\n", b"\n").removesuffix(b"\r")
    clean = not text.translate(None, b"0123456789\n")
    if clean and b"\n\n" not in text and text[:1].isdigit() and text[-1:].isdigit():
        numbers = np.fromstring(text, np.uint64, sep="\n")
        # What does not fit reads as the largest number; so does that number itself.
        if not (numbers == _LARGEST).any():
            return numbers
    for line, number in enumerate(text.split(b"\n"), first_line):
        _check_line(number, f"{name}, line {line}")
    return np.fromstring(text, np.uint64, sep="\n")


def _check_line(number: bytes, where: str) -> None:
    shown = repr(number.decode("ascii", "backslashreplace")[:_SHOWN])
    cure = "each line holds one fingerprint, a whole number from 0 to 18446744073709551615"
    if not number:
        raise ValueError(f"{where}: is empty; {cure}")
    if not number.isdigit():
        raise ValueError(f"{where}: {shown} is not such a number; {cure}")
    if len(significant := number.lstrip(b"0")) > len(str(_LARGEST)) or (
        significant and int(significant) > _LARGEST
    ):
        raise ValueError(f"{where}: {shown} has more than 64 bits; {cure}")


def format_rows(rows: NDArray[np.uint64]) -> Iterator[str]:
    """Write rows of numbers as JSON arrays, one a line, many lines a text.

    Args:
        rows: shape (n, columns).
    """
    pattern = f"[{', '.join(['%d'] * rows.shape[1])}]\n"
    for start in range(0, len(rows), _ROWS_PER_TEXT):
        some = rows[start : start + _ROWS_PER_TEXT]
        yield pattern * len(some) % tuple(some.ravel().tolist())


def format_lists(lists: Iterable[NDArray[np.uint64]]) -> Iterator[str]:
    """Write arrays of any length as JSON arrays, one a line."""
    for each in lists:
        yield f"{each.tolist()}\n"


def write_whole(path: Path, texts: Iterable[str]) -> int:
    """Write a file as a whole or not at all, see `open_whole`.

    Args:
        path: replaced if it exists.
        texts: what to write, in ASCII.

    Returns:
        How many texts there were.

    Raises:
        OSError: the folder cannot be written to, or the disk is full; `path` is as it was.
    """
    count = 0
    with open_whole(path, overwrite=True) as file:
        for text in texts:
            file.write(text.encode("ascii"))
            count += 1
    return count
