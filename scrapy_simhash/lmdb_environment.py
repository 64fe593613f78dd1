"""One LMDB environment per folder and process: guarded opening, durable transactions, map growth.

LMDB keeps its defaults: every commit is synced. `sync=False` damaged the file in 195 of 200
simulated power cuts, and `writemap=True` turns a full disk into a killed process.
"""

from __future__ import annotations

import errno
import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar, TypeVar

import lmdb
from filelock import FileLock, Timeout

from scrapy_simhash.lmdb_guard import (
    clear_suspect,
    error_code,
    find_damage,
    is_damage,
    is_suspect,
    mark_suspect,
    require_local,
    require_whole,
)
from scrapy_simhash.lmdb_users import User, make_folder, shrink_file
from scrapy_simhash.shared import SharedByKey
from scrapy_simhash.stores import StoreUnavailableError, StoreUnusableError
from scrapy_simhash.wholefile import sync_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

Result = TypeVar("Result")

DATA_FILE = "data.mdb"
# Engine 0.9; without the pin an environment variable of the user decides the file's format.
LIB_VERSION = 0
# Address space, not memory or disk: the file is as large as its content.
MAP_BYTES = 64 * 2**30
_SMALLEST_MAP_BYTES = 16 * 2**20
# Commands and crawls that may look at one store at once; LMDB's own default is 126.
_MOST_READERS = 512
_MOST_DATABASES = 32
_GROWTHS_PER_WRITE = 8
# Opening takes milliseconds; whoever holds the lock longer verifies a copied or suspect file.
_OPENING_SECONDS = 30
_FOLDER_MODE, _FILE_MODE = 0o700, 0o600


