"""Documents in Redis: their records, identities, fingerprints and near-duplicates.

A fingerprint leads to the documents that have it in each scope. A special row marks a bulk-loaded
fingerprint, which counts for every scope. `keys` describes the keys.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, Any

from scrapy_simhash.judging.judge import MOST_CANDIDATES
from scrapy_simhash.judging.rows import VERSION
from scrapy_simhash.simhash import hamming_distance
from scrapy_simhash.stores.records import (
    Session,
    number_in,
    number_of,
    octets,
    scope_hash,
    unpack_identity,
)
from scrapy_simhash.stores.redis.keys import BULK_LOADED, LEADING_BYTES, NUMBERS_PER_CHUNK, Keys
from scrapy_simhash.stores.redis.scripts import LOOKUP, Code, token_of
from scrapy_simhash.stores.redis.server import script
from scrapy_simhash.stores.redis.snapshot import (
    cut_rows,
    list_fingerprints_with_rows,
    list_keys,
    measure,
    read_addresses,
    read_each,
    read_fingerprints,
    scan_hashes,
)
from scrapy_simhash.stores.rulebook import find_form
from scrapy_simhash.tables.probing import Probe

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from scrapy_simhash.judging import Document
    from scrapy_simhash.judging.documents import Record
    from scrapy_simhash.judging.merging import Row
    from scrapy_simhash.stores.redis.server import Server
    from scrapy_simhash.stores.redis.snapshot import RedisTables, Snapshot


_REST_BYTES = 8 - LEADING_BYTES
_RECORDS_PER_CALL = 512
_READ_OFTEN = {"rules", "acting"}


class RedisDocuments(Session):
    """The documents and tables during one commit, see `Session`."""

    remote = True

    def __init__(
        self, snapshot: Snapshot, tables: RedisTables, numbers: Numbers, *, addressed: bool
    ) -> None:
        self.snapshot = snapshot
        self.addressed = addressed
        # The fingerprints that were probed, and within how many bits.
        self.asked: dict[int, int] = {}
        self._keys = snapshot.server.keys
        self.tables = tables
        self._numbers = numbers
        self._probes: dict[tuple[int, int, int | None, bool], Probe] = {}
        self._added: set[int] = set()
        self._removed: set[int] = set()
        # By table, how many rows this commit adds, or takes away.
        self._counted: Counter[str] = Counter()

    def fetch(  # noqa: PLR0913  # what is read, each by its name
        self,
        *,
        identities: Iterable[bytes] = (),
        probes: Iterable[tuple[int, int]] = (),
        rows: Iterable[tuple[int, str]] = (),
        records: Iterable[int] = (),
        duplicates: Iterable[int] = (),
        waiting: Iterable[int] = (),
        sinks: Iterable[int] = (),
        tables: Iterable[tuple[str, bytes]] = (),
        lengths: Iterable[str] = (),
        added: int = 0,
    ) -> None:
        """Read in one round trip what `near` (`probes`), `numbers` (`rows`) and others need.

        On a single server `rows` bring the records that they lead to. Up to `added` documents will
        take numbers.
        """
        keys = self._keys
        fields = [(keys.identities(identity), identity) for identity in identities]
        places = [
            (key, rest + BULK_LOADED, rest + write_scope(scope))
            for fingerprint, scope in rows
            for key, rest in [self._place(fingerprint)]
        ]
        lookup = (
            [] if self.snapshot.server.address.cluster or not places else [_look_up(keys, places)]
        )
        if not lookup:
            fields += [(key, field) for key, *both in places for field in both]
        numbers = self._numbers.ask(added)
        fields += [(keys.records(number), b"%d" % number) for number in records]
        fields += [(keys.waiting, b"%d" % number) for number in waiting]
        fields += [(keys.rows("sinks"), octets(number)) for number in sinks]
        fields += [(keys.rows(table), key) for table, key in tables]
        buckets = chain.from_iterable(self.tables.list_keys(*probe) for probe in probes)
        answers = self.snapshot.fetch(
            fields,
            map(keys.duplicates, duplicates),
            self.tables.locate(self.snapshot, buckets),
            map(keys.rows, lengths),
            [*numbers, *lookup],
        )
        if numbers:
            self._numbers.take_over(numbers[0], answers.pop(0))
        if lookup:
            self._keep(places, *answers[0])

    def _keep(
        self,
        places: Iterable[tuple[bytes, bytes, bytes]],
        values: Sequence[bytes | None],
        documents: Sequence[bytes],
    ) -> None:
        """Keep what `_look_up` found."""
        fields = ((key, field) for key, *both in places for field in both)
        for (key, field), value in zip(fields, values, strict=True):
            self.snapshot.keep(key, field, value)
        keys = self._keys
        for at in range(0, len(documents), 3):
            packed, record, sink = documents[at : at + 3]
            number = number_of(packed)
            self.snapshot.keep(*keys.field("documents", number), record)
            self.snapshot.keep(keys.rows("sinks"), packed, sink)

    def _get(self, kind: str, key: int | str) -> bytes | None:
        return self.snapshot.get(*self._keys.field(kind, key))

    def _put(self, kind: str, key: int | str, packed: bytes) -> None:
        self._touch_all(kind)
        self.snapshot.put(*self._keys.field(kind, key), packed)

    def _drop(self, kind: str, key: int) -> None:
        self._touch_all(kind)
        self.snapshot.delete(*self._keys.field(kind, key))

    def _touch_all(self, kind: str) -> None:
        """Make commits start over that read all `waiting` notes."""
        if kind == "waiting":
            self.snapshot.writes.touched.add(token_of(self._keys.waiting))

    def scan_packed(self, kind: str) -> Iterator[tuple[int, bytes]]:
        server, keys = self.snapshot.server, self._keys
        if kind == "documents":
            # After a failover, the server's counter may be behind the numbers in use.
            given = int(server.call("GET", keys.next) or 0) // NUMBERS_PER_CHUNK
            chunks = map(keys.read_chunk, server.scan(keys.pattern("d", "}")))
            for chunk in range(max(given, *chunks, 0) + 1):
                records = server.call("HGETALL", keys.chunk(chunk))
                yield from sorted((int(field), packed) for field, packed in records.items())
        elif kind == "texts":
            for _, found in scan_hashes(server, keys.pattern("d", ":text")):
                yield from ((int(field), packed) for field, packed in found.items())
        else:
            for number, packed in sorted(self.snapshot.get_all(self._keys.waiting).items()):
                yield int(number), packed

    def find_number(self, identity: bytes) -> int | None:
        value = self.snapshot.get(self._keys.identities(identity), identity)
        return None if value is None else unpack_identity(identity, value)

    def _name(self, number: int, identity: bytes, row: bytes, *, own: bool) -> None:
        key = self._keys.identities(identity)
        if not own and self.snapshot.get(key, identity) is not None:
            return
        self.snapshot.put(key, identity, row)
        if not own:
            self.snapshot.add_member(self._keys.aliases(number), identity)

    def remove(self, number: int, identities: Iterable[bytes]) -> None:
        identities = {*identities, *self.snapshot.members(self._keys.aliases(number))}
        self._drop("documents", number)
        self.drop_text(number)
        self.drop_waiting(number)
        self.snapshot.drop_key(self._keys.duplicates(number))
        self.snapshot.drop_key(self._keys.aliases(number))
        for identity in sorted(identities):
            if self.find_number(identity) == number:
                self.snapshot.delete(self._keys.identities(identity), identity)

    def list_identities(self, numbers: Collection[int]) -> dict[int, list[bytes]]:
        """List the aliases of these documents: identities other than their own."""
        self.snapshot.fetch(sets=map(self._keys.aliases, numbers))
        return {
            number: sorted(found)
            for number in numbers
            if (found := self.snapshot.members(self._keys.aliases(number)))
        }

    def next_number(self) -> int:
        # A reserved number may be in use all the same: the counter may be behind after a failover,
        # and documents copied from another store keep their numbers.
        while self._get("documents", number := self._numbers.take()) is not None:
            pass
        return number

    def index(self, number: int, record: Record) -> None:
        for fingerprint in record.fingerprints:
            key, rest = self._place(fingerprint)
            self._touch(fingerprint, key, rest)
            self.snapshot.add_row(key, rest + write_scope(record.scope), octets(number))
            self.tables.write(self.snapshot, Code.BUCKET_ROW, fingerprint)
            self._added.add(fingerprint)
            self._removed.discard(fingerprint)

    def unindex(self, number: int, record: Record) -> None:
        for fingerprint in record.fingerprints:
            key, rest = self._place(fingerprint)
            self._touch(fingerprint, key, rest)
            field = rest + write_scope(record.scope)
            if self.snapshot.drop_row(key, field, octets(number)) and not self._rows(fingerprint):
                self.tables.write(self.snapshot, Code.NO_BUCKET_ROW, fingerprint)
                self._removed.add(fingerprint)
                self._added.discard(fingerprint)

    def _place(self, fingerprint: int) -> tuple[bytes, bytes]:
        """Get the hash of a fingerprint, and the first bytes of its fields."""
        packed = octets(fingerprint)
        return self._keys.fingerprints(packed), packed[LEADING_BYTES:]

    def _touch(self, fingerprint: int, key: bytes, rest: bytes) -> None:
        """Tell other commits that the documents of a fingerprint changed."""
        self.snapshot.writes.fingerprints.add(fingerprint)
        self.snapshot.writes.touched.add(token_of(key, rest))

    def _rows(self, fingerprint: int) -> dict[bytes, bytes]:
        """Get the rows of a fingerprint: scope hash, or `BULK_LOADED` -> document numbers."""
        key, rest = self._place(fingerprint)
        self.snapshot.read.add(token_of(key, rest))
        return {
            field[_REST_BYTES:]: value
            for field, value in self.snapshot.get_all(key).items()
            if field.startswith(rest)
        }

    def _put_address(self, row: int) -> None:
        key, member = self._keys.addresses(row)
        self.snapshot.add_member(key, b"%d" % member)

    def _drop_address(self, row: int) -> None:
        key, member = self._keys.addresses(row)
        self.snapshot.drop_member(key, b"%d" % member)

    def _find_addresses(self, row: int) -> list[int]:
        key, least = self._keys.addresses(row)
        members = map(int, self.snapshot.members(key))
        return [member for member in members if member - number_in(member) == least]

    def read_addresses(self) -> NDArray[np.uint64]:
        return read_addresses(self.snapshot.server)

    def keep_bulk_loaded(self, fingerprints: Iterable[int]) -> None:
        """Do nothing: every bulk-loaded fingerprint has its special row already."""

    def near(
        self, fingerprint: int, distance: int, most: int | None = None, *, bounded: bool = False
    ) -> Probe:
        self.asked[fingerprint] = max(distance, self.asked.get(fingerprint, 0))
        asked = (fingerprint, distance, most, bounded)
        if asked not in self._probes:
            self._probes[asked] = self.tables.probe(
                self.snapshot, fingerprint, distance, most, bounded=bounded
            )
        probe = self._probes[asked]
        changed = self._added | self._removed
        if not changed:
            return probe
        near = [each for each in probe.near if each[1] not in changed]
        near += [
            (bits, added)
            for added in self._added
            if (bits := hamming_distance(fingerprint, added)) <= distance
        ]
        return Probe(sorted(near)[:most], probe.complete_bits)

    def numbers(
        self, fingerprint: int, scope: str | None = None, most: int | None = None
    ) -> list[int]:
        if scope is None:
            rows = self._rows(fingerprint)
        else:
            key, rest = self._place(fingerprint)
            self.snapshot.read.add(token_of(key, rest))
            fields = [rest + BULK_LOADED, rest + write_scope(scope)]
            self.snapshot.fetch((key, field) for field in fields)
            rows = {
                field[_REST_BYTES:]: value
                for field in fields
                if (value := self.snapshot.get(key, field, noted=False)) is not None
            }
        bulk_loaded = rows.pop(BULK_LOADED, None) is not None
        found = [
            number
            for _, value in sorted(rows.items())
            for number in sorted(map(number_of, cut_rows(value, 8)))
        ]
        if most is not None:
            del found[max(0, most - bulk_loaded) :]
        return [0, *found] if bulk_loaded else found

    def link(self, original: int, duplicate: int) -> None:
        self.snapshot.add_member(self._keys.duplicates(original), b"%d" % duplicate)

    def unlink(self, original: int, duplicate: int) -> None:
        self.snapshot.drop_member(self._keys.duplicates(original), b"%d" % duplicate)

    def list_duplicates(self, original: int) -> list[int]:
        return sorted(map(int, self.snapshot.members(self._keys.duplicates(original))))

    def has_waiting(self) -> bool:
        # If a commit read this, every drop that another process notes would make it start over.
        return True

    # Two round trips for a group, of which the first one begins to read, too; three on a cluster.
    # It does not matter how many documents the group has. Values that were not prefetched
    # are read on demand, so this affects only how long a group takes.
    def prefetch(
        self,
        documents: Sequence[Document],
        marked: Sequence[int],
        distance: int,
        parking: Sequence[tuple[str, bytes]] = (),
    ) -> None:
        """Read identities and buckets, then the documents of the neighbours, then their records."""
        # The rows of parking come along, then the records of the documents that normal forms lead
        # to; only what leads on from there is a trip more.
        probes = [
            (document.scope, fingerprint, 0 if document.stub else distance)
            for document in documents
            for fingerprint in document.fingerprints
        ]
        identities = [each for page in documents for each in (page.identity, *page.aliases)]
        self.fetch(
            identities=identities,
            probes={probe[1:] for probe in probes},
            records=marked,
            duplicates=marked,
            tables=[("acting", VERSION), *parking],
            lengths=("forms", "parked") if parking else (),
            added=len(documents),
        )
        wanted = [number for identity in identities if (number := self.find_number(identity))]
        added = sum(not self.find_number(each.identity) for each in documents)
        wanted += [*self._numbers.reserved[:added], *self._list_form_documents(parking)]
        near: set[tuple[int, str]] = set()
        for scope, fingerprint, bits in probes:
            # The same call as the judge's.
            probe = self.near(fingerprint, bits, MOST_CANDIDATES + 1, bounded=True)
            near.update((found, scope) for _, found in probe.near[:MOST_CANDIDATES])
            if probe.complete_bits >= 0 and probe.near[:1] != [(0, fingerprint)]:
                # It is in no table, so no document has it.
                key, rest = self._place(fingerprint)
                self.snapshot.keep(key, rest + write_scope(scope), None)
        waiting = chain.from_iterable(map(self.list_duplicates, marked))
        self.fetch(rows=near, records=wanted, waiting=waiting, sinks=wanted)
        candidates = {n for row in near for n in self.numbers(*row, MOST_CANDIDATES) if n}
        self.fetch(records=candidates, sinks=candidates)
        if not parking:
            return
        found = self._list_form_documents(parking)
        known = [record for n in found & candidates if (record := self.get(n)) is not None]
        found |= {record.original for record in known} - {0}
        self.fetch(records=found, sinks=found)

    def _list_form_documents(self, rows: Iterable[tuple[str, bytes]]) -> set[int]:
        """List the documents to which those of these rows lead that are of normal forms."""
        found = set()
        for table, key in rows:
            if table == "forms":
                found.add(find_form(self, key))
        return found - {0}

    def prefetch_matches(self, fingerprint: int, distance: int) -> None:
        """Read buckets, then the documents of the neighbours, then their records."""
        self.fetch(probes=[(fingerprint, distance)])
        near = self.near(fingerprint, distance).near
        self.fetch(records=(n for _, found in near for n in self.numbers(found) if n))

    def prefetch_deletion(self, numbers: Sequence[int]) -> None:
        """Read records, lists of near-duplicates, and aliases."""
        self.fetch(records=numbers, duplicates=numbers)
        self.snapshot.fetch(sets=map(self._keys.aliases, numbers))

    def get_row(self, table: str, key: bytes) -> bytes | None:
        # Every page of a host reads its rules, and nearly every one of another process changes
        # them: only a commit that writes a rule starts over then.
        noted = table not in _READ_OFTEN
        return self.snapshot.get(self._keys.rows(table), key, noted=noted)

    def put_row(self, table: str, key: bytes, row: bytes) -> None:
        hashed = self._keys.rows(table)
        self._counted[table] += self.snapshot.get(hashed, key) is None
        self.snapshot.writes.touched.add(token_of(hashed))
        self.snapshot.put(hashed, key, row)

    def drop_row(self, table: str, key: bytes) -> None:
        hashed = self._keys.rows(table)
        if self.snapshot.get(hashed, key) is not None:
            self._counted[table] -= 1
            self.snapshot.writes.touched.add(token_of(hashed))
            self.snapshot.delete(hashed, key)

    def scan_rows(self, table: str, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        hashed = self._keys.rows(table)
        self.snapshot.read.add(token_of(hashed))
        return self.snapshot.scan(hashed, prefix)

    def draw_keys(self, table: str, prefix: bytes, most: int) -> Sequence[bytes]:
        drawn = self.snapshot.draw(self._keys.rows(table))
        return [key for key in drawn if key.startswith(prefix)][:most]

    def count_rows(self, table: str) -> int:
        hashed = self._keys.rows(table)
        self.snapshot.fetch(lengths=[hashed])
        return self.snapshot.lengths[hashed] + self._counted[table]

    def prefetch_rows(
        self,
        rows: Iterable[tuple[str, bytes]],
        *,
        identities: Iterable[bytes] = (),
        records: Iterable[int] = (),
    ) -> None:
        self.fetch(identities=identities, records=records, tables=rows)

    def list_newest(self, most: int) -> list[tuple[int, Record]]:
        last = int(self.snapshot.server.call("GET", self._keys.next) or 0)
        found: list[tuple[int, Record]] = []
        for start in range(last, 0, -_RECORDS_PER_CALL):
            numbers = range(start, max(0, start - _RECORDS_PER_CALL), -1)
            self.fetch(records=numbers)
            found += [(number, record) for number in numbers if (record := self.get(number))]
            if len(found) >= most:
                break
        return found[:most]

    def reserve(self, rows: Sequence[Row]) -> None:
        numbers = [row.number for row in rows]
        # First reserve, then use: if the process is killed in between, some numbers stay unused.
        self._numbers.pass_over(max(numbers, default=0))
        identities = [each for row in rows for each in (row.record.identity, *row.aliases)]
        self.fetch(identities=identities, records=numbers, waiting=numbers)

    def scan_crawls(self) -> Iterable[tuple[bytes, bytes]]:
        found: dict[bytes, bytes] = self.snapshot.server.call("HGETALL", self._keys.crawls)
        return sorted(found.items())

    def count_crawls(self) -> int:
        return int(self.snapshot.server.call("HLEN", self._keys.crawls))

    def list_texts(self) -> set[int]:
        server = self.snapshot.server
        texts = list_keys(server, server.keys.pattern("d", ":text"))
        return {int(field) for _, fields in read_each(server, "HKEYS", texts) for field in fields}

    def list_bulk_loaded(self) -> NDArray[np.uint64]:
        return list_fingerprints_with_rows(self.snapshot.server, BULK_LOADED.__eq__)

    def read_fingerprints(self) -> NDArray[np.uint64]:
        return read_fingerprints(self.snapshot.server, self.tables)

    def measure_tables(self) -> tuple[int, int, int]:
        server = self.snapshot.server
        pattern = self._keys.pattern(f"t{self.tables.generation}.")
        too_full = sum(b":full:" in name for name in list_keys(server, pattern))
        return self.read_fingerprints().size, measure(server, [pattern]), too_full


def _look_up(keys: Keys, places: Iterable[tuple[bytes, bytes, bytes]]) -> tuple[object, ...]:
    """Make the command that reads rows of fingerprints, and the records to which they lead."""
    most = (keys.chunks, NUMBERS_PER_CHUNK, keys.rows("sinks"), MOST_CANDIDATES)
    return script(LOOKUP, [], *most, *chain.from_iterable(places))


def write_scope(scope: str) -> bytes:
    """Make the part of a row's field after the fingerprint; empty for the global scope."""
    return scope_hash(scope) if scope else b""


