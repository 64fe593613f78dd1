"""What one commit reads of a Redis store, each value once, and what it is to write."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from scrapy_simhash.redis_writes import Code, Writes, token_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from scrapy_simhash.redis_server import Server


class Snapshot:
    """A view of hashes and sets, in which what was written here shows at once.

    Values are read when they are asked for; `fetch` reads many in one round trip beforehand.

    Args:
        server: where they are.

    Attributes:
        read: tokens of what was read, see `redis_writes.token_of`.
        buckets: what was read of the tables; none is changed here.
        writes: for the commit.
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        self.read: set[bytes] = set()
        self.buckets: dict[bytes, bytes | None] = {}
        self.writes = Writes()
        self._hashes: dict[bytes, dict[bytes, bytes | None]] = {}
        self._whole: set[bytes] = set()
        self._sets: dict[bytes, set[bytes]] = {}

    def fetch(
        self,
        fields: Iterable[tuple[bytes, bytes]] = (),
        sets: Iterable[bytes] = (),
        buckets: Mapping[bytes, Sequence[bytes]] = MappingProxyType({}),
    ) -> None:
        """Read fields of hashes, sets, and buckets of tables, all in one round trip.

        Args:
            fields: hash and field; what is known is not read again.
            sets: the same.
            buckets: by the hash they are in.
        """
        wanted: dict[bytes, list[bytes]] = {}
        for key, field in dict.fromkeys(fields):
            if key not in self._whole and field not in self._hashes.get(key, ()):
                wanted.setdefault(key, []).append(field)
        missing = [key for key in dict.fromkeys(sets) if key not in self._sets]
        if not (wanted or missing or buckets):
            return
        commands: list[tuple[object, ...]] = [
            ("HMGET", key, *names) for key, names in wanted.items()
        ]
        commands += [("SMEMBERS", key) for key in missing]
        commands += [
            ("HMGET", key, *[bucket[-1:] for bucket in some]) for key, some in buckets.items()
        ]
        answers = iter(self.server.run(commands))
        for key, names in wanted.items():
            self._hashes.setdefault(key, {}).update(zip(names, next(answers), strict=True))
        for key in missing:
            self._sets[key] = set(next(answers))
        for some in buckets.values():
            self.buckets.update(zip(some, next(answers), strict=True))

    def assume(self, key: bytes, field: bytes) -> None:
        """Take a field for one that is not there, unless it was read."""
        self._hashes.setdefault(key, {}).setdefault(field, None)

    def get(self, key: bytes, field: bytes, *, noted: bool = True) -> bytes | None:
        """Get the value of a field, or None.

        Args:
            key: of the hash.
            field: in it.
            noted: what is written there since makes this commit begin anew.
        """
        if noted:
            self.read.add(token_of(key, field))
        known = self._hashes.get(key)
        if known is None or (field not in known and key not in self._whole):
            self.fetch([(key, field)])
            known = self._hashes[key]
        return known.get(field)

    def get_all(self, key: bytes) -> dict[bytes, bytes]:
        """Get a whole hash; who writes to it has to touch the token of its key."""
        self.read.add(token_of(key))
        if key not in self._whole:
            found: dict[bytes, bytes | None] = {**self.server.call("HGETALL", key)}
            self._hashes[key] = found | self._hashes.get(key, {})
            self._whole.add(key)
        return {field: value for field, value in self._hashes[key].items() if value is not None}

    def members(self, key: bytes) -> set[bytes]:
        """Get the members of a set."""
        self.read.add(token_of(key))
        self.fetch(sets=[key])
        return self._sets[key]

    def put(self, key: bytes, field: bytes, value: bytes) -> None:
        """Write a field."""
        self._note(key, field, value)
        self.writes.add(Code.FIELD, key, field, value)

    def delete(self, key: bytes, field: bytes) -> None:
        """Delete a field; harmless when it is not there."""
        self._note(key, field, None)
        self.writes.add(Code.NO_FIELD, key, field)

    def _note(self, key: bytes, field: bytes, value: bytes | None) -> None:
        self._hashes.setdefault(key, {})[field] = value
        self.writes.touched.add(token_of(key, field))

    def add_member(self, key: bytes, member: bytes) -> None:
        """Add a member to a set."""
        if key in self._sets:
            self._sets[key].add(member)
        self.writes.touched.add(token_of(key))
        self.writes.add(Code.MEMBER, key, value=member)

    def drop_member(self, key: bytes, member: bytes) -> None:
        """Take a member out of a set; harmless when it is not in it."""
        if key in self._sets:
            self._sets[key].discard(member)
        self.writes.touched.add(token_of(key))
        self.writes.add(Code.NO_MEMBER, key, value=member)

    def drop_key(self, key: bytes) -> None:
        """Delete a whole set."""
        self._sets[key] = set()
        self.writes.touched.add(token_of(key))
        self.writes.add(Code.NO_KEY, key)

    def add_row(self, key: bytes, field: bytes, row: bytes) -> None:
        """Add a row to those of a field, whose value is known; harmless when it is there."""
        rows = cut_rows(self.get(key, field, noted=False) or b"", len(row))
        if row not in rows:
            self._hashes[key][field] = b"".join([*rows, row])
        self.writes.add(Code.ROW, key, field, row)

    def drop_row(self, key: bytes, field: bytes, row: bytes) -> bool:
        """Take a row out of those of a field; says whether it was there."""
        rows = cut_rows(self.get(key, field, noted=False) or b"", len(row))
        if row not in rows:
            return False
        rows.remove(row)
        self._hashes[key][field] = b"".join(rows) or None
        self.writes.add(Code.NO_ROW, key, field, row)
        return True


def cut_rows(value: bytes, width: int) -> list[bytes]:
    """Cut a value into its rows."""
    return [value[at : at + width] for at in range(0, len(value), width)]
