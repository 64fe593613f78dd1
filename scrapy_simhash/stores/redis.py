"""The Redis kind of store: one server, for processes on any number of hosts.

Nobody has a lock. A transaction reads each row once (`fetch`: many at one moment), and sends its
changes in one round trip to a script, which makes all of them at once: it adds members to sets and
removes some, whatever others did. It makes none if the header, or a row that the transaction both
read and replaces, is another one by now; then the transaction is run again. `P` is the URL's
prefix::

    P:<table>           hash: the rows of a table by key; of the header, the last number, too
    P:<table>:<lead>    hash: those rows of a large table that begin so; the field is the rest

A set is a field with its members side by side, in any order, some perhaps twice.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections import defaultdict
from contextlib import contextmanager
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from redis import Redis, exceptions
from redis.backoff import NoBackoff
from redis.retry import Retry

from scrapy_simhash.errors import StoreUnavailableError, StoreUnusableError
from scrapy_simhash.stores.keyvalues import (
    DOCUMENTS,
    HEADER,
    HEADER_KEY,
    SETS,
    SITES,
    TABLES,
    TEXTS,
    Engine,
    KeyValues,
    Row,
    cut,
)
from scrapy_simhash.stores.opening import server_address, show_url
from scrapy_simhash.tables import MOST_IN_BUCKET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path


Result = TypeVar("Result")
_Command: TypeAlias = tuple[Any, ...]
logger = logging.getLogger(__name__)

TIMEOUT_SECONDS = 5.0
# After two failures in a row nobody waits for the server, but one command after so many seconds.
PAUSE_SECONDS = 15.0
# How many bytes of a key name its hash, if not two. Small hashes take a third of the memory (a
# "listpack"), and documents are read in ascending order.
_LEAD_BYTES = defaultdict(lambda: 2, {DOCUMENTS: 7, TEXTS: 7, TABLES: 1, HEADER: 0, SITES: 0})
# A field takes the server a microsecond, a change some; meanwhile it answers nobody else.
_FIELDS_PER_CALL, _CHANGES_PER_CALL, _HASHES_PER_CALL = 4_096, 8_192, 256
_TRIES = 5
_HEADER: Row = (HEADER, HEADER_KEY)

# Takes fields, each behind its hash and before its largest size; returns their values, or the sizes
# of those that are larger.
_READ = """
local found = {}
for at = 1, #ARGV, 3 do
  local value = redis.call('HGET', ARGV[at], ARGV[at + 1])
  found[#found + 1] = value and #value > tonumber(ARGV[at + 2]) and #value or value
end
return found
"""
# Takes changes, each a verb with five arguments; what fields must have comes first. By its
# first line a server without memory, or a replica, refuses it before anything is changed.
_WRITE = """#!lua
local call, verbs = redis.call, {}
function verbs.has(hash, field, value) return (call('HGET', hash, field) or '') ~= value end
function verbs.put(hash, field, value) call('HSET', hash, field, value) end
function verbs.drop(hash, field) call('HDEL', hash, field) end
function verbs.change(hash, field, added, removed, width)
  local row, member, gone = call('HGET', hash, field) or '', ('.'):rep(width), {}
  for each in removed:gmatch(member) do gone[each] = '' end
  row = (next(gone) and row:gsub(member, gone) or row) .. added
  if row == '' then call('HDEL', hash, field) else call('HSET', hash, field, row) end
end
for at = 1, #ARGV, 6 do
  if verbs[ARGV[at]](unpack(ARGV, at + 1, at + 5)) then return 0 end
end
return 1
"""
_TLS = "does not use TLS here, or not with a certificate that is trusted; name its port for TLS and"
_TLS += " the certificate authority (?ssl_ca_certs=/path), or write redis://"
# What is wrong and what helps, by a part of an error, or of its class; the first one that fits.
_CURES = {
    "DB index": "has no database with this number; see its setting `databases`",
    "SSL": _TLS,
    "certificate": _TLS,
    "WRONGTYPE": "has another program's data under this prefix; name another one (?prefix=...)",
    "Authentication": "refuses the user or password; write redis://user:password@host",
    "NoPermission": "does not let this user do that; see its access control list (ACL)",
    "BusyLoading": "is loading its data; try again when it is done",
    "OutOfMemory": "has no memory left (maxmemory); give it more, then prune the store",
    "ReadOnly": "is a replica and accepts no writes; name the primary",
    # A port without TLS does not answer a client that uses TLS.
    "Timeout": "did not answer in time; check load, port and TLS",
    "Connection": "cannot be reached; check that it runs, host and port, and rediss:// (TLS)",
    "": "refused the command",
}


class NoAnswerError(StoreUnavailableError):
    """The server did not answer; it may have done what it was asked to do."""


class _ChangedError(Exception):
    """The header is another one by now: tables of another design look damaged."""


class RedisValues(KeyValues):
    """A transaction, see `KeyValues`; `header` is what the last one knew of it."""

    def __init__(self, engine: RedisEngine, header: bytes | None) -> None:
        self._engine, self._prefix = engine, engine.prefix
        # What the server has; of a large set in TABLES, how many bytes.
        self._rows: dict[Row, Any] = {_HEADER: header} if header else {}
        # What this transaction puts in its place, and which members it adds (True) or removes then.
        self._put: dict[Row, bytes | None] = {}
        self._changed: defaultdict[Row, dict[bytes, bool]] = defaultdict(dict)
        (self.header,) = self.get(*_HEADER)

    def ask(self, *commands: _Command) -> list[Any]:
        """Read in one round trip, the header last: then it was the same all the time."""
        *answers, header = self._engine.ask(*commands, ("HGET", *self._place(*_HEADER)))
        if header != self._rows.setdefault(_HEADER, header):
            raise _ChangedError
        return answers

    def fetch(self, rows: Iterable[Row]) -> None:
        lacked = {row: None for row in rows if row not in self._rows and row not in self._put}
        for some in cut(lacked, _FIELDS_PER_CALL):
            asked: list[Any] = []
            for table, key in some:
                most = MOST_IN_BUCKET * (SETS[TABLES] - len(key)) if table == TABLES else 2**30
                asked += (*self._place(table, key), most)
            (found,) = self.ask(("EVAL_RO", _READ, 0, *asked))
            self._rows.update(zip(some, found, strict=True))

    def _place(self, table: str, key: bytes) -> tuple[bytes, bytes]:
        """Return the hash and the field of a row."""
        lead_bytes = _LEAD_BYTES[table]
        return _name(self._prefix, table, key[:lead_bytes]), key[lead_bytes:]

    def get(self, table: str, *keys: bytes) -> list[bytes | None]:
        rows = [(table, key) for key in keys]
        self.fetch(rows)
        for row in rows:
            if isinstance(self._rows.get(row), int):
                (self._rows[row],) = self.ask(("HGET", *self._place(*row)))
        return [self._put[row] if row in self._put else self._rows.get(row) for row in rows]

    def _list_members(self, table: str, key: bytes) -> list[bytes]:
        (row,) = self.get(table, key)
        there = dict.fromkeys(_cut_row(table, key, row or b""), True)
        there |= self._changed.get((table, key), {})
        return sorted(each for each, is_there in there.items() if is_there)

    def read_sets(
        self, table: str, keys: Sequence[bytes], in_bucket: int | None = None
    ) -> tuple[bytes, list[bytes]]:
        self.fetch((table, key) for key in keys)
        rows, crowded = list[bytes](), list[bytes]()
        for key in keys:
            row = self._rows.get((table, key))
            if not row and (table, key) not in self._changed:
                continue  # as most are
            members = list[bytes]()
            most = in_bucket and in_bucket * (SETS[table] - len(key))
            if not (too_large := isinstance(row, int) and most and row > most):
                members = self._list_members(table, key)
            if too_large or (in_bucket and len(members) > in_bucket):
                crowded.append(key)
            else:
                rows += [key + member for member in members]
        whole = (row for row in rows if len(row) == SETS[table])  # a damaged set may be cut short
        return b"".join(whole), crowded

    def scan(self, table: str, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        name = _name(self._prefix, table)
        lead = prefix[: _LEAD_BYTES[table]].hex()
        names = self._engine.list_names(f"{table}:{lead}*") or [name]
        for some in cut(names, _HASHES_PER_CALL):
            found = self.ask(*(("HGETALL", each) for each in some))
            for each, rows in zip(some, found, strict=True):
                first = bytes.fromhex(each[len(name) + 1 :].decode())
                for key, row in sorted((first + field, row) for field, row in rows.items()):
                    if key.startswith(prefix):
                        parts = {*_cut_row(table, key, row)} if table in SETS else [row]
                        yield from ((key, part) for part in parts)

    def put(self, table: str, key: bytes, value: bytes) -> None:
        if table in SETS:
            self._changed[table, key][value] = True
        else:
            self._put[table, key] = value

    def delete(self, table: str, key: bytes, member: bytes = b"") -> None:
        if member:
            self._changed[table, key][member] = False
        else:
            self._put[table, key] = None
            self._changed.pop((table, key), None)

    def commit(self) -> bool:
        """Write all changes at once, or none, if others changed what they rest on: then False."""
        changes: list[_Command] = [
            ("drop" if value is None else "put", *self._place(*row), value or b"", b"", 0)
            for row, value in self._put.items()
        ]
        for (table, key), members in self._changed.items():
            some = (
                b"".join([each for each, is_added in members.items() if is_added == wanted])
                for wanted in (True, False)
            )
            changes.append(("change", *self._place(table, key), *some, SETS[table] - len(key)))
        if not changes:
            return True
        read = [row for row in (_HEADER, *self._put) if row in self._rows]
        as_read = [("has", *self._place(*row), self._rows[row] or b"", b"", 0) for row in read]
        # The first call decides for the others; in between, nobody sees anything.
        stamp = (*self._place(HEADER, b"commit"), secrets.token_bytes(8), b"", 0)
        calls = [[*as_read, ("put", *stamp)]]
        calls += ([("has", *stamp), *some] for some in cut(changes, _CHANGES_PER_CALL))
        commands = (("EVAL", _WRITE, 0, *chain.from_iterable(call)) for call in calls)
        return bool(self._engine.ask(*commands, atomic=True)[0])


@lru_cache(maxsize=2**18)
def _name(prefix: str, table: str, lead: bytes = b"") -> bytes:
    """Name the hash of the rows of a table that begin so."""
    return f"{prefix}:{table}{':' * bool(lead)}{lead.hex()}".encode()


def _cut_row(table: str, key: bytes, row: bytes) -> list[bytes]:
    """Cut the field of a set into its members."""
    width = SETS[table] - len(key)
    return [row[at : at + width] for at in range(0, len(row), width)]


class RedisEngine(Engine):
    """A store on a server; it refuses one that would lose data.

    `check --rebuild` wants no crawl at work: the tables that it writes may lack what that adds.
    """

    shared = True

    def __init__(self, place: Path | str, *, readonly: bool = False) -> None:
        self.url, self.readonly = show_url(str(place)), readonly
        self._address, self.prefix = server_address(str(place))
        self._is_open = False  # before, an error says that it cannot be opened
        self._failures, self._failure, self._pause_ends = 0, "", 0.0  # in a row, the last one
        self._header: bytes | None = None  # as it was last read
        once = Retry(NoBackoff(), 0)  # who asks knows whether a command may be sent again
        with self._explained():
            self._client = Redis.from_url(
                self._address, retry=once, socket_timeout=TIMEOUT_SECONDS, protocol=2
            )
        self._check(dict(self.ask(("INFO",))[0]))

    def _check(self, info: dict[str, Any]) -> None:
        policy, reason = info["maxmemory_policy"], ""
        if (version := info["redis_version"]).startswith(("2.", "3.", "4.", "5.", "6.")):
            reason = f"is Redis {version}; it must be 7.0 or later"
        elif info["cluster_enabled"]:
            reason = "is a node of a cluster, which cannot keep a store; name one server"
        elif not self.readonly and policy.startswith("allkeys"):  # nothing of a store is volatile
            reason = f"deletes keys when memory is full (maxmemory-policy {policy}): set noeviction"
        elif not self.readonly and info["role"] != "master":
            reason = "is a replica and accepts no writes; name the primary"
        if reason:
            raise StoreUnusableError(f"the server at {self.url} {reason}")
        if not (self.readonly or info["aof_enabled"]):
            logger.warning(
                "The server at %s keeps no append-only file: if it crashes, it loses writes "
                "that it acknowledged. Set appendonly to yes, and appendfsync to always",
                self.url,
            )

    def ask(self, *commands: _Command, atomic: bool = False) -> list[Any]:
        """Run commands in one round trip; `atomic` ones all at once.

        Raises:
            NoAnswerError: it is not known whether they were run.
            StoreUnavailableError: the server refused one, or did not answer twice in a row.
        """
        if self._failures > 1 and time.monotonic() < self._pause_ends:
            raise StoreUnavailableError(f"{self._failure}; it is tried again every few seconds")
        with self._explained():
            pipeline = self._client.pipeline(transaction=atomic)
            for command in commands:
                pipeline.execute_command(*command)  # type: ignore[no-untyped-call]
            answers: list[Any] = pipeline.execute(raise_on_error=False)
            self._failures = 0
            for error in (answer for answer in answers if isinstance(answer, Exception)):
                raise error
        return answers

    def list_names(self, pattern: str) -> list[bytes]:
        """List the keys of the store that match a pattern, sorted; looks at all of the server."""
        with self._explained():
            found = self._client.scan_iter(f"{self.prefix}:{pattern}", count=1_000)
            return sorted(set(found))

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn errors of redis-py into one that names the cure."""
        try:
            yield
        except (exceptions.RedisError, OSError, ValueError, TypeError, OverflowError) as error:
            # The error message may contain the URL.
            said = str(error).replace(self._address, self.url)
            found = f"{type(error).__name__} {said}"
            cure = next(cure for sign, cure in _CURES.items() if sign in found)
            text = f"the server at {self.url} {cure} ({said})"
            if not self._is_open:
                raise StoreUnusableError(text) from error
            if not isinstance(
                error, exceptions.ConnectionError | exceptions.TimeoutError | OSError
            ):
                raise StoreUnavailableError(text) from error
            self._failures, self._failure = self._failures + 1, text
            self._pause_ends = time.monotonic() + PAUSE_SECONDS
            raise NoAnswerError(text) from error

    def exists(self) -> bool:
        return self.run(lambda values: values.header is not None, writing=False)

    def open(self) -> None:
        if self.readonly and not self.exists():
            raise StoreUnusableError(f"there is no store at {self.url}; name an existing one")
        # Reading all keys takes too long; another program's data would use one of these.
        leads = ((HEADER, b""), (DOCUMENTS, bytes(7)), (TABLES, bytes(1)))
        names = [_name(self.prefix, *lead) for lead in leads]
        there = self.ask(*(("EXISTS", name) for name in names))
        if any(there) and not self.exists():  # by now: another process may just have made it
            raise StoreUnusableError(
                f"the server at {self.url} has a key {names[there.index(1)].decode()!r}, but "
                "no header of a store: the data is another program's, or damaged. Name "
                "another prefix (?prefix=...) in SIMHASH_STORE"
            )
        self._is_open = True

    def run(self, work: Callable[[RedisValues], Result], *, writing: bool) -> Result:
        """Run a transaction; again, if others were in its way, or an answer was lost."""
        error = StoreUnavailableError(
            f"other processes keep changing the store at {self.url}; try again when they are done"
        )
        for _ in range(_TRIES):
            try:
                values = RedisValues(self, self._header)
                result = work(values)
                if not writing or values.commit():
                    (self._header,) = values.get(*_HEADER)
                    return result
            except _ChangedError:
                pass
            except NoAnswerError as lost:
                error = lost
            self._header = None
        raise error

    def take_numbers(self, count: int) -> int:
        # A header that was lost is not made anew.
        script = "return redis.call('HEXISTS', ARGV[1], ARGV[2]) == 1 "
        script += "and redis.call('HINCRBY', ARGV[1], 'last', ARGV[3])"
        command = ("EVAL", script, 0, _name(self.prefix, HEADER), HEADER_KEY, count)
        last = self.run(lambda values: values.ask(command)[0], writing=False)
        if last is None:
            raise StoreUnusableError(f"the store at {self.url} has no header; restore a backup")
        return int(last) - count + 1

    def measure(self) -> int:
        sizes = self.ask(*(("MEMORY", "USAGE", name) for name in self.list_names("*")))
        return sum(filter(None, sizes))

    def close(self) -> None:
        self._client.close()
