"""Writes anew what leads to the documents of a Redis store: tables, fingerprints, names, lists.

Whoever does this is alone, see `Committer.alone`; what others had begun to judge, they judge again
after it. Tables are written under another generation, so they are switched at once. Where that does
not come to its end, those that were begun lead nowhere: they are deleted at once, or, of one that
was killed, by the next.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from scrapy_simhash.buckets import pack_buckets
from scrapy_simhash.designs import parse_design
from scrapy_simhash.records import DamagedError, Record, State, Waiting, unpack
from scrapy_simhash.redis_header import pack_header
from scrapy_simhash.redis_keys import BULK_LOADED, LEADING_BYTES
from scrapy_simhash.redis_reading import scan_identities, scan_links, scan_records, scan_rows
from scrapy_simhash.redis_snapshot import cut_rows
from scrapy_simhash.redis_tables import MOST_IN_BUCKET
from scrapy_simhash.redis_writes import Code, token_of
from scrapy_simhash.store_rows import octets, pack_identity, unpack_identity
from scrapy_simhash.stores import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from scrapy_simhash.records import Header
    from scrapy_simhash.redis_commit import Committer
    from scrapy_simhash.redis_documents import RedisDocuments
    from scrapy_simhash.redis_keys import Keys
    from scrapy_simhash.redis_numbers import Numbers
    from scrapy_simhash.redis_server import Server

    Begin = Callable[[], tuple[RedisDocuments, bytes]]

_NOTHING = np.empty(0, np.uint64)
# Bytes that are sent at once, and hashes.
_BYTES_PER_CALL, _COMMANDS_PER_CALL = 4 * 2**20, 1_024


class Rewriter:
    """Rewrites a store; only used by who is alone.

    Args:
        server: of the store.
        keys: of the store.
        committer: that lets nobody else commit.
        numbers: of the documents.
        begin: begins to read.
    """

    def __init__(
        self, server: Server, keys: Keys, committer: Committer, numbers: Numbers, begin: Begin
    ) -> None:
        self._server = server
        self._keys = keys
        self._committer = committer
        self._numbers = numbers
        self._begin = begin

    def drop_unfinished(self, header: Header) -> None:
        """Delete the tables of those that were killed before theirs became the store's."""
        last = int(self._server.call("GET", self._keys.generation) or 0)
        # So this header is the last one, and who comes later makes a later generation.
        self._committer.require_alone()
        self._drop_tables(lambda generation: generation != header.base and generation <= last)

    def rewrite_tables(
        self,
        header: Header,
        design: str,
        fingerprints: NDArray[np.uint64],
        loaded: NDArray[np.uint64] = _NOTHING,
    ) -> None:
        """Write all tables anew.

        Args:
            header: of the store.
            design: of the tables, the same or another one.
            fingerprints: that belong into them; shape (n,), each once.
            loaded: which of them are noted as bulk-loaded; `rebuild` completes one that was killed.

        Raises:
            StoreError: it was not done; or the server did not answer at the end, and it may be.
        """
        generation = int(self._server.call("INCR", self._keys.generation))
        try:
            self._put_fields(self._pack_tables(design, generation, fingerprints))
            self._put_fields(map(self._note, map(octets, loaded.tolist())))
        except BaseException:
            # They may have taken the last of the memory.
            with suppress(StoreError):
                self._drop_tables(generation.__eq__)
            raise
        header = msgspec.structs.replace(header, design=design, base=generation)
        stored, seq = self._begin()
        stored.snapshot.writes.touched.add(token_of(self._keys.header))
        stored.snapshot.writes.add(Code.VALUE, self._keys.header, value=pack_header(header))
        # The old tables go with it.
        stored.snapshot.writes.even_when_full = True
        self._committer.commit_alone(stored, seq)
        # Who stood still just now may find later ones, which are in use.
        self._drop_tables(generation.__gt__)

    def _drop_tables(self, of: Callable[[int], bool]) -> None:
        """Delete the tables of some generations."""
        found = self._server.scan(self._keys.pattern("t"))
        names = [name for name in found if of(self._keys.read_generation(name))]
        self._server.run([("UNLINK", name) for name in names])

    def _note(self, packed: bytes) -> tuple[bytes, bytes, bytes]:
        """Make the row that says that a fingerprint was bulk-loaded."""
        return self._keys.fingerprints(packed), packed[LEADING_BYTES:] + BULK_LOADED, b""

    def _pack_tables(
        self, design: str, generation: int, fingerprints: NDArray[np.uint64]
    ) -> Iterator[tuple[bytes, bytes, bytes]]:
        wanted = parse_design(design)
        width = 8 - wanted.key_bytes
        for number, table in enumerate(wanted.tables):
            permuted = np.sort(table.permute_array(fingerprints))
            for key, value in pack_buckets(number, permuted, wanted.key_bytes):
                hashed, field = self._keys.bucket(generation, key)
                if len(value) > MOST_IN_BUCKET * width:
                    full = self._keys.full(hashed, field)
                    rows = cut_rows(value, width)
                    for start in range(0, len(rows), _COMMANDS_PER_CALL):
                        some = rows[start : start + _COMMANDS_PER_CALL]
                        self._server.call("SADD", full, *some)
                    value = b""  # noqa: PLW2901 - marks it
                yield hashed, field, value

    def _put_fields(self, fields: Iterable[tuple[bytes, bytes, bytes]]) -> None:
        """Write fields of hashes, some megabytes at a time."""
        wanted: dict[bytes, list[bytes]] = {}
        size = 0
        for key, field, value in fields:
            wanted.setdefault(key, []).extend((field, value))
            size += len(field) + len(value)
            if size > _BYTES_PER_CALL or len(wanted) > _COMMANDS_PER_CALL:
                self._send(wanted)
                wanted, size = {}, 0
        self._send(wanted)

    def _send(self, wanted: dict[bytes, list[bytes]]) -> None:
        self._committer.require_alone()
        self._server.run([("HSET", key, *pairs) for key, pairs in wanted.items()])

    def mend(self) -> dict[str, int]:
        """Let everything lead to the documents that have it, and nothing else.

        Returns:
            `damaged`, `aliases_dropped`: as `Store.rebuild` does.
        """
        stored, seq = self._begin()
        records: dict[int, Record] = {}
        damaged: set[int] = set()
        for number, record in scan_records(self._server, self._keys):
            if isinstance(record, DamagedError):
                damaged.add(number)
            else:
                records[number] = record
        self._numbers.pass_over(max(records.keys() | damaged, default=0))
        dropped = self._mend_identities(stored, records, damaged)
        self._mend_rows(stored, records, damaged)
        self._mend_links(stored, records, damaged)
        self._mend_waiting(stored, records, damaged)
        stored.snapshot.writes.touched.add(token_of(self._keys.header))
        self._committer.commit_alone(stored, seq)
        return {
            **({"damaged": len(damaged)} if damaged else {}),
            **({"aliases_dropped": dropped} if dropped else {}),
        }

    def _mend_identities(
        self, stored: RedisDocuments, records: dict[int, Record], damaged: set[int]
    ) -> int:
        leads: dict[bytes, int] = {}
        strays = 0
        for identity, row in scan_identities(self._server, self._keys):
            try:
                leads[identity] = unpack_identity(identity, row)
            except StoreError:
                leads[identity] = 0
            if leads[identity] not in records and leads[identity] not in damaged:
                stored.snapshot.delete(self._keys.identities(identity), identity)
                strays += 1
        named = 0
        for number, record in records.items():
            if leads.get(record.identity) != number:
                key = self._keys.identities(record.identity)
                stored.snapshot.put(key, record.identity, pack_identity(record.identity, number))
                named += 1
        return max(0, strays - named)

    def _mend_rows(
        self, stored: RedisDocuments, records: dict[int, Record], damaged: set[int]
    ) -> None:
        wanted = {
            place
            for number, record in records.items()
            if record.state != State.DUPLICATE
            for place in stored.list_rows(number, record)
        }
        writes = stored.snapshot.writes
        for fingerprint, scope, numbers in scan_rows(self._server, self._keys):
            packed = octets(fingerprint)
            key, field = self._keys.fingerprints(packed), packed[LEADING_BYTES:] + scope
            for number in numbers:
                if (key, field, number) in wanted:
                    wanted.discard((key, field, number))
                elif number not in damaged:
                    writes.add(Code.NO_ROW, key, field, octets(number))
        for key, field, number in sorted(wanted):
            writes.add(Code.ROW, key, field, octets(number))

    def _mend_links(
        self, stored: RedisDocuments, records: dict[int, Record], damaged: set[int]
    ) -> None:
        wanted = {
            (record.original, number)
            for number, record in records.items()
            if record.state == State.DUPLICATE
        }
        known = set(scan_links(self._server, self._keys))
        for original, number in sorted(wanted - known):
            stored.link(original, number)
        for original, number in sorted(known - wanted):
            if number not in damaged:
                stored.unlink(original, number)

    def _mend_waiting(
        self, stored: RedisDocuments, records: dict[int, Record], damaged: set[int]
    ) -> None:
        """Of what cannot be read, which crawl took it over, and the request, are gone."""
        for field, packed in self._server.call("HGETALL", self._keys.waiting).items():
            number = int(field)
            record = records.get(number)
            if number in damaged or is_waiting(record, number, packed):
                continue
            stored.drop_waiting(number)
            if record is not None and record.state == State.DUPLICATE:
                original = records.get(record.original)
                digest = original.text_digest if original is not None else b""
                stored.put_waiting(number, Waiting(record.original, digest, record.crawl))


def is_waiting(record: Record | None, number: int, packed: bytes) -> bool:
    """Say whether what is noted of a drop can be read and is that of one."""
    try:
        waiting = unpack(Waiting, octets(number), packed)
    except DamagedError:
        return False
    return (
        record is not None
        and record.state == State.DUPLICATE
        and record.original == waiting.original
    )
