"""The LMDB kind of store: one folder, any number of processes on one host.

Each table of `keyvalues` is a database of its name; those of sets are DUPSORT. The header's also
has the last number that was taken for a document.

LMDB keeps its defaults: every commit is synced. `sync=False` damaged the file in 195 of 200
simulated power cuts, and `writemap=True` turns a full disk into a killed process. It trusts the
file: a truncated one kills the process by SIGBUS, and an empty one becomes a new store.
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import threading
import time
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import lmdb
import psutil
from lmdb.verify import VerifyError, verify

from scrapy_simhash._files import make_folder, sync_folder
from scrapy_simhash.errors import StoreError, StoreUnavailableError, StoreUnusableError
from scrapy_simhash.stores.keyvalues import (
    DOCUMENTS,
    HEADER,
    HEADER_KEY,
    SETS,
    VALUES,
    Engine,
    KeyValues,
    number_of,
    octets,
)
from scrapy_simhash.stores.store import unpack_header

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

Result = TypeVar("Result")

DATA_FILE, LOCK_FILE = "data.mdb", "lock.mdb"
ALLOW_NETWORK = "SIMHASH_ALLOW_NETWORK_STORE"
_NETWORK = (
    "store {} is on a network file system ({}), where LMDB's locks do not work between machines "
    "and the store would be damaged. Set SIMHASH_STORE to a folder on a local disk, or "
    f"{ALLOW_NETWORK}=1 in the environment if only one machine ever uses it"
)
# The largest store. It takes address space, not memory or disk; some ARM kernels have 2**39.
_MAP_BYTES = 2**38
OPTIONS: dict[str, Any] = {
    "map_size": _MAP_BYTES,
    "max_dbs": 32,
    "max_readers": 512,  # commands and crawls at the same time; the default is 126
    "mode": 0o600,
    "readahead": False,  # probes read scattered pages: reading ahead makes them slower
    "lib_version": 0,  # or an environment variable of the user would decide the file's format
}
# To make a store or to open a small one takes milliseconds.
_OPENING_SECONDS = 30.0
_PAUSE_SECONDS = 0.0005
# The longest that who writes waits for others.
WAIT_SECONDS = 10.0
# Once a process has kept the lock too long, so that no page waits long for it any more.
_WAIT_AGAIN_SECONDS = 0.1
_NOW = fcntl.LOCK_EX | fcntl.LOCK_NB

_LAST = b"last"
# By the name of the database: how LMDB opens it.
DATABASES = {name: dict[str, Any]() for name in VALUES}
DATABASES |= {name: {"dupsort": True, "dupfixed": True} for name in SETS}
_RESTORE = "Restore it from a backup; to start over, move it away yourself"
_AGAIN = ": wait until that has ended, and run this again"
# While it is there, the next process verifies the file.
_SUSPECT_FILE = "suspect"
# So often a growing file must look damaged to be so. For one look, a commit has microseconds.
_MOST_LOOKS = 3
_FULL = "cannot grow: the disk is full; make room"
# With less free space than this, an I/O error means a full disk: LMDB reports short writes as EIO.
_ROOM_BYTES = 2**20
_NETWORK_FILE_SYSTEMS = {
    *("nfs", "nfs4", "cifs", "smb2", "smb3", "smbfs", "9p", "afs", "afpfs", "ceph", "coda"),
    *("davfs", "fuse", "glusterfs", "gpfs", "lustre", "macfuse", "ncpfs", "ocfs2", "osxfuse"),
    "webdav",
}
# What is wrong and what helps, by a part of an error, its class or code; the first one that fits.
_CURES = {
    "already open in this process": "cannot be opened twice in a process: close it first; for two "
    "crawls in a process, set SIMHASH_PROCESSES = 1",
    "InvalidError": "is not an LMDB file of this kind, or it is damaged; restore it from a backup, "
    "move it away, or name another folder",
    "VersionMismatchError": "was written by another LMDB engine; name another folder",
    "CorruptedError": "is damaged; restore it from a backup",
    "ReadersFullError": "has too many readers; end some of the processes that use it",
    "MapFullError": f"has reached its largest size, {_MAP_BYTES >> 30} GiB; prune it",
    # Without a limit, it is the number of the last page that cannot be, in the first ones.
    "MemoryError": f"needs {_MAP_BYTES >> 30} GiB of address space (not of memory): lift the limit "
    "(`ulimit -v`); if there is none, its first pages are damaged: restore it from a backup",
    "NotFoundError": "was not made to its end; crawl again, which does that",
    "DiskError": _FULL,
    "NotADirectoryError": "is not a folder; name a folder",
    "FileExistsError": "is a file; name a folder",
    "EACCES": "cannot be read or written; check who owns it and its permissions",
    "EROFS": "is on a read-only file system; set SIMHASH_READONLY = True",
    "EIO": "is on a failing disk; restore it from a backup to another one",
}


class LmdbEngine(Engine):
    """A store in a folder.

    After an I/O error, or in a damaged file, nothing is read or written any more: the store is
    marked `suspect`, and the next process that opens it verifies it.

    A transaction belongs to one thread and one process. lmdb does not check this, and breaking it
    damages the file, so all run under one lock, and a forked child gets none.
    """

    synced: ClassVar[bool] = True

    def __init__(self, place: Path | str, *, readonly: bool = False) -> None:
        self.url, self.readonly = str(place), readonly
        self._folder = Path(place).absolute()
        self._data = self._folder / DATA_FILE
        self._lock, self._pid = threading.RLock(), os.getpid()
        self._failure, self._wait_seconds = "", WAIT_SECONDS
        self._databases: dict[str, lmdb._Database] = {}
        self._closing = ExitStack()

    def exists(self) -> bool:
        with _explained(self._folder):
            return self._data.exists()

    def open(self) -> None:
        with _explained(self._folder), ExitStack() as stack:
            _require_local(self._folder)
            if self.readonly and not self._data.exists():
                raise StoreUnusableError(
                    f"there is no store at {self.url}{', which is a file' * self._folder.is_file()}"
                    "; name the folder of an existing one, or crawl first: a crawl makes it"
                )
            make_folder(self._folder)
            self._user = self._lock_folder(stack)
            self._open_file(stack)
            self._file_number = self._data.stat().st_ino
            if not self.readonly:
                turns = self._folder / "writer.lock"
                self._turns = os.open(turns, os.O_RDWR | os.O_CREAT, OPTIONS["mode"])
                stack.callback(os.close, self._turns)
                with self._turn(), self.env.begin(write=True) as transaction:
                    for name, flags in DATABASES.items():
                        self.env.open_db(name.encode(), transaction, **flags)
                # LMDB only syncs the file. Its maker may have been killed before this line.
                sync_folder(self._folder)
                self.env.reader_check()
                (self._folder / _SUSPECT_FILE).unlink(missing_ok=True)  # it was verified
            for name, flags in DATABASES.items():
                self._databases[name] = self.env.open_db(name.encode(), create=False, **flags)
            with suppress(OSError):  # see `_lock_folder`
                fcntl.flock(self._user, fcntl.LOCK_SH)  # who made the store is a user from now on
            self._closing = stack.pop_all()

    def _lock_folder(self, stack: ExitStack) -> int:
        """Lock the folder as one of its users, or alone, to make the data file."""
        # LMDB's own locks do not: a second maker would see an empty file, and one beside users of a
        # file that was removed would go on from their state.
        file = os.open(self._folder, os.O_RDONLY)
        stack.callback(os.close, file)

        def lock() -> None:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB if self._data.exists() else _NOW)

        told = "is being made by another process, or is open there though its file was removed"
        refused = StoreUnusableError(f"the store at {self._folder} {told}{_AGAIN}")
        try:
            _take(lock, _OPENING_SECONDS, refused)
        except OSError as error:  # NFS does not lock folders
            if os.environ.get(ALLOW_NETWORK) != "1":
                raise StoreUnusableError(_NETWORK.format(self._folder, error)) from error
        return file

    def keep_out(self) -> None:
        """Let nobody open the store until it is closed; a StoreUnusableError if somebody has."""
        told = f"is open in another process (`fuser {self._data}` names it)"
        refused = StoreUnusableError(f"the store at {self._folder} {told}{_AGAIN}")
        _take(partial(fcntl.flock, self._user, _NOW), 0, refused)

    def _open_file(self, stack: ExitStack) -> None:
        """Open the file; one that is refused is as it was, and nothing is beside it."""
        lock, exists = self._folder / LOCK_FILE, self._data.exists()
        if exists and not self._data.stat().st_size:
            raise StoreUnusableError(f"{self._data} is empty: its content was lost. {_RESTORE}")
        # Without LMDB's lock file, the file was copied here and has not been opened since.
        copied = exists and not lock.exists()
        with ExitStack() as undo:
            if not exists or copied:
                undo.callback(self._take_back, lock if exists else self._data)
            seen = os.access(self._folder, os.W_OK)  # by writers, who keep what it reads
            flags = {"readonly": self.readonly, "sync": self.synced, "lock": seen}
            self.env = stack.enter_context(lmdb.open(str(self._folder), **flags, **OPTIONS))
            if exists:
                self._require_ours(suspect=copied or (self._folder / _SUSPECT_FILE).exists())
            undo.pop_all()

    def _take_back(self, begun: Path) -> None:
        """Remove what LMDB began, which may look foreign later, unless somebody uses it by now."""
        with suppress(StoreUnusableError, OSError):
            self.keep_out()
            begun.unlink()

    def _require_ours(self, *, suspect: bool) -> None:
        """Refuse a file that LMDB would crash on, that is damaged, or no store."""
        # Where writers do not see who reads, what they write may look like damage: better to refuse
        # once too often.
        with self.env.begin() as transaction:
            needed = self.measure()
            size = self._data.stat().st_size  # read last, as the file only grows
            # An undamaged file may end before pages that a transaction allocated and freed.
            short = size < needed
            if (short or suspect) and (problems := self.find_damage()):
                what = f"cut short: {size:,} of {needed:,} bytes" if short else "damaged"
                raise StoreUnusableError(f"{self._data} is {what}: {problems[0]}. {_RESTORE}")
            found = list(transaction.cursor().iternext(values=False))
            if HEADER.encode() in found:
                header = self.env.open_db(HEADER.encode(), transaction, create=False)
                if packed := transaction.get(HEADER_KEY, db=header):
                    unpack_header(packed)
            elif found:  # without any, its maker was killed
                raise StoreUnusableError(
                    f"{self._folder} is not a store of scrapy_simhash but an LMDB file with "
                    f"{', '.join(map(repr, found[:8]))}; name another folder"
                )

    def find_damage(self) -> list[str]:
        # Not by LMDB, which damage could abort.
        # If a commit makes the file longer meanwhile, its new pages seem to be missing.
        for _ in range(_MOST_LOOKS):
            size = self._data.stat().st_size
            try:
                problems = list(verify(str(self._data)))  # type: ignore[no-untyped-call]
            except VerifyError as error:
                problems = [str(error)]
            if not problems or self._data.stat().st_size == size:
                break
        return problems

    def run(self, work: Callable[[LmdbValues], Result], *, writing: bool) -> Result:
        if os.getpid() != self._pid:
            raise StoreUnavailableError(
                f"the store at {self._folder} was opened before a fork; open it in a process that "
                "is not forked, such as one that multiprocessing spawns"
            )
        with self._lock:
            if self._failure:
                raise StoreUnavailableError(self._failure)
            try:
                with (
                    self._turn() if writing else nullcontext(),
                    self.env.begin(write=writing) as transaction,
                    closing(LmdbValues(transaction, self._databases)) as values,
                ):
                    return work(values)
            except (lmdb.Error, OSError) as error:
                raise self._failed(error) from error

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Take the turn to write: LMDB's own lock has no time-out."""
        refused = StoreUnavailableError(
            f"another process has been writing to the store at {self._folder} for more than "
            f"{WAIT_SECONDS:g} seconds (`fuser {self._data}` names all that may); if it is "
            "stopped (Ctrl-Z, a debugger), let it go on (`kill -CONT`) or end it"
        )
        seconds, self._wait_seconds = self._wait_seconds, _WAIT_AGAIN_SECONDS
        # A forked child does not inherit this lock.
        _take(partial(fcntl.lockf, self._turns, _NOW), seconds, refused)
        try:
            self._wait_seconds = WAIT_SECONDS
            there = self._data.stat().st_ino if self._data.exists() else 0
            if there != self._file_number:
                raise StoreUnavailableError(
                    f"the file of the store at {self._folder} was removed or replaced after this "
                    "process had opened it; restart it, so that new pages are kept"
                )
            yield
        finally:
            fcntl.lockf(self._turns, fcntl.LOCK_UN)

    def _failed(self, error: Exception) -> StoreUnavailableError:
        """Describe an error; stop using a file or disk that cannot be trusted after it."""
        suspect = isinstance(error, (lmdb.CorruptedError, lmdb.PageNotFoundError, lmdb.PanicError))
        cure = _find_cure(error, "failed")
        if cure == _CURES["EIO"]:
            suspect = self._data.exists() and _has_room(self._data)  # nobody reopens one in memory
            cure = cure if suspect else _FULL
        text = f"the store at {self._folder} {cure} ({error})"
        if suspect:
            with suppress(OSError):  # the disk may have failed
                (self._folder / _SUSPECT_FILE).touch(OPTIONS["mode"])
            text += ". Nothing more is read or written; the store is verified when it is reopened"
            self._failure = text
        return StoreUnavailableError(text)

    def take_numbers(self, count: int) -> int:
        def take(values: LmdbValues) -> int:
            # Beyond those of all documents, since the row that says so may be damaged.
            cursor = values.transaction.cursor(self._databases[DOCUMENTS])
            there = number_of(cursor.key()) if cursor.last() else 0
            (taken,) = values.get(HEADER, _LAST)
            last = max(there, number_of(taken or b""))
            values.put(HEADER, _LAST, octets(last + count))
            return last + 1

        return self.run(take, writing=True)

    def measure(self) -> int:
        return int((self.env.info()["last_pgno"] + 1) * self.env.stat()["psize"])

    def close(self) -> None:
        if os.getpid() == self._pid:  # a forked child has a copy
            with self._lock:
                self._closing.close()


