"""The LMDB kind of store: one folder, any number of processes on one host.

One environment per folder and process: guarded opening, durable transactions, map growth. LMDB
keeps its defaults: every commit is synced. `sync=False` damaged the file in 195 of 200 simulated
power cuts, and `writemap=True` turns a full disk into a killed process.

Each table of `keyvalues` is a database of its name; those of sets are DUPSORT. The header's also
has the last number that was taken for a document. In TABLES, keys begin with the table's number, so
that each permuted table (paper, section 3.1) is one sorted run. Long values are cut into parts.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import islice, takewhile
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import lmdb
from filelock import FileLock, Timeout

from scrapy_simhash._files import sync_folder
from scrapy_simhash.errors import StoreError, StoreUnavailableError, StoreUnusableError
from scrapy_simhash.stores.header import HEADER_KEY, unpack_header
from scrapy_simhash.stores.keyvalues import (
    DOCUMENTS,
    HEADER,
    SETS,
    TABLES,
    TEXTS,
    VALUES,
    WAIT_SECONDS,
    Engine,
    KeyValues,
    cut_rows,
    number_of,
    octets,
)
from scrapy_simhash.stores.lmdb import guard
from scrapy_simhash.tables.probing import ROW_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

Result = TypeVar("Result")

# Address space, not memory or disk: the file is as large as its content.
MAP_BYTES = 64 * 2**30
_SMALLEST_MAP_BYTES = 16 * 2**20
_MOST_READERS = 512  # commands and crawls at the same time; the default is 126
_GROWTHS_PER_WRITE = 8
# Opening takes milliseconds; a process that holds the lock longer is verifying the file.
_OPENING_SECONDS = 30
_FOLDER_MODE = 0o700
_PAUSE_SECONDS = 0.0005
# Once a process has kept the lock too long, so that no page waits long for it any more.
_WAIT_AGAIN_SECONDS = 0.1

_LAST = b"last"
# LMDB gives a value of more than 2 kB whole pages of 4 kB, and puts one or two of 1 to 2 kB into a
# page; of these parts four fill one. All but the first are in a database of their own, by the key
# and a number.
_PART_BYTES = 1_000
_REST = {name: f"{name}_rest" for name in (DOCUMENTS, TEXTS)}
# By the name of the database: how LMDB opens it.
DATABASES: dict[str, dict[str, bool]] = {
    **{name: {} for name in (*VALUES, *_REST.values())},
    **{name: {"dupsort": True, "dupfixed": True} for name in SETS},
}


class _Turn:
    """The turn to write. LMDB's lock has no time-out, so whoever writes takes this one before."""

    # Two locks of POSIX on octets of a file: whoever has the second one is next, so that nobody who
    # has just written overtakes the others. A forked child does not inherit them.

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = os.open(folder / "writer.lock", os.O_RDWR | os.O_CREAT, guard.FILE_MODE)
        self._wait_seconds = WAIT_SECONDS

    def take(self) -> None:
        """Take the turn, or raise a StoreUnavailableError if another process keeps it too long."""
        deadline = time.monotonic() + self._wait_seconds
        self._lock(1, deadline)
        try:
            self._lock(0, deadline)
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, 1)
        self._wait_seconds = WAIT_SECONDS

    def give_back(self) -> None:
        """Let others have the turn."""
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, 0)

    def _lock(self, octet: int, deadline: float) -> None:
        while True:
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, octet)
            except (BlockingIOError, PermissionError):
                if time.monotonic() > deadline:
                    break
                time.sleep(_PAUSE_SECONDS)
            else:
                return
        self._wait_seconds = _WAIT_AGAIN_SECONDS
        raise StoreUnavailableError(
            f"process {guard.list_users(self._folder)} has been writing to the store at "
            f"{self._folder} for more than {WAIT_SECONDS:g} seconds; if it is stopped (Ctrl-Z, a "
            "debugger), let it go on (`kill -CONT`) or end it"
        )

    def close(self) -> None:
        """Close the file; a turn that this process has would end."""
        os.close(self._file)