class Numbers:
    """Hands out document numbers; a commit that starts over gets the same ones again."""

    # Numbers are unique unless the server loses its counter. With several writers, a document may
    # have a larger number than one that arrived a moment later.

    def __init__(self, server: Server, *, readonly: bool) -> None:
        self._server = server
        self._readonly = readonly
        self._key = server.keys.next
        self._reserved: list[int] = []
        self._taken = 0

    def begin(self) -> None:
        """Begin a commit: numbers that a failed commit took are free again."""
        self._taken = 0

    def ask(self, count: int) -> list[tuple[object, ...]]:
        """Make the command that reserves what is missing of so many numbers, if anything is."""
        missing = count - (len(self._reserved) - self._taken)
        return [] if missing <= 0 or self._readonly else [("INCRBY", self._key, missing)]

    def take_over(self, command: tuple[Any, ...], answer: Any) -> None:
        """Take over the numbers that a command of `ask` reserved."""
        last, missing = int(answer), int(command[-1])
        self._reserved += range(last - missing + 1, last + 1)

    def reserve(self, count: int) -> None:
        """Reserve numbers, so that `take` need not ask the server; a reader reserves none."""
        for command in self.ask(count):
            self.take_over(command, self._server.call(*command))

    def pass_over(self, number: int) -> None:
        """Never hand out numbers up to this one."""
        last = int(self._server.call("GET", self._key) or 0)
        if last < number:
            self._server.call("INCRBY", self._key, number - last)

    @property
    def reserved(self) -> list[int]:
        """The reserved numbers that are not taken yet."""
        return self._reserved[self._taken :]

    def take(self) -> int:
        """Take the next number, starting at 1."""
        self.reserve(1)
        self._taken += 1
        return self._reserved[self._taken - 1]

    def settle(self) -> None:
        """End a commit: the numbers taken are now in use."""
        del self._reserved[: self._taken]
        self._taken = 0
