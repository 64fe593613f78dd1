"""One transaction on a Redis store: what it reads, each value once, and what it writes."""

from __future__ import annotations

import random
from collections import defaultdict
from contextlib import suppress
from functools import partial
from heapq import merge
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from scrapy_simhash.errors import StoreError
from scrapy_simhash.stores.keyvalues import (
    DOCUMENTS,
    FINGERPRINTS,
    HEADER,
    SETS,
    SINKS,
    SITES,
    TABLES,
    KeyValues,
    cut,
    number_of,
    octets,
    width_of,
)
from scrapy_simhash.stores.redis.places import FULL, GENERATION, Places, glob
from scrapy_simhash.stores.redis.scripts import (
    FOLLOW,
    Code,
    Command,
    Write,
    apply,
    pack,
    script,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from scrapy_simhash.stores.redis.server import Server
    from scrapy_simhash.tables.permutation import Design
    from scrapy_simhash.tables.probing import Sets

    # A command, and what is done with its answer.
    Read: TypeAlias = tuple[Command, Callable[[Any], object]]
    Run: TypeAlias = Callable[["RedisValues", list[Command]], list[Any]]

Item = TypeVar("Item")

# A row has up to some kilobytes.
_FIELDS_PER_CALL = 4_096
# Without their values.
_FIELDS_DRAWN = 2**14
# A hash has about 250 kB at ten million documents.
_HASHES_PER_CALL = 64
# The tables whose rows come along with those of FINGERPRINTS.
_FOLLOWED = (DOCUMENTS, SINKS)
# Others may write these meanwhile, see `KeyValues`.
_NEVER_READ = (TABLES, SITES)
# The most bytes of writes that are sent at once.
_BYTES_PER_CALL = 4 * 2**20
# After a prefix, it is greater than all members that begin so.
_BEYOND = b"\xff" * 64


class RedisValues(KeyValues):
    """A transaction, see `KeyValues`; `begin` begins it, and runs the first commands.

    Attributes:
        seq: number of the last commit when this transaction began; empty until then.
        read: tables and keys that were read; empty for all keys of a table.
        written: those that were written.
        probed: fingerprints whose neighbours were sought, and within how many bits.
        writes: the writes themselves, in order.
        writing: whether it may write.
        taken: how many of the reserved numbers it took.
        writer: of whole tables that replace those in use.
    """

    # In a cluster the nodes have different rows, and one may fail over without its last ones.
    remote = True

    def __init__(
        self, server: Server, places: Places, numbers: list[int], begin: Run, writer: TableWriter
    ) -> None:
        self.seq = b""
        self.read: set[tuple[str, bytes]] = set()
        self.written: set[tuple[str, bytes]] = set()
        self.probed: dict[int, int] = {}
        self.writes: list[Write] = []
        self.writer = writer
        # In a cluster no script can read what rows lead to.
        self.follows = not server.address.cluster
        self._server = server
        self._places = places
        self._numbers = numbers
        self.taken = 0
        self.writing = False
        self._begin = begin
        # By table and key: what the server has; what this transaction makes of it; and of a set,
        # which members it adds or removes.
        self._known: defaultdict[str, dict[bytes, bytes | None]] = defaultdict(dict)
        self._own: defaultdict[str, dict[bytes, bytes | None]] = defaultdict(dict)
        self._changed: defaultdict[str, dict[bytes, dict[bytes, bool]]] = defaultdict(dict)
        # Answers to other commands.
        self._answers: dict[Command, Any] = {}
        self._ahead = 0  # how many numbers may be taken

    def run(self, commands: Sequence[Command]) -> list[Any]:
        """Run commands in one round trip; the first ones begin the transaction, too."""
        if not self.seq:
            return self._begin(self, list(commands))
        return self._server.run(commands) if commands else []

    def _ask(self, commands: Sequence[Command]) -> list[Any]:
        """Run commands that read, each once."""
        missing = [command for command in commands if command not in self._answers]
        self._answers.update(zip(missing, self.run(missing), strict=True))
        return [self._answers[command] for command in commands]

    @property
    def reads_tables(self) -> bool:
        """Whether it read any of TABLES, which others may delete meanwhile."""
        return bool(self._known[TABLES]) or (TABLES, b"") in self.read

    def know(self, table: str, key: bytes, value: bytes | None) -> None:
        """Take a value for the one that the server has."""
        self._known[table][key] = value

    # Reading

    def get(self, table: str, key: bytes) -> bytes | None:
        own = self._own[table]
        if key in own:
            return own[key]
        self.read.add((table, key))
        return self._get_stored(table, key)

    def glance(self, keys: Sequence[bytes]) -> list[bytes | None]:
        own, known = self._own[DOCUMENTS], self._known[DOCUMENTS]
        self.fetch((DOCUMENTS, key) for key in keys if key not in own)
        return [own[key] if key in own else known[key] for key in keys]

    def _get_stored(self, table: str, key: bytes) -> bytes | None:
        known = self._known[table]
        if key not in known:
            self.fetch([(table, key)])
        return known[key]

    def scan(self, table: str, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        self.read.add((table, b""))
        own = {*self._own[table], *self._changed[table]}
        stored = (row for row in self._scan_stored(table, prefix) if row[0] not in own)
        written = sorted(key for key in own if key.startswith(prefix))
        if table not in SETS:
            values = ((key, self._own[table][key]) for key in written)
            yield from merge(stored, ((key, value) for key, value in values if value is not None))
            return
        for some in cut(stored, _FIELDS_PER_CALL):
            self._ask([self._read_crowded(table, key) for key, joined in some if not joined])
            for key, joined in some:
                yield from ((key, member) for member in self._list_members(table, key, joined))
        self.fetch((table, key) for key in written)
        for key in written:
            yield from ((key, member) for member in self.members(table, key))

    # SCAN goes through all keys of the server. Others may write meanwhile: keys that exist all the
    # time are read; keys added or deleted meanwhile may be.
    def _scan_stored(self, table: str, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Read what the server has: values, or members side by side."""
        self.run([])
        place = self._places[table]
        hashes = (
            self._scan_hash(place.single, prefix)
            if place.single
            else self._scan_hashes(self._list_hashes(table, prefix))
        )
        for name, found in hashes:
            for field, stored in sorted(found.items()):
                key = place.read(name, field)
                if key.startswith(prefix):
                    yield key, stored

    def _scan_hash(self, name: bytes, prefix: bytes) -> Iterator[tuple[bytes, dict[bytes, bytes]]]:
        seen: set[bytes] = set()
        cursor = None
        while cursor != 0:
            command = ("HSCAN", name, cursor or 0, "MATCH", glob(prefix))
            cursor, found = self._server.call(*command, "COUNT", _FIELDS_PER_CALL)
            yield name, {field: found[field] for field in found.keys() - seen}
            seen.update(found)

    def _scan_hashes(self, names: Sequence[bytes]) -> Iterator[tuple[bytes, dict[bytes, bytes]]]:
        for some in cut(names, _HASHES_PER_CALL):
            yield from zip(some, self.run([("HGETALL", name) for name in some]), strict=True)

    def _list_hashes(self, table: str, prefix: bytes = b"") -> list[bytes]:
        names = self._server.scan(self._places[table].pattern(prefix))
        return sorted(name for name in names if FULL not in name)

    def count(self, table: str) -> int:
        if not self._places[table].single:
            return sum(1 for _ in self.scan(table))
        own, known = self._own[table], self._known[table]
        self.fetch((table, key) for key in own)
        (stored,) = self._ask([("HLEN", self._places[table].single)])
        return int(stored) + sum(
            (value is not None) - (known[key] is not None) for key, value in own.items()
        )

    def draw(self, table: str, prefix: bytes, most: int) -> list[bytes]:
        (drawn,) = self._ask([("HRANDFIELD", self._places[table].single, _FIELDS_DRAWN)])
        keys = [key for key in drawn if key.startswith(prefix)]
        return random.sample(keys, min(most, len(keys)))

    def members(
        self, table: str, key: bytes, prefix: bytes = b"", most: int | None = None
    ) -> list[bytes]:
        if table not in _NEVER_READ:
            self.read.add((table, key))
        changed = self._changed[table].get(key, {})
        stored = self._own[table][key] if key in self._own[table] else self._get_stored(table, key)
        # Of those that are read, this transaction may remove some.
        limit = None if most is None else most + len(changed)
        found = _change(self._list_members(table, key, stored, prefix, limit), changed)
        return sorted(member for member in found if member.startswith(prefix))[:most]

    def _list_members(
        self,
        table: str,
        key: bytes,
        stored: bytes | None,
        prefix: bytes = b"",
        most: int | None = None,
    ) -> list[bytes]:
        """List the members of a set of which this is stored; others than those may be left out."""
        if stored == b"":
            found: list[bytes]
            (found,) = self._ask([self._read_crowded(table, key, prefix, most)])
            return found
        width = width_of(table, key)
        return (
            []
            if stored is None
            else [stored[at : at + width] for at in range(0, len(stored), width)]
        )

    def _read_crowded(
        self, table: str, key: bytes, prefix: bytes = b"", most: int | None = None
    ) -> Command:
        """Make the command that lists members of a set that is too large for a field."""
        bounds = (b"[" + prefix, b"(" + prefix + _BEYOND) if prefix else (b"-", b"+")
        limit = () if most is None else ("LIMIT", 0, most)
        return ("ZRANGEBYLEX", self._places[table].full(key), *bounds, *limit)

    def many(self, keys: Sequence[bytes], near: tuple[int, int], *, bounded: bool) -> Sets:
        # `commits` notices rows that others add to a bucket meanwhile, by their fingerprints.
        self.probed[near[0]] = max(near[1], self.probed.get(near[0], 0))
        known = self._known[TABLES]
        if not known.keys() >= set(keys):
            self.fetch((TABLES, key) for key in keys)
        joined, crowded = [], []
        for key in keys:
            value = known[key]
            if value:
                joined.append((key, value))
            elif value is not None:
                crowded.append(key)
        if crowded and not bounded:
            joined += [(key, b"".join(self._list_members(TABLES, key, b""))) for key in crowded]
            crowded = []
        if changed := self._changed[TABLES].keys() & {*keys} - {*crowded}:
            joined = [(key, value) for key, value in joined if key not in changed]
            joined += [(key, b"".join(self.members(TABLES, key))) for key in changed]
        return [bucket for bucket in joined if bucket[1]], b"", crowded

    def fetch(self, wanted: Iterable[tuple[str, bytes]] = (), *, numbers: int = 0) -> None:
        self._ahead = max(self._ahead, numbers)
        reserved = self._numbers[self.taken :][: self._ahead]
        by_table: defaultdict[str, dict[bytes, None]] = defaultdict(dict)
        for table, key in chain(wanted, ((DOCUMENTS, octets(each)) for each in reserved)):
            by_table[table][key] = None
        known = self._known[FINGERPRINTS]
        rows = [key for key in by_table.pop(FINGERPRINTS, ()) if key[:8] not in known]
        if not self.follows:
            by_table[FINGERPRINTS] = {key[:8]: None for key in rows}
            rows = []
        commands, read = self._list_reads(by_table)
        others: list[Read] = [
            (self._follow(some), partial(self._keep_followed, some))
            for some in cut(rows, _FIELDS_PER_CALL)
        ]
        # One that only reads reserves none.
        missing = self.writing * numbers - len(self._numbers) + self.taken
        if missing > 0:
            more = ("INCRBY", self._places.next, missing)
            others.append(
                (more, lambda last: self._numbers.extend(range(last + 1 - missing, last + 1)))
            )
        commands += [command for command, _ in others]
        answers = iter(self.run(commands) if commands else ())
        for (table, keys), values in zip(read, answers, strict=False):  # there are more answers
            self._known[table].update(zip(keys, values, strict=True))
        for (_, keep), answer in zip(others, answers, strict=True):
            keep(answer)

    def _list_reads(
        self, wanted: Mapping[str, Iterable[bytes]]
    ) -> tuple[list[Command], list[tuple[str, list[bytes]]]]:
        """Make the commands that read keys not known yet; also returns table and keys of each."""
        commands: list[Command] = []
        read: list[tuple[str, list[bytes]]] = []
        for table, keys in wanted.items():
            known, place = self._known[table], self._places[table]
            hashes: defaultdict[bytes, list[bytes]] = defaultdict(list)
            for key in keys:
                if key not in known:
                    hashes[place.name(key)].append(key)
            single = bool(place.single)
            for name, found in hashes.items():
                for some in cut(found, _FIELDS_PER_CALL) if single else (found,):
                    commands.append(("HMGET", name, *map(place.field, some)))
                    read.append((table, some))
        return commands, read

    def _follow(self, rows: Iterable[bytes]) -> Command:
        """Make the command that reads rows of fingerprints, and the records to which they lead."""
        place = self._places[FINGERPRINTS]
        sets = ((place.name(row), place.field(row[:8]), row[8:]) for row in rows)
        tables = (self._places[table].parts() for table in _FOLLOWED)
        return script(FOLLOW, [], *chain.from_iterable(chain(tables, sets)))

    def _keep_followed(self, rows: Iterable[bytes], answer: Sequence[Sequence[bytes]]) -> None:
        """Keep what `_follow` found."""
        sets, found = answer
        self._known[FINGERPRINTS].update(zip((row[:8] for row in rows), sets, strict=True))
        for at, table in enumerate(_FOLLOWED, 1):
            known = self._known[table]
            for key, value in zip(found[::3], found[at::3], strict=True):
                known.setdefault(key, value)

    # Numbers are unique unless the server loses its counter. With several writers, a document may
    # have a larger number than one that arrived a moment later.
    def take_number(self, above: int = 0) -> int:
        self._pass_over(above)
        if self.taken == len(self._numbers):
            self.fetch(numbers=1)
        self.taken += 1
        return self._numbers[self.taken - 1]

    def _pass_over(self, number: int) -> None:
        """Never hand out numbers up to this one."""
        if number:
            last = int(self.run([("GET", self._places.next)])[0] or 0)
            del self._numbers[self.taken :]
            if last < number:
                self._server.call("INCRBY", self._places.next, number - last)

    # Writing

    def put(self, table: str, key: bytes, value: bytes) -> None:
        self._own[table][key] = value
        self._write(Code.PUT, table, key, value)

    def delete(self, table: str, key: bytes) -> None:
        self._own[table][key] = None
        self._changed[table].pop(key, None)
        self._write(Code.DROP if table in SETS else Code.DELETE, table, key)

    def add(self, table: str, key: bytes, member: bytes) -> None:
        self._changed[table].setdefault(key, {})[member] = True
        self._write(Code.ADD, table, key, member)

    def discard(self, table: str, key: bytes, member: bytes) -> None:
        self._changed[table].setdefault(key, {})[member] = False
        self._write(Code.DISCARD, table, key, member)

    def _write(self, code: Code, table: str, key: bytes, value: bytes = b"") -> None:
        if table not in _NEVER_READ:
            self.written.add((table, key))
        place = self._places[table]
        self.writes.append((code, place.name(key), place.field(key), value, place.most))

    # Whole tables

    def clear_tables(self) -> None:
        self.run([])
        self._pass_over(self.find_last())
        self._places = self.writer.begin()
        for rows in (self._known, self._own, self._changed):
            rows.pop(TABLES, None)

    def fill(self, table: str, sets: Iterable[tuple[bytes, bytes]]) -> None:
        self.writer.fill(table, sets)
        self._known.pop(table, None)

    def measure_tables(self) -> tuple[int, int]:
        self.run([])
        pattern = self._places[TABLES].pattern(b"")
        names = self._server.scan(pattern)
        return self._server.measure(names), sum(FULL in name for name in names)

    def find_strays(self, design: Design) -> list[str]:
        del design
        problems = []
        following = int(self._server.call("GET", self._places.next) or 0) + 1
        if following <= self.find_last():
            problems.append(
                f"the next document would get number {following}, which is already in use"
            )
        for key, joined in self._scan_stored(TABLES, b""):
            if len(joined) % width_of(TABLES, key):
                problems.append(f"key {key.hex()} has {len(joined)} octets, not whole rows")
            elif not (joined or self._list_members(TABLES, key, joined)):
                problems.append(f"key {key.hex()} is marked as too full, but has no rows")
        return problems

    def find_last(self) -> int:
        # After a failover, the counter may be behind.
        names = self._list_hashes(DOCUMENTS)[-1:]
        place = self._places[DOCUMENTS]
        fields = (field for name in names for field in self._server.call("HKEYS", name))
        return max((number_of(place.read(names[0], field)) for field in fields), default=0)


class TableWriter:
    """Writes tables for a process that is alone; `require_alone` raises if it is no longer.

    It writes them anew, beside those in use, which other processes go on to read: as a new
    generation, to which the commit then switches at once. Unfinished ones are never used and are
    deleted or, after a kill, deleted by the next writer. Judgements of other processes that began
    before a rewrite start over after it.
    """

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


def _change(members: list[bytes], changed: dict[bytes, bool]) -> list[bytes]:
    """Apply to members what a transaction changes."""
    if not changed:
        return members
    found = dict.fromkeys(members, True) | changed
    return [member for member, there in found.items() if there]