class Environment:
    """An open LMDB environment and its named databases.

    After an I/O error, or in a damaged file, nothing is read or written any more: the store is
    marked `suspect`, and the next process that opens it verifies it.

    A transaction belongs to one thread and one process. lmdb does not check this, and breaking it
    damages the file, so only functions run by `read` and `write` get transactions, under one lock;
    a forked child gets none. The address space, `map_bytes`, grows when it is full.
    """

    # Kept, and updated after a fork: `os.getpid` takes longer than beginning a transaction.
    process: ClassVar = os.getpid()

    def __init__(self, folder: Path, *, readonly: bool, map_bytes: int = MAP_BYTES) -> None:
        self.folder = folder
        self.readonly = readonly
        self.lock = threading.RLock()
        self.pid = os.getpid()
        self.data = folder / guard.DATA_FILE
        self._failure = ""
        with guard.explained(folder):
            guard.require_local(folder)
            if not readonly:
                guard.make_folder(folder, _FOLDER_MODE)
            # A file that may be of others is looked at before anything is made beside it.
            unused = guard.is_unused(folder)
            if unused:
                guard.require_whole(folder)
            self._user = guard.User(folder, readonly=readonly)
            try:
                self._turn = None if readonly else _Turn(folder)
                if readonly:
                    self.env = self._open(map_bytes, looked_at=unused)
                else:
                    with self._opening():
                        self.env = self._open(map_bytes, looked_at=unused)
                    # LMDB only syncs the file. Its maker may have been killed before this line.
                    sync_folder(folder)
                    self.env.reader_check()
                    (folder / guard.SUSPECT_FILE).unlink(missing_ok=True)  # it was verified
            except BaseException:
                self._user.leave()
                raise
            self._file_number = self._find_file()

    @contextmanager
    def _opening(self) -> Iterator[None]:
        """Have no other process make the same store: the second would see an empty data file."""
        try:
            with FileLock(self.folder / "opening.lock", _OPENING_SECONDS, mode=guard.FILE_MODE):
                yield
        except Timeout:
            raise StoreUnusableError(
                f"another process has been opening the store at {self.folder} for more than "
                f"{_OPENING_SECONDS} seconds, as it verifies the file; try again when that is done"
            ) from None

    def _open(self, map_bytes: int, *, looked_at: bool) -> lmdb.Environment:
        exists = self.data.exists()
        if exists and not looked_at:
            guard.require_whole(self.folder)
        if self.readonly and not exists:
            raise StoreUnusableError(
                f"there is no store at {self.folder}{', which is a file' * self.folder.is_file()}; "
                "name the folder of an existing one, or crawl first: a crawl makes it"
            )
        while True:
            try:
                return lmdb.open(
                    str(self.folder),
                    map_size=map_bytes,
                    readonly=self.readonly,
                    lock=os.access(self.folder, os.W_OK),
                    max_readers=_MOST_READERS,
                    max_dbs=guard.MOST_DATABASES,
                    mode=guard.FILE_MODE,
                    # Probes read scattered pages: reading ahead makes them slower.
                    readahead=False,
                    lib_version=guard.LIB_VERSION,
                )
            except lmdb.Error as error:
                # An address-space limit (ulimit -v); the map grows again when it is full.
                map_bytes //= 2
                if isinstance(error, lmdb.MemoryError) and map_bytes >= _SMALLEST_MAP_BYTES:
                    continue
                if not exists:
                    # LMDB began it just now on a full disk; later it would look like a foreign one.
                    self.data.unlink(missing_ok=True)
                raise

    def open_database(
        self, name: str, transaction: lmdb.Transaction[bytes] | None = None, **flags: bool
    ) -> lmdb._Database:
        """Open a named database; a write transaction makes it if it does not exist."""
        flags["create"] = transaction is not None
        with guard.explained(self.folder), self.lock:
            return self._fit(lambda: self.env.open_db(name.encode(), transaction, **flags))

    def _fit(self, work: Callable[[], Result]) -> Result:
        """Call a function until what it does fits into the map, which grows."""
        for _ in range(_GROWTHS_PER_WRITE):
            try:
                return work()
            except lmdb.MapFullError:
                self.env.set_mapsize(2 * self.env.info()["map_size"])
            except lmdb.MapResizedError:  # another process grew it
                self.env.set_mapsize(0)
        raise StoreUnavailableError(f"the store at {self.folder} does not fit its map; try again")

    def read(self, work: Callable[[lmdb.Transaction[bytes]], Result]) -> Result:
        """Run a function in a read transaction; it may run again, and must not keep views."""
        with self.lock:
            return self._run(work, writing=False)

    def write(self, work: Callable[[lmdb.Transaction[bytes]], Result]) -> Result:
        """Run a function in a durable write transaction; it may run several times."""
        assert self._turn is not None  # noqa: S101 - a read-only store is not written to
        with self.lock:
            try:
                self._turn.take()
            except OSError as error:
                raise self._failed(error) from error
            try:
                self._require_there()
                return self._run(work, writing=True)
            finally:
                self._turn.give_back()

    def _run(self, work: Callable[[lmdb.Transaction[bytes]], Result], *, writing: bool) -> Result:
        if self._failure:
            raise StoreUnavailableError(self._failure)
        if self.process != self.pid:
            raise StoreUnavailableError(
                f"the store at {self.folder} was opened before a fork; open it in a process that "
                "is not forked, such as one that multiprocessing spawns"
            )

        def begin() -> Result:
            with self.env.begin(write=writing) as transaction:
                return work(transaction)

        try:
            return self._fit(begin)
        except (lmdb.Error, OSError) as error:
            raise self._failed(error) from error

    def _require_there(self) -> None:
        """Raise an error if the file was removed or replaced."""
        if self._find_file() != self._file_number:
            raise StoreUnavailableError(
                f"the file of the store at {self.folder} was removed or replaced after this "
                "process had opened it; restart it, so that new pages are kept"
            )

    def _find_file(self) -> int:
        """Find the number of the data file in its file system; 0 if it is gone."""
        with suppress(OSError):
            return os.stat(self.data).st_ino  # noqa: PTH116 - a third of the time of a Path
        return 0

    def _failed(self, error: Exception) -> StoreUnavailableError:
        text = f"the store at {self.folder} failed: {error}"
        if guard.is_damage(self.folder, error):
            guard.mark_suspect(self.folder, text)
            text += ". Nothing more is read or written; the store is verified when it is reopened"
            self._failure = text
        return StoreUnavailableError(text)

    def close(self) -> None:
        """Close the environment, unless this is a forked child's copy of it."""
        if os.getpid() == self.pid:
            with self.lock:
                self.env.close()
        if self._turn is not None:
            self._turn.close()
        self._user.leave()


