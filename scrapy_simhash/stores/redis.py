"""The Redis kind of store: one server, for processes on any number of hosts.

A writing transaction holds the store's lock, so it is alone. It reads each row once (`fetch` reads
many in a round trip), changes rows here, and writes them with MULTI and EXEC while it WATCHes the
lock: if that was lost meanwhile, nothing is written. `P` is the prefix in the URL::

    P:<table>               hash: the rows of a table by key
    P:<table>:<lead>        hash: those rows of a large table that begin so; the field is the rest
    P:<table>:...:<field>   sorted set: the members of a set that has too many for a field
    P:lock                  who is writing: expires unless it is renewed
    P:turn                  list of one item: whoever waits longest gets it, and may take the lock
    P:lease:<crawl>         a crawl that is running: expires unless it is renewed

A set is a field with its members side by side. The hash of the header has two fields more.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections import defaultdict
from contextlib import suppress
from functools import lru_cache
from heapq import merge
from itertools import chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import xxhash

from scrapy_simhash.errors import StoreError, StoreUnavailableError, StoreUnusableError
from scrapy_simhash.stores.header import HEADER_KEY
from scrapy_simhash.stores.keyvalues import (
    ALIASES,
    DOCUMENTS,
    DUPLICATES,
    FINGERPRINTS,
    HEADER,
    IDENTITIES,
    KEYS,
    NAMES,
    SETS,
    TABLES,
    TEXTS,
    WAIT_SECONDS,
    Engine,
    KeyValues,
    cut,
    cut_rows,
    octets,
)
from scrapy_simhash.stores.opening import server_address
from scrapy_simhash.stores.redisserver import LOCK_SECONDS, NoAnswerError, RedisLeases, Server
from scrapy_simhash.stores.rows import LOST
from scrapy_simhash.tables.probing import MOST_IN_BUCKET, ROW_BYTES, unpack_buckets

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
    from pathlib import Path

    from scrapy_simhash.stores.redisserver import Command, Run

Result = TypeVar("Result")

# How many bytes of a key name its hash. Small hashes take a third of the memory (a "listpack"), and
# documents are read in ascending order. A digest names those of identities.
_LEAD_BYTES = {
    **dict.fromkeys((DOCUMENTS, TEXTS, DUPLICATES, ALIASES), 7),
    **dict.fromkeys((IDENTITIES, FINGERPRINTS, NAMES, KEYS), 2),
    TABLES: 1,
}
_MOST_IN_FIELD = 512
_FIELDS_PER_CALL, _HASHES_PER_CALL = 4_096, 256
_BEYOND = b"\xff" * 64
# Further fields of the header's hash: the last document, the last commit.
_LAST, _COMMIT = b"last", b"commit"

_TURN_SECONDS = 1.0
# A transaction is tried again if the lock, or an answer of the server, was lost.
_TRIES = 3


class RedisValues(KeyValues):
    """A transaction, see `KeyValues`; `header` has the fields of its hash that were read."""

    def __init__(self, run: Run, prefix: str, header: dict[bytes, bytes | None]) -> None:
        self._run, self._prefix = run, prefix
        # By table and key: what the server has, where b"" stands for a set that is a key of its
        # own, or what this transaction makes of it; and which members it adds (True) or removes.
        self._rows: defaultdict[str, dict[bytes, bytes | None]]
        self._rows = defaultdict(dict, {HEADER: header})
        self._changed: defaultdict[tuple[str, bytes], dict[bytes, bool]] = defaultdict(dict)
        # Keys of all rows to be written, and keys of the server to be deleted before.
        self._written: defaultdict[str, set[bytes]] = defaultdict(set)
        self._dropped: list[bytes] = []
        self._cleared = False  # whether TABLES are empty but for what this transaction wrote
        # While somebody looks ahead: what was not there.
        self._lacked: dict[tuple[str, bytes], None] | None = None

    def look_ahead(self, look: Callable[[], object]) -> None:
        lacked = None
        while lacked != {}:
            self._lacked = {}
            try:
                look()
            finally:
                lacked, self._lacked = self._lacked, None
            self.fetch(lacked)

    def fetch(self, wanted: Iterable[tuple[str, bytes]]) -> None:
        hashes: defaultdict[tuple[str, bytes], list[bytes]] = defaultdict(list)
        for table, key in dict.fromkeys(wanted):
            if table == TABLES and self._cleared:
                self._rows[table].setdefault(key, None)
            elif key in self._rows[table]:
                continue
            elif self._lacked is not None:
                self._lacked[table, key] = None
            else:
                hashes[table, self._name(table, key)].append(key)
        if not hashes:
            return
        parts = [(*at, some) for at, keys in hashes.items() for some in cut(keys, _FIELDS_PER_CALL)]
        found = self._run(
            [("HMGET", name, *(_field(table, key) for key in keys)) for table, name, keys in parts]
        )
        for (table, _, keys), values in zip(parts, found, strict=True):
            self._rows[table].update(zip(keys, values, strict=True))

    def _name(self, table: str, key: bytes) -> bytes:
        lead = xxhash.xxh3_64_digest(key) if table == IDENTITIES else key
        return _name_hash(self._prefix, table, lead[: _LEAD_BYTES.get(table, 0)])

    def _name_crowd(self, table: str, key: bytes) -> bytes:
        return b"%b:%b" % (self._name(table, key), _field(table, key).hex().encode())

    def get(self, table: str, key: bytes) -> bytes | None:
        rows = self._rows[table]
        if key not in rows:
            self.fetch([(table, key)])
        return rows.get(key)

    def members(
        self, table: str, key: bytes, prefix: bytes = b"", most: int | None = None
    ) -> list[bytes]:
        row, changed = self.get(table, key), self._changed.get((table, key), {})
        if row == b"" and self._lacked is not None:
            return []
        if row == b"":
            bounds = (b"[" + prefix, b"(" + prefix + _BEYOND) if prefix else (b"-", b"+")
            limit = () if most is None else ("LIMIT", 0, most + len(changed))
            name = self._name_crowd(table, key)
            found: list[bytes] = self._run([("ZRANGEBYLEX", name, *bounds, *limit)])[0]
        elif table == ALIASES:
            found = msgspec.msgpack.decode(row) if row else []
        else:
            width = ROW_BYTES - len(key) if table == TABLES else SETS[table]
            found = [row[at : at + width] for at in range(0, len(row), width)] if row else []
        if changed:
            own = (member for member, added in changed.items() if added)
            found = sorted({*(each for each in found if each not in changed), *own})
        if prefix:
            found = [member for member in found if member.startswith(prefix)]
        return found[:most]

    def many(self, keys: Sequence[bytes], in_bucket: int | None) -> tuple[bytes, list[bytes]]:
        rows = self._rows[TABLES]
        if not rows.keys() >= {*keys}:
            self.fetch((TABLES, key) for key in keys)
        large = [key for key in keys if rows.get(key) == b""]
        if in_bucket is None:
            large = []
        elif large and in_bucket > MOST_IN_BUCKET and self._lacked is None:
            sizes = self._run([("ZCARD", self._name_crowd(TABLES, key)) for key in large])
            large = [key for key, size in zip(large, sizes, strict=True) if size > in_bucket]
        joined, crowded = [], []
        for key in keys:
            row = rows.get(key)
            if key in large:
                crowded.append(key)
            elif row == b"" or (TABLES, key) in self._changed:
                joined.append((key, b"".join(self.members(TABLES, key))))
            elif row:
                joined.append((key, row))
        return unpack_buckets(joined), crowded

    def scan(self, table: str, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        own = self._written[table]
        stored = (row for row in self._scan_stored(table, prefix) if row[0] not in own)
        written = ((key, self.get(table, key)) for key in sorted(own) if key.startswith(prefix))
        for key, row in merge(stored, written, key=itemgetter(0)):
            if table in SETS:
                self._rows[table].setdefault(key, row)
                yield from ((key, member) for member in self.members(table, key))
            elif row is not None:
                yield key, row

    def _scan_stored(self, table: str, prefix: bytes) -> Iterator[tuple[bytes, bytes | None]]:
        """Read what the server has; in ascending order but for identities."""
        name, lead_bytes = _name_hash(self._prefix, table, b""), _LEAD_BYTES.get(table, 0)
        names = {name} if not lead_bytes else self.list_keys(name + b":*")
        if table == TABLES and self._cleared:
            names = set()
        colons = 1 + bool(lead_bytes)  # one more is in the name of a set
        hashes = sorted(found for found in names if found.count(b":") == colons)
        if table == IDENTITIES:
            lead_bytes = 0
        for some in cut(hashes, _HASHES_PER_CALL):
            for found, fields in zip(
                some, self._run([("HGETALL", each) for each in some]), strict=True
            ):
                lead = bytes.fromhex(found[len(name) + 1 :].decode()) if lead_bytes else b""
                pairs = zip(fields[::2], fields[1::2], strict=True)
                keys = ((lead + field, row) for field, row in pairs)
                yield from sorted(row for row in keys if row[0].startswith(prefix))

    def list_keys(self, pattern: bytes) -> set[bytes]:
        """List the keys of the server that match a pattern; looks at all of them."""
        found: set[bytes] = set()
        cursor: bytes | None = None
        while cursor != b"0":
            command = ("SCAN", cursor or 0, "MATCH", pattern, "COUNT", 1_000)
            ((cursor, names),) = self._run([command])
            found.update(names)
        return found

    def put(self, table: str, key: bytes, value: bytes) -> None:
        self._rows[table][key] = value
        self._written[table].add(key)

    def delete(self, table: str, key: bytes) -> None:
        if table in SETS:
            self._changed.pop((table, key), None)
            if self.get(table, key) == b"":
                self._dropped.append(self._name_crowd(table, key))
        self._rows[table][key] = None
        self._written[table].add(key)

    def add(self, table: str, key: bytes, member: bytes) -> None:
        self._changed[table, key][member] = True
        self._written[table].add(key)

    def discard(self, table: str, key: bytes, member: bytes) -> None:
        self._changed[table, key][member] = False
        self._written[table].add(key)

    def take_number(self) -> int:
        number = int(self.get(HEADER, _LAST) or 0) + 1
        self.put(HEADER, _LAST, b"%d" % number)
        self._rows[DOCUMENTS].setdefault(octets(number), None)
        return number

    def clear_tables(self) -> None:
        self._dropped += self.list_keys(_name_hash(self._prefix, TABLES, b"") + b":*")
        for key in self._rows.pop(TABLES, ()):
            self._changed.pop((TABLES, key), None)
        self._written.pop(TABLES, None)
        self._cleared = True

    def fill(self, rows: bytes, *, key_bytes: int) -> None:
        for key, some in groupby(cut_rows(rows, key_bytes), itemgetter(0)):
            self.put(TABLES, key, b"".join([member for _, member in some]))

    def list_writes(self) -> Iterator[Command]:
        """Make the commands that write what this transaction changed."""
        self.fetch(self._changed)
        if self._dropped:
            yield ("UNLINK", *self._dropped)
        for table, keys in self._written.items():
            hashes: defaultdict[bytes, list[tuple[bytes, bytes | None]]] = defaultdict(list)
            for key in keys:
                row = (yield from self._pack(table, key)) if table in SETS else self.get(table, key)
                hashes[self._name(table, key)].append((_field(table, key), row))
            for name, rows in hashes.items():
                if gone := [field for field, row in rows if row is None]:
                    yield ("HDEL", name, *gone)
                for some in cut((pair for pair in rows if pair[1] is not None), _FIELDS_PER_CALL):
                    yield ("HSET", name, *chain.from_iterable(some))

    def _pack(self, table: str, key: bytes) -> Generator[Command, None, bytes | None]:
        """Return the field of a set that was changed; yields the commands for a large set."""
        name, changed = self._name_crowd(table, key), self._changed.get((table, key), {})
        most = MOST_IN_BUCKET if table == TABLES else _MOST_IN_FIELD
        crowded = self.get(table, key) == b""
        if not crowded or not all(changed.values()):
            members = self.members(table, key)
            if crowded and 2 * len(members) <= most:
                crowded = False
                yield ("UNLINK", name)
            if not crowded:
                if len(members) <= most:
                    packed = msgspec.msgpack.encode if table == ALIASES else b"".join
                    return packed(members) if members else None
                changed = dict.fromkeys(members, True)
        for member, added in changed.items():
            yield ("ZADD", name, 0, member) if added else ("ZREM", name, member)
        return b""


@lru_cache(maxsize=2**18)
def _name_hash(prefix: str, table: str, lead: bytes) -> bytes:
    return f"{prefix}:{table}{':' * bool(lead)}{lead.hex()}".encode()


def _field(table: str, key: bytes) -> bytes:
    return key if table == IDENTITIES else key[_LEAD_BYTES.get(table, 0) :]


class RedisEngine(Engine):
    """A store on a server, see `Engine`."""

    shared = True
    leases: RedisLeases

    def __init__(self, place: Path | str, *, readonly: bool = False) -> None:
        address = server_address(str(place))
        self.url, self.readonly, self._prefix = address.shown, readonly, address.prefix
        self._pid = os.getpid()
        self._token = secrets.token_bytes(16)
        self._lock, self._turn, self._header = (
            f"{self._prefix}:{name}".encode() for name in ("lock", "turn", HEADER)
        )
        self._writing = threading.Lock()
        # Whether this process may have the lock, because an answer was lost.
        self._in_doubt = False
        self._server = Server(address, readonly=readonly)
        self.leases = RedisLeases(self._server, self._prefix, self._token)

    def exists(self) -> bool:
        with self._server.opening():
            return bool(self._server.ask(("HEXISTS", self._header, HEADER_KEY))[0])

    def open(self) -> None:
        if self.exists():
            return
        if self.readonly:
            raise StoreUnusableError(f"there is no store at {self.url}; name an existing one")
        # Reading all keys takes too long; another program's data would use one of these.
        names = [_name_hash(self._prefix, DOCUMENTS, bytes(7)), _name_hash(self._prefix, LOST, b"")]
        with self._server.opening():
            there = self._server.ask(*(("EXISTS", name) for name in names))
            # Another process may have made the store just now.
            if any(there) and not self.exists():
                raise StoreUnusableError(
                    f"the server at {self.url} has a key {names[there.index(1)].decode()!r}, but "
                    "no header of a store: the data is another program's, or damaged. Name "
                    "another prefix (?prefix=...) in SIMHASH_STORE"
                )
            self._server.ask(("DEL", self._turn), ("RPUSH", self._turn, 1))

    def _begin(self, run: Run, *first: Command) -> tuple[RedisValues, list[Any]]:
        """Begin a transaction behind commands; returns their answers, too."""
        if os.getpid() != self._pid:
            raise StoreUnavailableError(
                f"the store at {self.url} was opened before a fork; open it in the child"
            )
        fields = (HEADER_KEY, _LAST, _COMMIT)
        commands = [*first, ("HMGET", self._header, *fields)]
        answers = run([*commands, *self.leases.begin()])
        self.leases.begun(answers[len(commands) :])
        header = dict(zip(fields, answers[len(first)], strict=True))
        return RedisValues(run, self._prefix, header), answers

    def read(self, work: Callable[[KeyValues], Result]) -> Result:
        error: StoreError = StoreUnavailableError(
            f"the tables of the store at {self.url} were rewritten while they were read; try again"
        )
        for _ in range(_TRIES):
            try:
                with self._server.connected() as run:
                    values, _ = self._begin(run)
                    try:
                        result = work(values)
                    except NoAnswerError:
                        raise
                    except StoreError:
                        if self._is_latest(run, values):
                            raise
                    else:
                        if self._is_latest(run, values):
                            return result
            except NoAnswerError as lost:
                error = lost
        raise error

    def _is_latest(self, run: Run, values: RedisValues) -> bool:
        """Whether the header is still the same: with another design all tables look damaged."""
        return bool(run([("HGET", self._header, HEADER_KEY)])[0] == values.get(HEADER, HEADER_KEY))

    def write(self, work: Callable[[KeyValues], Result]) -> Result:
        error = StoreUnavailableError(
            f"the lock of the store at {self.url} was lost, as this process stood still; try again"
        )
        mark = secrets.token_bytes(8)
        with self._writing:
            for _ in range(_TRIES):
                try:
                    with self._server.connected() as run:
                        values = self._take_lock(run)
                        if values.get(HEADER, _COMMIT) != mark:  # or only an answer was lost
                            result = work(values)
                            values.put(HEADER, _COMMIT, mark)
                        if self._commit(run, values):
                            return result
                except NoAnswerError as lost:
                    error = lost
                except BaseException:
                    self._give_back()
                    raise
                finally:
                    self.leases.lock = None
        raise error

    def _take_lock(self, run: Run) -> RedisValues:
        """Wait for the lock, and begin a transaction."""
        milliseconds = round(1_000 * LOCK_SECONDS)
        take = ("SET", self._lock, self._token, "NX", "GET", "PX", milliseconds)
        self.leases.start()
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            # The turn is lost with a process that dies, and nobody gives it to one that still has
            # the lock: then it looks whether it can take that.
            wait = ("BLPOP", self._turn, 0.001 if self._in_doubt else _TURN_SECONDS)
            self._in_doubt = True
            values, answers = self._begin(run, ("UNWATCH",), wait, take, ("WATCH", self._lock))
            if answers[2] in {None, self._token}:
                self.leases.lock = self._lock
                return values
            self._in_doubt = False
        raise StoreUnavailableError(
            f"other processes have been writing to the store at {self.url} for more than "
            f"{WAIT_SECONDS:g} seconds; try again when they are done"
        )

    def _commit(self, run: Run, values: RedisValues) -> bool:
        """Write, and give the lock back; if it was lost, write nothing and return False."""
        commands = [("MULTI",), *values.list_writes(), *self._giving_back(), ("EXEC",)]
        while run(commands)[-1] is None:
            # Something happened to the lock: it was renewed, or lost.
            if run([("WATCH", self._lock), ("GET", self._lock)])[1] != self._token:
                self._in_doubt = False
                return False
        self._in_doubt = False
        return True

    def _giving_back(self) -> list[Command]:
        return [("DEL", self._lock, self._turn), ("RPUSH", self._turn, 1)]

    def _give_back(self) -> None:
        """Give the lock back, if this process has it."""
        if self.leases.lock:
            with suppress(StoreError):
                self._server.ask(*self._giving_back())
                self._in_doubt = False

    def measure(self) -> tuple[str, int]:
        with self._server.connected() as run:
            names = RedisValues(run, self._prefix, {}).list_keys(f"{self._prefix}:*".encode())
            sizes = run([("MEMORY", "USAGE", name) for name in names])
        return "memory_bytes", sum(size or 0 for size in sizes)

    def close(self) -> None:
        if os.getpid() == self._pid:  # do not close a forked child's copy
            self.leases.close()
            self._server.close()