class MemoryEngine(LmdbEngine):
    """A store of this process: the file of LMDB has no name any more once it is open."""

    synced = False
    find_damage = Engine.find_damage

    def open(self) -> None:
        # However this process ends, nothing is left.
        with _explained(Path(self.url)), TemporaryDirectory() as folder:
            self._folder = Path(folder)
            self._data = self._folder / DATA_FILE
            super().open()
        self._file_number = 0  # it is gone


def _take(lock: Callable[[], object], seconds: float, refused: StoreError) -> None:
    """Call what locks until it does, or raise an error if somebody else has it for so long."""
    deadline = time.monotonic() + seconds
    while True:
        with suppress(BlockingIOError):
            lock()
            return
        if time.monotonic() > deadline:
            raise refused
        time.sleep(_PAUSE_SECONDS)


@dataclass(eq=False)
class LmdbValues(KeyValues):
    """A transaction of LMDB, see `KeyValues`."""

    transaction: lmdb.Transaction[bytes]
    databases: Mapping[str, lmdb._Database]

    def __post_init__(self) -> None:
        (self.header,) = self.get(HEADER, HEADER_KEY)

    def close(self) -> None:
        """Let the transaction go: until it is collected, it has one of LMDB's 512 readers."""
        del self.transaction

    def get(self, table: str, *keys: bytes) -> list[bytes | None]:
        return [self.transaction.get(key, db=self.databases[table]) for key in keys]

    def put(self, table: str, key: bytes, value: bytes) -> None:
        # LMDB takes members of another width, and then loses some.
        assert SETS.get(table) in {None, len(key + value)}  # noqa: S101
        database = self.databases[table]
        # If the key is the last one of its table, that fills pages; LMDB halves them otherwise.
        if table in SETS or not self.transaction.put(key, value, append=True, db=database):
            self.transaction.put(key, value, db=database)

    def delete(self, table: str, key: bytes, member: bytes = b"") -> None:
        self.transaction.delete(key, member, db=self.databases[table])

    def scan(self, table: str, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        cursor = self.transaction.cursor(self.databases[table])
        if cursor.set_range(prefix):
            yield from takewhile(lambda row: row[0].startswith(prefix), cursor)

    def read_sets(
        self, table: str, keys: Sequence[bytes], in_bucket: int | None = None
    ) -> tuple[bytes, list[bytes]]:
        cursor, crowded = self.transaction.cursor(self.databases[table]), list[bytes]()
        if in_bucket is not None:
            counts = {key: cursor.count() for key in keys if cursor.set_key(key)}
            crowded = [key for key, count in counts.items() if count > in_bucket]
            keys = [key for key, count in counts.items() if count <= in_bucket]
        if not keys:
            return b"", crowded
        width = SETS[table] - len(keys[0])
        rows: Any = cursor.getmulti(keys, dupdata=True, dupfixed_bytes=width, keyfixed=True)
        return bytes(rows), crowded

    def clear(self, table: str) -> None:
        self.transaction.drop(self.databases[table], delete=False)


def _require_local(folder: Path) -> None:
    """Refuse a folder on a network file system; FUSE counts as one, except for `fuseblk`."""
    if os.environ.get(ALLOW_NETWORK) == "1":
        return
    resolved = folder.resolve()
    kinds = {part.mountpoint: part.fstype for part in psutil.disk_partitions(all=True)}
    mounted = (kinds.get(str(path)) for path in (resolved, *resolved.parents))
    kind = next(filter(None, mounted), "").lower()
    if kind.partition(".")[0] in _NETWORK_FILE_SYSTEMS:
        raise StoreUnusableError(_NETWORK.format(folder, kind))


def _has_room(data: Path) -> bool:
    """Whether a file may grow."""
    disk, (limit, _) = os.statvfs(data.parent), resource.getrlimit(resource.RLIMIT_FSIZE)
    room = disk.f_bavail * disk.f_frsize
    if limit != resource.RLIM_INFINITY:
        room = min(room, limit - data.stat().st_size)
    return room >= _ROOM_BYTES


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    """Turn errors of LMDB and the file system into one that names the cure."""
    try:
        yield
    except (lmdb.Error, OSError) as error:
        cure = _find_cure(error, "cannot be opened")
        raise StoreUnusableError(f"store {folder} {cure} ({error})") from error


def _find_cure(error: Exception, otherwise: str) -> str:
    """Find what is wrong and what helps."""
    code = errno.errorcode.get(getattr(error, "errno", 0) or getattr(error, "code", 0))
    found = f"{type(error).__name__} {code} {error}"
    return next((cure for sign, cure in _CURES.items() if sign in found), otherwise)
