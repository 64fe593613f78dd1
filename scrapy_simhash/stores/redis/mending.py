"""Check a Redis store, mend it, and rewrite its tables."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Generic

import msgspec
import numpy as np

from scrapy_simhash.errors import DamagedError, StoreError
from scrapy_simhash.stores.mending import (
    Lead,
    Link,
    Mending,
    Name,
    Row,
    compare_tables,
    list_addresses,
)
from scrapy_simhash.stores.records import Header, octets
from scrapy_simhash.stores.redis.documents import Numbers, RedisDocuments, write_scope
from scrapy_simhash.stores.redis.keys import BULK_LOADED, LEADING_BYTES
from scrapy_simhash.stores.redis.scripts import Code, token_of
from scrapy_simhash.stores.redis.server import Server, pack_header
from scrapy_simhash.stores.redis.snapshot import (
    cut_rows,
    read_addresses,
    read_table,
    scan_hashes,
    scan_links,
    scan_rows,
)
from scrapy_simhash.tables import parse_design
from scrapy_simhash.tables.probing import MOST_IN_BUCKET, pack_buckets
from scrapy_simhash.tables.sets import contains, sort_distinct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from scrapy_simhash.judging.documents import Record
    from scrapy_simhash.stores.redis.commits import Committer

    Begin = Callable[[], tuple[RedisDocuments, bytes]]

_NOTHING = np.empty(0, np.uint64)
# The most bytes, and hashes, that are sent at once.
_BYTES_PER_CALL, _COMMANDS_PER_CALL = 4 * 2**20, 1_024


# Judgements of other processes that began before a rewrite start over after it. The tables are
# written as a new generation, to which the store then switches at once. Unfinished tables are never
# used and are deleted or, after a kill, deleted by the next rewriter.
class Rewriter:
    """Rewrites a store for a process that is `alone`; `begin` starts reading."""

    def __init__(
        self, server: Server, committer: Committer, numbers: Numbers, begin: Begin
    ) -> None:
        self._server = server
        self._keys = server.keys
        self._committer = committer
        self._numbers = numbers
        self._begin = begin

    def drop_unfinished(self, header: Header) -> None:
        """Delete tables whose writers were killed before the store switched to them."""
        last = int(self._server.call("GET", self._keys.generation) or 0)
        # So this header is the latest one, and any later writer uses a later generation.
        self._committer.require_alone()
        self._drop_tables(lambda generation: generation != header.base and generation <= last)

    def rewrite_tables(
        self,
        header: Header,
        design: str,
        fingerprints: NDArray[np.uint64],
        loaded: NDArray[np.uint64] = _NOTHING,
    ) -> None:
        """Rewrite all tables; marks the `loaded` ones as bulk-loaded; both distinct, shape (n,).

        After an error nothing has changed, unless the server did not answer at the end.
        """
        generation = int(self._server.call("INCR", self._keys.generation))
        try:
            self._put_fields(self._pack_tables(design, generation, fingerprints))
            self._put_fields(
                (self._keys.fingerprints(packed), packed[LEADING_BYTES:] + BULK_LOADED, b"")
                for packed in map(octets, loaded.tolist())
            )
        except BaseException:
            # The new tables may have used up the memory.
            with suppress(StoreError):
                self._drop_tables(generation.__eq__)
            raise
        header = msgspec.structs.replace(header, design=design, base=generation)
        stored, seq = self._begin()
        stored.snapshot.writes.touched.add(token_of(self._keys.header))
        stored.snapshot.writes.add(Code.VALUE, self._keys.header, value=pack_header(header))
        # Allowed, because deleting the old tables then frees memory.
        stored.snapshot.writes.even_when_full = True
        self._committer.commit_alone(stored, seq)
        # If this process was stopped just now, later generations may exist and be in use.
        self._drop_tables(generation.__gt__)

    def _drop_tables(self, of: Callable[[int], bool]) -> None:
        """Delete the tables of the generations for which `of` is true."""
        found = self._server.scan(self._keys.pattern("t"))
        names = [name for name in found if of(self._keys.read_generation(name))]
        self._server.run([("UNLINK", name) for name in names])

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
        """Correct all leads from the records, see `Mending.mend`."""
        stored, seq = self._begin()
        mending = _open(stored)
        last = max(
            (*mending.damaged, *(number for number, _ in mending.records.items())), default=0
        )
        self._numbers.pass_over(last)
        mended = mending.mend()
        stored.snapshot.writes.touched.add(token_of(self._keys.header))
        self._committer.commit_alone(stored, seq)
        return mended

    def mend_addresses(self) -> None:
        """Correct the index of URLs from the records, or make it."""
        stored, _ = self._begin()
        wanted, found = list_addresses(stored.scan()), read_addresses(self._server)
        for command, rows in (
            ("SADD", wanted[~contains(found, wanted)]),
            ("SREM", found[~contains(wanted, found)]),
        ):
            for start in range(0, rows.size, _COMMANDS_PER_CALL):
                self._committer.require_alone()
                some = map(self._keys.addresses, rows[start : start + _COMMANDS_PER_CALL].tolist())
                self._server.run([(command, key, member) for key, member in some])


class _Leads(Generic[Lead]):
    """The leads that a scan found, as a set; additions and deletions wait for the commit."""

    def __init__(
        self, found: Iterable[Lead], add: Callable[[Lead], object], drop: Callable[[Lead], object]
    ) -> None:
        self._found = dict.fromkeys(found)  # in the order in which they were found
        self.add = add
        self.discard = drop

    def __iter__(self) -> Iterator[Lead]:
        return iter(self._found)

    def __contains__(self, lead: Lead) -> bool:
        return lead in self._found


def _open(stored: RedisDocuments) -> Mending:
    """Read everything needed to check or mend the store."""
    snapshot, server = stored.snapshot, stored.snapshot.server
    keys, writes = server.keys, snapshot.writes
    records: dict[int, Record] = {}
    damaged: dict[int, DamagedError] = {}
    for number, record in stored.scan():
        if isinstance(record, DamagedError):
            damaged[number] = record
        else:
            records[number] = record

    def place(row: Row) -> tuple[bytes, bytes, bytes]:
        packed = octets(row.fingerprint)
        field = packed[LEADING_BYTES:] + (row.scope or b"")
        return keys.fingerprints(packed), field, octets(row.number)

    names = _Leads(
        (
            Name(*each)
            for _, found in scan_hashes(server, keys.pattern("i"))
            for each in found.items()
        ),
        lambda name: snapshot.put(keys.identities(name.identity), *name),
        lambda name: snapshot.delete(keys.identities(name.identity), name.identity),
    )
    rows = _Leads(
        (
            Row(fingerprint, None if scope == BULK_LOADED else scope, number)
            for fingerprint, scope, numbers in scan_rows(server)
            for number in (numbers if scope != BULK_LOADED else [0])
        ),
        lambda row: writes.add(Code.ROW, *place(row)),
        lambda row: writes.add(Code.NO_ROW, *place(row)),
    )
    links = _Leads(
        (Link(*pair) for pair in scan_links(server)),
        lambda link: stored.link(*link),
        lambda link: stored.unlink(*link),
    )
    return Mending(stored, records, damaged, names, rows, links, write_scope)


def find_problems(stored: RedisDocuments) -> list[str]:
    """List all inconsistencies, one line each; reads the whole store."""
    server, tables = stored.snapshot.server, stored.tables
    mending = _open(stored)
    problems: list[str] = []

    def read(number: int) -> NDArray[np.uint64]:
        found, wrong = read_table(server, tables, number)
        problems.extend(wrong)
        return found

    held, different = compare_tables(map(read, range(len(tables.design.tables))))
    problems += different
    following = int(server.call("GET", server.keys.next) or 0) + 1
    problems += mending.find_problems(held, following)
    leading = sort_distinct(np.array([row.fingerprint for row in mending.rows], np.uint64))
    for fingerprint in np.setdiff1d(held, leading, assume_unique=True).tolist():
        problems.append(f"fingerprint {fingerprint:016x} leads to nothing")
    return problems
