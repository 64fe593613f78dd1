"""Files that exist completely or not at all, even if their writer is killed."""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Longer names of temporary folders may be too long for the file system.
_MOST_CHARACTERS = 40


@contextmanager
def open_whole(path: Path, *, overwrite: bool, private: bool = True) -> Iterator[IO[bytes]]:
    """Open a file for writing; it gets its name once all of it is on disk."""
    # After an error, `path` is unchanged. The file is written in a temporary folder beside it with
    # a unique name, so the leftovers of a killed writer do no harm. What is private (texts,
    # requests, addresses) only its owner may read, whatever was there before.
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file")
    if path.exists() and not path.is_file():
        # Otherwise the file would replace a device.
        raise FileExistsError(f"{path} is not a regular file; name one, or - if that is offered")
    if not overwrite and os.path.lexists(path):
        raise FileExistsError(
            f"{path} exists already; name another file, or overwrite it (--overwrite)"
        )
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path}: there is no folder {path.parent}")
    prefix = f".{path.name[:_MOST_CHARACTERS]}."
    with TemporaryDirectory(prefix=prefix, dir=path.parent) as folder:
        temporary = Path(folder) / "whole"
        mode = 0o600 if private else 0o666
        with open(temporary, "xb", opener=partial(os.open, mode=mode)) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Make a private folder and its missing parents, durably."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in missing:
        sync_folder(path.parent)


def write_whole(path: Path, texts: Iterable[str], *, overwrite: bool) -> int:
    """Write ASCII texts to a private file, see `open_whole`; return their number."""
    count = 0
    with open_whole(path, overwrite=overwrite) as file:
        for text in texts:
            file.write(text.encode("ascii"))
            count += 1
    return count