os.register_at_fork(after_in_child=lambda: setattr(Environment, "process", os.getpid()))

_opening = threading.Lock()
_opened: dict[Path, tuple[Environment, int]] = {}  # with the number of its users


def acquire_environment(folder: Path, *, readonly: bool) -> Environment:
    """Get the environment of a folder; the first user in this process opens it."""
    # LMDB refuses to open a file twice in a process, so the first user decides if it can write.
    with guard.explained(folder):
        resolved = folder.resolve()
    with _opening:
        environment, users = _opened.get(resolved) or (Environment(resolved, readonly=readonly), 0)
        if environment.readonly and not readonly:
            raise StoreUnusableError(
                f"the store at {folder} is open read-only in this process; close it first"
            )
        _opened[resolved] = environment, users + 1
    return environment


def release_environment(folder: Path) -> None:
    """Release the environment of a folder; its last user closes it."""
    with _opening:
        environment, users = _opened.pop(folder)
        if users > 1:
            _opened[folder] = environment, users - 1
        else:
            environment.close()


@dataclass(eq=False)
class LmdbValues(KeyValues):
    """A transaction of LMDB, see `KeyValues`."""

    transaction: lmdb.Transaction[bytes]
    databases: Mapping[str, lmdb._Database]

    def get(self, table: str, key: bytes) -> bytes | None:
        value = self.transaction.get(key, db=self.databases[table])
        return value if value is None else self._complete(table, key, value)

    def get_all(self, table: str, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self.get(table, key) for key in keys]

    def _complete(self, table: str, key: bytes, value: bytes) -> bytes:
        """Complete a value by what was cut off."""
        if len(value) < _PART_BYTES or table not in _REST:
            return value
        parts, database = [value], self.databases[_REST[table]]
        while len(parts[-1]) == _PART_BYTES:  # a cursor takes twice as long
            place = key + (len(parts) - 1).to_bytes(2, "big")
            parts.append(self.transaction.get(place, default=b"", db=database))
        return b"".join(parts)

    def put(self, table: str, key: bytes, value: bytes) -> None:
        if table not in _REST:
            self._append(table, key, value)
            return
        self._delete_rest(table, key)
        self._append(table, key, value[:_PART_BYTES])
        for number, start in enumerate(range(_PART_BYTES, len(value), _PART_BYTES)):
            part = value[start : start + _PART_BYTES]
            self._append(_REST[table], key + number.to_bytes(2, "big"), part)

    def _delete_rest(self, table: str, key: bytes) -> None:
        for part_key, _ in list(self.scan(_REST[table], key)):
            self.transaction.delete(part_key, db=self.databases[_REST[table]])

    def _append(self, table: str, key: bytes, value: bytes) -> None:
        """Write a value; if the key is the last one of its table, fill pages whole."""
        # LMDB halves full pages otherwise, and of large values half of each page stays empty.
        database = self.databases[table]
        if not self.transaction.put(key, value, append=True, db=database):
            self.transaction.put(key, value, db=database)

    def delete(self, table: str, key: bytes) -> None:
        if table in _REST:
            self._delete_rest(table, key)
        self.transaction.delete(key, db=self.databases[table])

    def scan(self, table: str, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        cursor = self.transaction.cursor(self.databases[table])
        if cursor.set_range(prefix):
            for key, value in takewhile(lambda row: row[0].startswith(prefix), cursor):
                yield key, self._complete(table, key, value)

    def count(self, table: str) -> int:
        entries: int = self.transaction.stat(self.databases[table])["entries"]
        return entries

    def members(
        self, table: str, key: bytes, prefix: bytes = b"", most: int | None = None
    ) -> list[bytes]:
        cursor = self.transaction.cursor(self.databases[table])
        if not (cursor.set_range_dup(key, prefix) if prefix else cursor.set_key(key)):
            return []
        members = takewhile(lambda member: member.startswith(prefix), cursor.iternext_dup())
        return list(islice(members, most))

    def has(self, table: str, key: bytes, member: bytes) -> bool:
        return self.transaction.cursor(self.databases[table]).set_key_dup(key, member)

    def add(self, table: str, key: bytes, member: bytes) -> None:
        # LMDB takes members of another width, and then loses some.
        assert SETS[table] in {-1, len(member)}  # noqa: S101
        self.transaction.put(key, member, db=self.databases[table])

    def discard(self, table: str, key: bytes, member: bytes) -> None:
        self.transaction.delete(key, member, db=self.databases[table])

    def read_sets(self, table: str, keys: Sequence[bytes]) -> list[list[bytes]]:
        if not keys:
            return []
        found: dict[bytes, list[bytes]] = {key: [] for key in keys}
        rows = Struct(f"{len(keys[0])}s{SETS[table]}s").iter_unpack(
            self._read_rows(table, keys, SETS[table])
        )
        for key, member in rows:
            found[key].append(member)
        return [found[key] for key in keys]

    def _read_rows(self, table: str, keys: Sequence[bytes], member_bytes: int) -> bytes:
        """Read the sets of keys of one length: each member behind its key, side by side."""
        cursor = self.transaction.cursor(self.databases[table])
        rows: Any = cursor.getmulti(keys, dupdata=True, dupfixed_bytes=member_bytes, keyfixed=True)
        return bytes(rows)

    def many(self, keys: Sequence[bytes], in_bucket: int | None) -> tuple[bytes, list[bytes]]:
        crowded: list[bytes] = []
        if in_bucket is not None:
            cursor = self.transaction.cursor(self.databases[TABLES])
            there: list[bytes] = []
            for key in keys:
                if cursor.set_key(key):
                    (crowded if cursor.count() > in_bucket else there).append(key)
            keys = there
        return self._read_rows(TABLES, keys, ROW_BYTES - len(keys[0])) if keys else b"", crowded

    def clear_tables(self) -> None:
        self.transaction.drop(self.databases[TABLES], delete=False)

    def fill(self, rows: bytes, *, key_bytes: int) -> None:
        cursor = self.transaction.cursor(self.databases[TABLES])
        _, written = cursor.putmulti(cut_rows(rows, key_bytes), append=True)
        if written < (found := len(rows) // ROW_BYTES):
            # LMDB leaves out rows that are out of order, without an error.
            raise StoreError(f"only {written} of {found} rows of tables were written")

    def take_numbers(self, count: int) -> int:
        """Take numbers beyond those of all documents; the row that says so may be damaged."""
        cursor = self.transaction.cursor(self.databases[DOCUMENTS])
        there = number_of(cursor.key()) if cursor.last() else 0
        last = max(there, number_of(self.get(HEADER, _LAST) or b""))
        self.put(HEADER, _LAST, octets(last + count))
        return last + 1


class LmdbEngine(Engine):
    """A store in a folder; `Engine` documents the methods."""

    def __init__(self, place: Path | str, *, readonly: bool) -> None:
        self.url = str(place)
        self.readonly = readonly
        self._place = Path(place)
        self._closing = ExitStack()

    def exists(self) -> bool:
        with guard.explained(self._place):
            return (self._place / guard.DATA_FILE).exists()

    def open(self) -> None:
        with ExitStack() as closing:
            self.environment = acquire_environment(self._place, readonly=self.readonly)
            closing.callback(release_environment, self.environment.folder)
            self._databases = _open_databases(self.environment)
            self._closing = closing.pop_all()

    def read(self, work: Callable[[KeyValues], Result]) -> Result:
        return self.environment.read(lambda txn: work(LmdbValues(txn, self._databases)))

    def write(self, work: Callable[[LmdbValues], Result]) -> Result:
        return self.environment.write(lambda txn: work(LmdbValues(txn, self._databases)))

    def take_numbers(self, count: int) -> int:
        return self.write(lambda values: values.take_numbers(count))

    def measure(self) -> tuple[str, int]:
        return "file_bytes", self.environment.data.stat().st_size

    def find_damage(self) -> list[str]:
        return self.environment.read(lambda _: guard.find_damage(self.environment.data))

    def close(self) -> None:
        self._closing.close()


def _open_databases(environment: Environment) -> dict[str, lmdb._Database]:
    """Open the databases of a store, and make them in an empty file, in one transaction."""

    def make(transaction: lmdb.Transaction[bytes]) -> None:
        if not transaction.stat()["entries"]:
            for name, flags in DATABASES.items():
                environment.open_database(name, transaction, **flags)

    if not environment.readonly:
        environment.write(make)
    # Check the header first: another format may have other databases.
    header = environment.open_database(HEADER)
    packed = environment.read(lambda transaction: transaction.get(HEADER_KEY, db=header))
    if packed is not None:
        unpack_header(packed)
    return {name: environment.open_database(name, None, **DATABASES[name]) for name in DATABASES}
