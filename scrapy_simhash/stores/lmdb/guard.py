"""Decide whether a data file may be opened, and tell who uses it.

LMDB trusts the file, and has no checksums. Without a check, opening a truncated file kills the
process by SIGBUS, and an empty file becomes a new store. On a network file system, the locks and
the memory mapping that LMDB relies on do not work between machines.
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import lmdb
import psutil
from lmdb.verify import VerifyError, verify

from scrapy_simhash._files import sync_folder
from scrapy_simhash.errors import StoreUnavailableError, StoreUnusableError
from scrapy_simhash.stores.keyvalues import HEADER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DATA_FILE, LOCK_FILE = "data.mdb", "lock.mdb"
_USERS_FILE, SUSPECT_FILE = "users.lock", "suspect"
FILE_MODE = 0o600
# Engine 0.9; without this, an environment variable of the user would decide the file's format.
LIB_VERSION = 0
MOST_DATABASES = 32
ALLOW_NETWORK = "SIMHASH_ALLOW_NETWORK_STORE"
# A file up to this size (about 10,000 documents) is verified whenever it is opened, in at most half
# a second at 0.07 to 0.27 s a MiB (measured, 2 vCPU Xeon; most for small rows).
_ALWAYS_VERIFIED_BYTES = 2 * 2**20
# So often a growing file must look damaged to be so. For one look, a commit has microseconds.
_MOST_LOOKS = 3
# With less free space than this, an I/O error means a full disk: LMDB reports short writes as EIO.
_ROOM_BYTES = 2**20
# fmt: off
_NETWORK_FILE_SYSTEMS = {
    "nfs", "nfs4", "cifs", "smb2", "smb3", "smbfs", "9p", "afs", "afpfs", "ceph", "coda",
    "davfs", "fuse", "glusterfs", "gpfs", "lustre", "macfuse", "ncpfs", "ocfs2", "osxfuse",
    "webdav",
}
# fmt: on
_MOST_NAMED = 8
_RESTORE = "Restore it from a backup; to start over, move it away yourself"


def require_local(folder: Path) -> None:
    """Refuse a folder on a network file system; FUSE counts as one, except for `fuseblk`."""
    if os.environ.get(ALLOW_NETWORK) == "1":
        return
    resolved = folder.resolve()
    kinds = {part.mountpoint: part.fstype for part in psutil.disk_partitions(all=True)}
    mounted = (kinds.get(str(path)) for path in (resolved, *resolved.parents))
    kind = next(filter(None, mounted), "").lower()
    if kind.partition(".")[0] in _NETWORK_FILE_SYSTEMS:
        raise StoreUnusableError(
            f"store {folder} is on a network file system ({kind}), where LMDB's locks do not work "
            "between machines and the store would be damaged. Set SIMHASH_STORE to a folder on a "
            f"local disk, or {ALLOW_NETWORK}=1 in the environment if only one machine ever uses it"
        )


@contextmanager
def peek(folder: Path) -> Iterator[lmdb.Environment]:
    """Open a file that nobody writes to; it is not touched, and nothing is made beside it."""
    with lmdb.open(
        str(folder), readonly=True, lock=False, max_dbs=MOST_DATABASES, lib_version=LIB_VERSION
    ) as env:
        yield env


def require_whole(folder: Path) -> None:
    """Refuse a file that LMDB would overwrite or crash on; verify all pages of a suspect one."""
    data = folder / DATA_FILE
    if not data.is_file():
        raise StoreUnusableError(f"{data} is not a file; move it away, or name another folder")
    if not data.stat().st_size:
        raise StoreUnusableError(
            f"{data} is empty: its content was lost, and LMDB would take it for a new store. "
            f"{_RESTORE}"
        )
    with peek(folder) as env:
        needed = (env.info()["last_pgno"] + 1) * env.stat()["psize"]
    # Read last, as the file only grows.
    size = data.stat().st_size
    # An undamaged file may end before pages that a transaction allocated and freed.
    short = size < needed
    # Without LMDB's lock file, the file was copied here and has not been opened since.
    copied = not (folder / LOCK_FILE).exists()
    writable = os.access(folder, os.W_OK)
    problems: list[str] = []
    # Writers would not see a reader that cannot write here, and their writes would look like
    # damage. But reading a truncated file would kill this process: better to refuse once too often.
    if copied or (short and not writable):
        problems = find_damage(data)
    elif writable and (short or (folder / SUSPECT_FILE).exists() or size <= _ALWAYS_VERIFIED_BYTES):
        room = 2 * size + _ROOM_BYTES
        with (  # a read transaction keeps the pages unchanged
            lmdb.open(str(folder), readonly=True, map_size=room, lib_version=LIB_VERSION) as env,
            env.begin(),
        ):
            problems = find_damage(data)
    if problems:
        what = f"cut short: {size:,} of {needed:,} bytes ({problems[0]})"
        what = what if short else f"damaged: {problems[0]}"
        raise StoreUnusableError(f"{data} is {what}. {_RESTORE}")
    if is_unused(folder):
        _require_ours(folder)


def is_unused(folder: Path) -> bool:
    """Whether a data file is there that no process of ours has opened for writing in its folder."""
    # In this order: a process that makes a store makes the lock file before the data file.
    return (folder / DATA_FILE).exists() and not (folder / _USERS_FILE).exists()


def _require_ours(folder: Path) -> None:
    """Refuse an LMDB file without the database that each store has."""
    with peek(folder) as env, env.begin() as transaction:
        found = list(transaction.cursor().iternext(values=False))
    if HEADER.encode() not in found:
        raise StoreUnusableError(
            f"{folder} is not a store of scrapy_simhash but an LMDB file with "
            f"{', '.join(map(repr, found[:_MOST_NAMED])) or 'nothing in it'}; name another folder"
        )


def find_damage(data: Path) -> list[str]:
    """List the damage in the pages of a file, without LMDB, which damage could abort.

    If others may write to the file, the caller holds a read transaction.
    """
    # If a commit makes the file longer meanwhile, its new pages seem to be missing.
    for _ in range(_MOST_LOOKS):
        size = data.stat().st_size
        try:
            problems = list(verify(str(data)))  # type: ignore[no-untyped-call]
        except VerifyError as error:
            problems = [str(error)]
        if not problems or data.stat().st_size == size:
            break
    return problems


def is_damage(folder: Path, error: Exception) -> bool:
    """Whether an error means that the file or its disk cannot be trusted; a full disk does not."""
    if isinstance(error, (lmdb.CorruptedError, lmdb.PageNotFoundError, lmdb.PanicError)):
        return True
    return error_code(error) == errno.EIO and _has_room(folder)


def error_code(error: Exception) -> int:
    """Return the number of an error of LMDB or of the operating system, or 0."""
    code = error.errno if isinstance(error, OSError) else getattr(error, "code", 0)
    return code or 0


def _has_room(folder: Path) -> bool:
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    largest = max(path.stat().st_size for path in folder.glob("*.mdb"))
    if limit != resource.RLIM_INFINITY and limit < largest + _ROOM_BYTES:
        return False
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize >= _ROOM_BYTES


@contextmanager
def explained(folder: Path) -> Iterator[None]:
    """Turn errors of LMDB and the file system into one that names the cure."""
    cures = {
        lmdb.InvalidError: "is not an LMDB file of this kind, or it is damaged; restore it from a "
        "backup, move it away, or name another folder",
        lmdb.VersionMismatchError: "was written by another LMDB engine; name another folder",
        lmdb.CorruptedError: "is damaged; restore it from a backup",
        lmdb.ReadersFullError: "has too many readers; end some of the processes that use it",
        # Without a limit, it is the number of the last page that cannot be, in the first ones.
        lmdb.MemoryError: "needs more address space than it may have: lift the limit (`ulimit -v`)"
        "; if there is none, its first pages are damaged: restore it from a backup",
        lmdb.DiskError: "cannot grow: the disk is full; make room",
        PermissionError: "cannot be written; check who owns it and its permissions",
        NotADirectoryError: "is not a folder; name a folder",
        FileExistsError: "is a file; name a folder",
    }
    codes = {
        errno.EACCES: "cannot be read; check who owns it and its permissions",
        errno.EROFS: "is on a read-only file system; set SIMHASH_READONLY = True",
        errno.EIO: "is on a failing disk; restore it from a backup to another one",
    }
    try:
        yield
    except (lmdb.Error, OSError) as error:
        cure = next((cure for kind, cure in cures.items() if isinstance(error, kind)), "")
        cure = cure or codes.get(error_code(error), "")
        raise StoreUnusableError(
            f"store {folder} {cure or 'cannot be opened'} ({error})"
        ) from error


def mark_suspect(folder: Path, reason: str) -> None:
    """Make the next process that opens the store verify it first."""
    with suppress(OSError):  # the disk may have failed
        (folder / SUSPECT_FILE).touch(FILE_MODE)
        (folder / SUSPECT_FILE).write_text(reason, "utf-8")


# LMDB's lock file lists readers only during transactions, and replacing the data file under a live
# writer would lose its commits. So it is replaced only while no process has the store open.
class User:
    """A shared lock on an open store, until `leave`; a reader also works without it."""

    def __init__(self, folder: Path, *, readonly: bool) -> None:
        self._file: int | None = None
        flags = os.O_RDONLY if readonly else os.O_RDWR | os.O_CREAT
        try:
            self._file = os.open(folder / _USERS_FILE, flags, FILE_MODE)
        except OSError:
            if not readonly:
                raise
            return  # if the file is replaced, a reader keeps seeing the old one
        try:
            fcntl.flock(self._file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._file)
            raise StoreUnusableError(
                f"the file of the store at {folder} is being packed just now; try again later"
            ) from None

    def leave(self) -> None:
        """Release the lock, so that other processes can replace the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Take the exclusive lock, or raise a StoreUnavailableError if anyone has the store open."""
    file = os.open(folder / _USERS_FILE, os.O_RDWR | os.O_CREAT, FILE_MODE)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreUnavailableError(
                f"the store at {folder} is open in process {list_users(folder)}: wait until its "
                "crawl or command has ended, or end it, and run this again"
            ) from None
        yield
    finally:
        os.close(file)


def list_users(folder: Path) -> str:
    """Return the numbers of the other processes that have a store open, as far as this may know."""
    found, data = [], str(folder.resolve() / DATA_FILE)
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.pid != os.getpid() and data in {each.path for each in process.open_files()}:
                found.append(str(process.pid))
    return " or ".join(found) or "of another user, or this one,"


def make_folder(folder: Path, mode: int) -> None:
    """Make a folder and its missing parents, durably."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(mode=mode, parents=True, exist_ok=True)
    for path in missing:
        sync_folder(path.parent)
