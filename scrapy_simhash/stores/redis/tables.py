"""Write the tables anew, beside those in use, which other processes go on to read.

They are written as a new generation, to which the commit then switches at once. Unfinished ones are
never used and are deleted or, after a kill, deleted by the next writer. Judgements of other
processes that began before a rewrite start over after it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from scrapy_simhash.errors import StoreError
from scrapy_simhash.stores.keyvalues import HEADER, TABLES, width_of
from scrapy_simhash.stores.redis.places import GENERATION, Places
from scrapy_simhash.stores.redis.scripts import Code, Write, apply, pack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from scrapy_simhash.stores.redis.server import Server

# The most bytes of writes that are sent at once.
_BYTES_PER_CALL = 4 * 2**20


class TableWriter:
    """Writes tables for a process that is alone; `require_alone` raises if it is no longer."""

    def __init__(self, server: Server, places: Places, require_alone: Callable[[], object]) -> None:
        self._server = server
        self._places = places
        self._require_alone = require_alone
        self._generation = 0

    def begin(self) -> Places:
        """Begin a new generation, and delete others that are not in use."""
        # So the generation in use is the latest one, and any later writer uses a later one.
        last = int(self._server.call("GET", self._places.generation) or 0)
        self._require_alone()
        used = self._places.of_tables
        self._drop_tables(lambda generation: generation != used and generation <= last)
        self._generation = int(self._server.call("INCR", self._places.generation))
        self._places = self._places.of(self._generation)
        return self._places

    def fill(self, table: str, sets: Iterable[tuple[bytes, bytes]]) -> None:
        """Write sets at once, and not with the commit."""
        self._write(self._list_writes(table, sets))

    def _list_writes(self, table: str, sets: Iterable[tuple[bytes, bytes]]) -> Iterator[Write]:
        place = self._places[table]
        for key, joined in sets:
            name, field, width = place.name(key), place.field(key), width_of(table, key)
            if table == TABLES and len(joined) <= place.most * width:
                yield Code.PUT, name, field, joined, 0
                continue
            for at in range(0, len(joined), width):
                yield Code.ADD, name, field, joined[at : at + width], place.most

    def _write(self, writes: Iterable[Write]) -> None:
        """Write some megabytes at a time."""
        some: list[Write] = []
        size = 0
        for write in writes:
            some.append(write)
            size += _measure([write])
            if size > _BYTES_PER_CALL:
                self._apply(some)
                some, size = [], 0
        self._apply(some)

    def _apply(self, writes: list[Write]) -> None:
        self._require_alone()
        self._server.run(apply(pack(writes)))

    def finish(self, writes: list[Write]) -> bool:
        """Let the new tables take the place of the old ones; returns whether there are any."""
        if not self._generation:
            return False
        header = self._places[HEADER].single
        # All else is what the tables were mended with: right by itself, and maybe much.
        mended = [write for write in writes if write[1] != header]
        if _measure(mended) > _BYTES_PER_CALL:
            self._write(mended)
            writes[:] = [write for write in writes if write[1] == header]
        writes.append((Code.PUT, header, GENERATION, b"%d" % self._generation, 0))
        return True

    def settle(self) -> None:
        """Delete the tables that were replaced."""
        if self._generation:
            # If this process was stopped just now, later generations may exist and be in use.
            self._drop_tables(self._generation.__gt__)

    def abandon(self) -> None:
        """Delete the new tables, which may have used up the memory."""
        if self._generation:
            with suppress(StoreError):
                self._drop_tables(self._generation.__eq__)

    def _drop_tables(self, of: Callable[[int], bool]) -> None:
        """Delete the tables of the generations for which `of` is true."""
        names = self._server.scan(self._places.tables)
        self._server.run(
            [("UNLINK", name) for name in names if of(self._places.read_generation(name))]
        )


def _measure(writes: Iterable[Write]) -> int:
    """Measure writes in bytes, roughly."""
    return sum(len(name) + len(field) + len(value) for _, name, field, value, _ in writes)
