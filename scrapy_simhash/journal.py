"""The journal of an import: how far each source was read, so that a killed import goes on there.

A file of JSON, replaced as a whole. What it says was read is on disk in the store; what was read
beyond it is judged again, which changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self

import msgspec
import xxhash
from filelock import FileLock, Timeout

from scrapy_simhash.sources import START, Position
from scrapy_simhash.wholefile import open_whole

if TYPE_CHECKING:
    from pathlib import Path

_FORMAT = 1


class Named(Protocol):
    """What a journal wants to know of a source, see `sources.Source`."""

    name: str

    def holds(self, position: Position) -> bool:
        """Say whether what was read before a position is still the same."""


class Progress(msgspec.Struct, forbid_unknown_fields=True):
    """How far a source was read, and what came of it.

    Attributes:
        position: up to which everything is in the store.
        pages: that were judged.
        verdicts: their number by status, and by reason where there is one.
        skipped: pages that were not looked at, by reason.
    """

    position: Position = START
    pages: int = 0
    verdicts: dict[str, int] = {}
    skipped: dict[str, int] = {}

    def copy(self) -> Progress:
        """Make another of the same content."""
        return Progress(self.position, self.pages, {**self.verdicts}, {**self.skipped})


class _Content(msgspec.Struct, forbid_unknown_fields=True):
    """The file: whose store, and by the name of each source."""

    format: int
    store: str
    sources: dict[str, Progress]


def name_store(seed: int) -> str:
    """Name a store by its seed, without giving the seed away."""
    return xxhash.xxh3_64_hexdigest(seed.to_bytes(8, "big"))


class Journal:
    """A journal, kept by one process at a time. A context manager.

    Args:
        path: of the file; made if there is none.
        seed: of the store, which tells it from another one at its place.

    Raises:
        ValueError: the file is none, or another import keeps it.
        OSError: it cannot be read or written.
    """

    def __init__(self, path: Path, seed: int) -> None:
        self.path = path
        self._store = name_store(seed)
        self._lock = FileLock(f"{path}.lock", timeout=0, mode=0o600)
        try:
            self._lock.acquire()
        except Timeout:
            raise ValueError(
                f"another import keeps its journal at {path}; wait for its end, or name another "
                "journal for this one with --resume"
            ) from None
        try:
            self._sources = self._read()
        except BaseException:
            self._lock.release()
            raise

    def _read(self) -> dict[str, Progress]:
        try:
            content = msgspec.json.decode(self.path.read_bytes(), type=_Content)
        except FileNotFoundError:
            return {}
        except msgspec.DecodeError as error:
            raise ValueError(
                f"{self.path} is no journal of an import ({error}); name another file with "
                "--resume, or delete it: what was imported is found to be there"
            ) from error
        # Of a store that was deleted nothing is left to go on with.
        return content.sources if content.store == self._store else {}

    def find(self, source: Named) -> Progress:
        """Get how far a source was read.

        At its beginning where it was not, or where another one has its name now.
        """
        progress = self._sources.get(source.name, Progress())
        return progress.copy() if source.holds(progress.position) else Progress()

    def note(self, source: Named, progress: Progress) -> None:
        """Note how far a source was read; on disk when this returns."""
        self._sources[source.name] = progress.copy()
        content = _Content(_FORMAT, self._store, self._sources)
        with open_whole(self.path, overwrite=True) as file:
            file.write(msgspec.json.encode(content))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()