class Environment:
    """An open LMDB environment and its named databases.

    After an I/O error or in a damaged file nothing is read or written any more: the store is
    marked `suspect`, and whoever opens it next verifies it.

    A transaction belongs to one thread and one process. lmdb says nothing when either is violated
    and the file then breaks, so transactions are only handed to functions run by `read` and
    `write`, under one lock, and refused in a forked child.

    Args:
        folder: where the file is; made if there is none and not `readonly`.
        readonly: open without writing.
        map_bytes: address space to begin with; grown when it is full.

    Raises:
        StoreUnusableError: names what is wrong and the cure; nothing was changed.
    """

    # Kept up to date after a fork: asking the system takes longer than beginning a transaction.
    process: ClassVar = os.getpid()

    def __init__(self, folder: Path, *, readonly: bool, map_bytes: int = MAP_BYTES) -> None:
        self.folder = folder
        self.readonly = readonly
        self.lock = threading.RLock()
        self.pid = os.getpid()
        self._failure = ""
        with _explained(folder):
            require_local(folder)
            if not readonly:
                make_folder(folder, _FOLDER_MODE)
            self.suspect = is_suspect(folder)
            self._user = User(folder, readonly=readonly)
            try:
                self._env = self._open_guarded(map_bytes)
            except BaseException:
                self._user.leave()
                raise

    def _open_guarded(self, map_bytes: int) -> lmdb.Environment:
        if self.readonly:
            return self._open(map_bytes)
        # Two processes making the same store: the second would see an empty data file.
        try:
            with FileLock(self.folder / "opening.lock", _OPENING_SECONDS, mode=_FILE_MODE):
                env = self._open(map_bytes)
        except Timeout:
            raise StoreUnusableError(
                f"the store at {self.folder} is being opened by another process for more than "
                f"{_OPENING_SECONDS} seconds, which verifies its file; try again when it is done"
            ) from None
        # LMDB syncs its file only. Whoever made it may have been killed before this line.
        sync_folder(self.folder)
        return env

    def _open(self, map_bytes: int) -> lmdb.Environment:
        data = self.folder / DATA_FILE
        if data.exists():
            require_whole(self.folder, data, LIB_VERSION, verified=self.suspect)
            return self._open_lmdb(map_bytes)
        if self.readonly:
            raise StoreUnusableError(
                f"there is no store at {self.folder}; name the folder of an existing one, "
                "or crawl first: a crawl makes it"
            )
        try:
            return self._open_lmdb(map_bytes)
        except lmdb.Error:
            # Begun just now on a full disk and never a store: it would be taken for a foreign one.
            data.unlink(missing_ok=True)
            raise

    def _open_lmdb(self, map_bytes: int) -> lmdb.Environment:
        while True:
            try:
                env = lmdb.open(
                    str(self.folder),
                    map_size=map_bytes,
                    readonly=self.readonly,
                    lock=os.access(self.folder, os.W_OK),
                    max_readers=_MOST_READERS,
                    max_dbs=_MOST_DATABASES,
                    mode=_FILE_MODE,
                    # Probes read a page here and a page there: reading ahead makes them slower.
                    readahead=False,
                    lib_version=LIB_VERSION,
                )
                break
            except lmdb.MemoryError:
                # An address-space limit (ulimit -v); the map grows again when it is full.
                map_bytes //= 2
                if map_bytes < _SMALLEST_MAP_BYTES:
                    raise
        if not self.readonly:
            env.reader_check()
        return env

    def open_database(
        self,
        name: str,
        transaction: lmdb.Transaction[bytes] | None = None,
        *,
        dupfixed: bool = False,
    ) -> lmdb._Database:
        """Open a named database; within a write transaction it is made if it is not there."""
        with _explained(self.folder), self.lock:
            while True:
                try:
                    return self._env.open_db(
                        name.encode(),
                        transaction,
                        dupsort=dupfixed,
                        dupfixed=dupfixed,
                        create=transaction is not None,
                    )
                except lmdb.MapResizedError:  # another process grew it
                    self._env.set_mapsize(0)

    def read(self, work: Callable[[lmdb.Transaction[bytes]], Result]) -> Result:
        """Run a function in a read transaction; it may run again and must not keep views."""
        self._require_usable()
        try:
            with self.lock, self._env.begin() as transaction:
                return work(transaction)
        except lmdb.MapResizedError:
            return self._run(work, write=False)
        except (lmdb.Error, OSError) as error:
            raise self._failed(error) from error

    def write(self, work: Callable[[lmdb.Transaction[bytes]], Result]) -> Result:
        """Run a function in one durable write transaction; on disk when this returns.

        Args:
            work: may run several times, each time on an unchanged store: when the map is full it
                is grown and the work done again.

        Raises:
            StoreUnavailableError: nothing was written.
        """
        return self._run(work, write=True)

    def _run(self, work: Callable[[lmdb.Transaction[bytes]], Result], *, write: bool) -> Result:
        self._require_usable()
        try:
            with self.lock:
                for _ in range(_GROWTHS_PER_WRITE):
                    try:
                        with self._env.begin(write=write) as transaction:
                            return work(transaction)
                    except lmdb.MapFullError:
                        self._env.set_mapsize(2 * self._env.info()["map_size"])
                    except lmdb.MapResizedError:  # another process grew it
                        self._env.set_mapsize(0)
        except (lmdb.Error, OSError) as error:
            raise self._failed(error) from error
        raise StoreUnavailableError(f"the store at {self.folder} does not fit its map")

    def _failed(self, error: Exception) -> StoreUnavailableError:
        told = f"the store at {self.folder} failed: {error}"
        if is_damage(self.folder, error):
            mark_suspect(self.folder, told)
            told += ". Nothing is read or written any more; it is verified when it is opened again"
            self._failure = told
        return StoreUnavailableError(told)

    def _require_usable(self) -> None:
        if self._failure:
            raise StoreUnavailableError(self._failure)
        if self.process != self.pid:
            raise StoreUnavailableError(
                f"the store at {self.folder} was opened before a fork; open it in the child"
            )

    def copy(self, transaction: lmdb.Transaction[bytes], file: int) -> None:
        """Write what a read transaction sees into an open file, without free pages."""
        self._env.copyfd(file, compact=True, txn=transaction)

    def find_damage(self) -> list[str]:
        """Verify every page of the file, see `lmdb_guard.find_damage`."""
        return self.read(lambda _: find_damage(self.folder / DATA_FILE))

    def settle_suspicion(self, check: Callable[[], list[str]]) -> None:
        """Check the records of a store that was marked suspect; the mark goes if all is well.

        Raises:
            StoreUnusableError: something is wrong.
        """
        if self.suspect:
            clear_suspect(self.folder, check(), readonly=self.readonly)
            self.suspect = False

    @property
    def file_bytes(self) -> int:
        """Size of the data file."""
        return (self.folder / DATA_FILE).stat().st_size

    def let_go_after_fork(self) -> None:
        """Close a forked child's copy, without which LMDB does not open the file anew there."""
        self._env.close()

    def close(self) -> None:
        """Close the environment, unless this is a forked child's copy of it."""
        if os.getpid() == self.pid:
            with self.lock:
                self._env.close()
        self._user.leave()


