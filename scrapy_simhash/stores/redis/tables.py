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

# The most bytes, and hashes, that are sent at once.
_BYTES_PER_CALL, _COMMANDS_PER_CALL = 4 * 2**20, 1_024


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

    def fill(self, sets: Iterable[tuple[bytes, bytes]]) -> None:
        """Write sets, some megabytes at a time."""
        place = self._places[TABLES]
        wanted: dict[bytes, list[bytes]] = {}
        size = 0
        for key, joined in sets:
            name, field, width = place.name(key), place.field(key), width_of(TABLES, key)
            if len(joined) > place.most * width:
                for start in range(0, len(joined), _COMMANDS_PER_CALL * width):
                    some = joined[start : start + _COMMANDS_PER_CALL * width]
                    members = (some[at : at + width] for at in range(0, len(some), width))
                    scored = [part for member in members for part in (0, member)]
                    self._server.call("ZADD", place.full(key), *scored)
                joined = b""  # noqa: PLW2901 - marks it
            wanted.setdefault(name, []).extend((field, joined))
            size += len(field) + len(joined)
            if size > _BYTES_PER_CALL or len(wanted) > _COMMANDS_PER_CALL:
                self._send(wanted)
                wanted, size = {}, 0
        self._send(wanted)

    def _send(self, wanted: dict[bytes, list[bytes]]) -> None:
        self._require_alone()
        self._server.run([("HSET", name, *pairs) for name, pairs in wanted.items()])

    def add(self, table: str, sets: Iterable[tuple[bytes, bytes]]) -> None:
        """Add members to sets of another table, at once and not with the commit."""
        place, writes = self._places[table], Writes()
        for key, joined in sets:
            width = width_of(table, key)
            for at in range(0, len(joined), width):
                row = (place.name(key), place.field(key), joined[at : at + width])
                writes.add(Code.ADD, *row, place.most)
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

    def finish(self, writes: Writes) -> None:
        """Add the writes with which the new tables take the place of the old ones."""
        if self._generation:
            writes.add(Code.PUT, self._places.header, GENERATION, b"%d" % self._generation)
            # Allowed, because deleting the old tables then frees memory.
            writes.even_when_full = True

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
