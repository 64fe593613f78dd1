"""Whether a data file may be opened: LMDB trusts it, and has no checksums.

Opened unseen, a file that was cut short kills the process by SIGBUS, one with a page of zeros by an
assertion, and an empty one becomes a new store. On a network file system the locks and the mapping
that LMDB relies on are not kept between machines.
"""

from __future__ import annotations

import errno
import os
import resource
from contextlib import suppress
from typing import TYPE_CHECKING

import lmdb
import psutil
from lmdb.verify import VerifyError, verify

from scrapy_simhash.stores import StoreUnusableError

if TYPE_CHECKING:
    from pathlib import Path

LOCK_FILE = "lock.mdb"
ALLOW_NETWORK = "SIMHASH_ALLOW_NETWORK_STORE"
# Up to this size every opening verifies the whole file, in at most half a second at 0.07 to 0.27 s
# a MiB (measured, 2 vCPU Xeon; most for small rows). About 10,000 documents.
_ALWAYS_VERIFIED_BYTES = 2 * 2**20
# With less room than this an I/O error is taken for a full disk: LMDB reports a short write as one.
_ROOM_BYTES = 2**20
# fmt: off
_NETWORK_FILE_SYSTEMS = {
    "nfs", "nfs4", "cifs", "smb2", "smb3", "smbfs", "9p", "afs", "afpfs", "ceph", "coda",
    "davfs", "fuse", "glusterfs", "gpfs", "lustre", "macfuse", "ncpfs", "ocfs2", "osxfuse",
    "webdav",
}
# fmt: on
_SUSPECT_FILE = "suspect"
_RESTORE = "Restore it from a backup; to start over, move it away yourself"


def require_local(folder: Path) -> None:
    """Refuse a folder on a network file system.

    FUSE counts as one (sshfs, rclone, ...), but for `fuseblk`, which is a local disk.

    Raises:
        StoreUnusableError: names its kind, and how to go on all the same.
    """
    if os.environ.get(ALLOW_NETWORK) == "1":
        return
    kind = _file_system_of(folder)
    if kind.partition(".")[0] in _NETWORK_FILE_SYSTEMS:
        raise StoreUnusableError(
            f"store {folder} is on a network file system ({kind}), which does not keep what LMDB "
            "relies on: the store would be damaged. Set SIMHASH_STORE to a folder on a local disk, "
            f"or {ALLOW_NETWORK}=1 in the environment if only one machine ever uses it"
        )


def _file_system_of(folder: Path) -> str:
    """Name the kind of file system a folder is on, or will be on; "" where nobody tells."""
    resolved = folder.resolve()
    kinds = {part.mountpoint: part.fstype for part in psutil.disk_partitions(all=True)}
    for path in (resolved, *resolved.parents):
        if str(path) in kinds:
            return kinds[str(path)].lower()
    return ""


def require_whole(folder: Path, data: Path, lib_version: int, *, verified: bool) -> None:
    """Refuse a data file that LMDB would overwrite, or that would kill the process once mapped.

    Args:
        folder: of the store.
        data: its data file.
        lib_version: of the LMDB engine.
        verified: verify all pages now, however large the file is.

    Raises:
        StoreUnusableError: names what is wrong and the cure; nothing was touched.
    """
    if not data.is_file():
        raise StoreUnusableError(f"{data} is no file; move it away, or name another folder")
    if not data.stat().st_size:
        raise StoreUnusableError(
            f"{data} is empty: it was cut to nothing, and LMDB would take it for a new store. "
            f"{_RESTORE}"
        )
    # Read-only and without a lock, so that a foreign file is not touched.
    with lmdb.open(str(folder), readonly=True, lock=False, lib_version=lib_version) as env:
        needed = (env.info()["last_pgno"] + 1) * env.stat()["psize"]
    # Looked at last: another process may be writing, and the file only grows.
    size = data.stat().st_size
    # LMDB does not write pages at the end that a transaction took and gave back: a sound file may
    # end before them, and only its pages tell.
    short = size < needed
    # Where LMDB's lock file is missing, the file was copied here and never opened since.
    copied = not (folder / LOCK_FILE).exists()
    if not (short or verified or copied or size <= _ALWAYS_VERIFIED_BYTES):
        return
    if copied:
        problems = find_damage(data)
    elif os.access(folder, os.W_OK):
        problems = _find_damage(folder, data, lib_version)
    else:
        # Nobody would know of this reader, and what is written meanwhile would look like damage.
        # A file that is cut short kills whoever reads it: better refused once too often.
        problems = find_damage(data) if short else []
    if problems and short:
        raise StoreUnusableError(
            f"{data} is cut short: {size:,} of {needed:,} bytes ({problems[0]}). {_RESTORE}"
        )
    if problems:
        raise StoreUnusableError(f"{data} is damaged: {problems[0]}. {_RESTORE}")


def _find_damage(folder: Path, data: Path, lib_version: int) -> list[str]:
    """Verify a file that others may write to: a reader keeps the pages of what is verified."""
    room = 2 * data.stat().st_size + _ROOM_BYTES
    with (
        lmdb.open(str(folder), readonly=True, map_size=room, lib_version=lib_version) as env,
        env.begin(),
    ):
        return find_damage(data)


def find_damage(data: Path) -> list[str]:
    """Verify every page of a data file without LMDB, which damage may abort with the process.

    Returns:
        What is wrong, one line each. Cost: 0.07 to 0.27 s a MiB (measured, 2 vCPU Xeon).
    """
    try:
        return list(verify(str(data)))  # type: ignore[no-untyped-call]
    except VerifyError as error:
        return [str(error)]


def is_damage(folder: Path, error: Exception) -> bool:
    """Say whether an error means that the file or its disk is no longer to be trusted.

    A full disk does not: LMDB reports a short write as an I/O error, hence the look at the room.
    """
    if isinstance(error, (lmdb.CorruptedError, lmdb.PageNotFoundError, lmdb.PanicError)):
        return True
    return error_code(error) == errno.EIO and _has_room(folder)


def error_code(error: Exception) -> int:
    """Get the number of an error of LMDB or of the operating system; 0 for none."""
    code = error.errno if isinstance(error, OSError) else getattr(error, "code", 0)
    return code or 0


def _has_room(folder: Path) -> bool:
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    largest = max(path.stat().st_size for path in folder.glob("*.mdb"))
    if limit != resource.RLIM_INFINITY and limit < largest + _ROOM_BYTES:
        return False
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize >= _ROOM_BYTES


def mark_suspect(folder: Path, reason: str) -> None:
    """Let the next who opens the store verify it first."""
    with suppress(OSError):  # of the same disk
        mark = os.open(folder / _SUSPECT_FILE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.write(mark, reason.encode())
        finally:
            os.close(mark)


def is_suspect(folder: Path) -> bool:
    """Say whether a store was marked and not cleared since."""
    return (folder / _SUSPECT_FILE).exists()


def clear_suspect(folder: Path, problems: list[str], *, readonly: bool) -> None:
    """Take the mark away from a store that was found to be sound.

    Raises:
        StoreUnusableError: it was not.
    """
    if problems:
        raise StoreUnusableError(
            f"the store at {folder} is damaged since its disk failed: {problems[0]} "
            f"({len(problems):,} problems). {_RESTORE}"
        )
    if not readonly:
        (folder / _SUSPECT_FILE).unlink(missing_ok=True)