os.register_at_fork(after_in_child=lambda: setattr(Environment, "process", os.getpid()))

_environments: SharedByKey[tuple[Path, int], Environment] = SharedByKey(Environment.close)


def has_data(folder: Path) -> bool:
    """Say whether there is a data file in a folder, ours or not.

    Raises:
        StoreUnusableError: nobody lets us look.
    """
    with _explained(folder):
        return (folder / DATA_FILE).exists()


def acquire_environment(folder: Path, *, readonly: bool) -> Environment:
    """Get the environment of a folder, opened by the first user in this process.

    LMDB refuses to open a file twice in one process, so the first user decides: after a read-only
    one a writer is refused.

    Raises:
        StoreUnusableError: it cannot be opened.
    """
    with _explained(folder):
        resolved = folder.resolve()
    key = (resolved, os.getpid())

    def make() -> Environment:
        inherited = _environments.find((resolved, os.getppid()))
        if inherited is not None:
            inherited.let_go_after_fork()
        return Environment(resolved, readonly=readonly)

    environment = _environments.acquire(key, make)
    if environment.readonly and not readonly:
        _environments.release(key)
        raise StoreUnusableError(
            f"the store at {folder} is open read-only in this process; close it first"
        )
    return environment


def shrink(folder: Path) -> tuple[int, int] | None:
    """Rewrite a store's data file without its free pages, see `shrink_file`.

    Raises:
        StoreUnusableError: there is no store, or it cannot be read.
    """
    with _explained(folder):
        if not has_data(folder):
            raise StoreUnusableError(f"there is no store at {folder}; name an existing one")
        return shrink_file(folder.resolve(), DATA_FILE, LIB_VERSION)


def release_environment(environment: Environment) -> None:
    """Give an environment back; the last user closes it."""
    _environments.release((environment.folder, environment.pid))


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    """Turn what LMDB and the file system raise into an error that names the cure."""
    cures = {
        lmdb.InvalidError: "is no LMDB file of this kind; name another folder",
        lmdb.VersionMismatchError: "was written by another LMDB engine; name another folder",
        lmdb.CorruptedError: "is damaged; restore it from a backup",
        lmdb.DbsFullError: "has other databases in it; name a folder of its own",
        lmdb.IncompatibleError: "has other databases in it; name a folder of its own",
        lmdb.ReadersFullError: "has too many readers; end some of the processes that use it",
        lmdb.DiskError: "cannot grow: the disk is full; make room",
        PermissionError: "cannot be written; check who owns it and its permissions",
        NotADirectoryError: "is not a folder; name a folder",
        FileExistsError: "is a file; name a folder",
    }
    codes = {
        errno.EACCES: "cannot be read; check who owns it and its permissions",
        errno.EIO: "is on a disk that fails; restore it from a backup to another one",
    }
    try:
        yield
    except (lmdb.Error, OSError) as error:
        cure = next((cure for kind, cure in cures.items() if isinstance(error, kind)), "")
        cure = cure or codes.get(error_code(error), "")
        raise StoreUnusableError(
            f"store {folder} {cure or 'cannot be opened'} ({error})"
        ) from error
