"""Write the tables anew, beside those in use, which other processes go on to read.

They are written as a new generation, to which the commit then switches at once. Unfinished ones are
never used and are deleted or, after a kill, deleted by the next writer. Judgements of other
processes that began before a rewrite start over after it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from scrapy_simhash.errors import StoreError
from scrapy_simhash.stores.keyvalues import TABLES, width_of
from scrapy_simhash.stores.redis.places import GENERATION, NEVER, Places
from scrapy_simhash.stores.redis.scripts import APPLY, Code, Writes
from scrapy_simhash.stores.redis.server import script

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scrapy_simhash.stores.redis.server import Server

# The most bytes that are sent at once.
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
        """Write sets at once, some megabytes at a time, and not with the commit."""
        place, writes = self._places[table], Writes()
        for key, joined in sets:
            name, field, width = place.name(key), place.field(key), width_of(table, key)
            if table == TABLES and len(joined) <= place.most * width:
                writes.add(Code.PUT, name, field, joined)
            else:
                for at in range(0, len(joined), width):
                    writes.add(Code.ADD, name, field, joined[at : at + width], place.most)
            if writes.size > _BYTES_PER_CALL:
                self._apply(writes)
                writes = Writes()
        self._apply(writes)

    def _apply(self, writes: Writes) -> None:
        self._require_alone()
        self._server.run(
            [
                script(APPLY, [tag + b":seq", tag + NEVER], "", packed)
                for tag, packed in writes.pack().items()
            ]
        )

    def finish(self, writes: Writes) -> bool:
        """Let the new tables take the place of the old ones; returns whether there are any."""
        if self._generation:
            writes.add(Code.PUT, self._places.header, GENERATION, b"%d" % self._generation)
            # Allowed, because deleting the old tables then frees memory.
            writes.even_when_full = True
        return bool(self._generation)

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
