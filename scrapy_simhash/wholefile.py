"""Files that are there as a whole or not at all, whenever their writer is killed."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# Of a temporary name, so that it is not too long for the file system.
_MOST_CHARACTERS = 40


@contextmanager
def open_whole(path: Path, *, overwrite: bool) -> Iterator[IO[bytes]]:
    """Open a file to be written, which gets its name when all of it is on disk.

    It is written within a temporary folder beside it, whose name nobody else has: what a killed
    writer leaves there is in nobody's way. Its permissions are those of any new file.

    Args:
        path: of the file.
        overwrite: replace a file that is there. Otherwise of two writers one fails.

    Yields:
        The file; an error that is raised meanwhile leaves `path` as it was.

    Raises:
        FileExistsError: the path is taken, and not to be overwritten, or is a device or pipe.
        IsADirectoryError: the path is a folder.
        OSError: the folder cannot be written to, the disk is full, or the file system has no hard
            links, which it takes not to overwrite a file that came meanwhile.
    """
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file")
    if path.exists() and not path.is_file():
        # A device would be replaced by a file.
        raise FileExistsError(f"{path} is no ordinary file; name one, or - where that is offered")
    if not overwrite and os.path.lexists(path):
        raise _taken(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path}: there is no folder {path.parent}")
    prefix = f".{path.name[:_MOST_CHARACTERS]}."
    with TemporaryDirectory(prefix=prefix, dir=path.parent) as folder:
        temporary = Path(folder) / "whole"
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if overwrite:
            temporary.replace(path)
        else:
            try:
                # Renaming would replace what another writer has put there by now.
                path.hardlink_to(temporary)
            except FileExistsError:
                raise _taken(path) from None
    sync_folder(path.parent)


def _taken(path: Path) -> FileExistsError:
    return FileExistsError(
        f"{path} is there already; name another file, or overwrite it (--overwrite)"
    )


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
