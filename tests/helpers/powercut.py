"""Power cuts, replayed: from what a process wrote and synced to what a disk may be left with.

Only what was synced is sure to be there. Of the rest any subset of its 4 KiB pages may be; of the
names of a folder, the first so many changes since it was synced. That is what POSIX allows, and
harsher than most file systems are.

Run as a program it makes such states one by one and opens the store in each; see `main`.
"""

import json
import random
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import xxhash

from scrapy_simhash.errors import StoreError
from scrapy_simhash.stores.store import Store
from tests.helpers.documents import document, open_lmdb
from tests.helpers.tracing import Call, read_calls

CALLS = (
    "openat,lseek,write,writev,pwrite64,pwritev,fdatasync,fsync,ftruncate,?rename,renameat,"
    "?renameat2,?unlink,unlinkat,?mkdir,mkdirat,msync,fallocate,sync_file_range,?sendfile,"
    "copy_file_range,?pwritev2,?link,linkat"
)
_PAGE_BYTES = 4_096
# Their content says nothing to a process that starts after a power cut.
_LMDB_LOCK = "lock.mdb"
_WRITES = {"write", "writev", "pwrite64", "pwritev"}


class _Write(NamedTuple):
    offset: int
    octets: bytes


class _File:
    """A file: what is durable, and what was written since."""

    def __init__(self) -> None:
        self.durable = bytearray()
        self.unsynced: list[_Write] = []

    def write(self, offset: int, octets: bytes) -> None:
        while octets:
            room = _PAGE_BYTES - offset % _PAGE_BYTES
            self.unsynced.append(_Write(offset, octets[:room]))
            offset, octets = offset + room, octets[room:]

    def sync(self) -> None:
        for write in self.unsynced:
            _put(self.durable, write)
        self.unsynced = []

    def sync_last(self, offset: int, octets: bytes) -> None:
        """Sync what was just written with O_DSYNC, and nothing else."""
        while self.unsynced and self.unsynced[-1].offset >= offset:
            self.unsynced.pop()
        _put(self.durable, _Write(offset, octets))

    def survive(self, draw: random.Random) -> bytes:
        """Draw what is left of it."""
        left = bytearray(self.durable)
        share = draw.choice((0.0, 0.1, 0.5, 0.9, 1.0))
        for write in self.unsynced:
            if draw.random() < share:
                _put(left, write)
        return bytes(left)


def _put(content: bytearray, write: _Write) -> None:
    content.extend(bytes(max(0, write.offset - len(content))))
    content[write.offset : write.offset + len(write.octets)] = write.octets


class _Change(NamedTuple):
    """A change of names; `file` is None where the name is a folder's, or goes away."""

    gone: str
    name: str
    file: _File | None

    def apply(self, names: "dict[str, _File | None]") -> None:
        names.pop(self.gone, None)
        if self.name:
            names[self.name] = self.file

    def touches(self, folder: str) -> bool:
        return folder in {path.rpartition("/")[0] for path in (self.gone, self.name)}


@dataclass
class _OpenFile:
    file: _File
    durable: bool
    position: int = 0


class Disk:
    """The files below a folder, as calls change them.

    Args:
        root: the folder; it is there to begin with.
    """

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._names: dict[str, _File | None] = {}
        self._unsynced: list[_Change] = []
        self._now: dict[str, _File | None] = {}
        self._open_files: dict[str, _OpenFile] = {}

    def apply(self, call: Call) -> None:
        """Change the files as a call does."""
        paths = [string.decode("utf-8", "replace") for string in call.strings]
        if call.name == "openat":
            self._open(call, paths[0])
        elif call.name.startswith("rename"):
            self._change(_Change(paths[0], paths[1], self._now[paths[0]]))
        elif call.name.startswith("mkdir"):
            self._change(_Change("", paths[0], None))
        elif call.name.startswith("unlink"):
            self._change(_Change(paths[0], "", None))
        elif call.name in {"fsync", "fdatasync"}:
            self._sync(call)
        elif call.name == "lseek":
            self._open_files[_descriptor(call)].position = call.result
        elif call.name in _WRITES:
            opened, offset, octets = self._written(call)
            opened.file.write(offset, octets)
            if opened.durable:
                opened.file.sync_last(offset, octets)
            if not call.name.startswith("p"):
                opened.position = offset + len(octets)
        else:
            # LMDB's lock file, whose content is drawn anyway; nothing else is known to the model.
            assert call.name == "ftruncate", call
            assert call.fd_path.endswith(_LMDB_LOCK), call

    def _open(self, call: Call, path: str) -> None:
        if "O_CREAT" in call.rest and path not in self._now:
            self._change(_Change("", path, _File()))
        file = self._now.get(path)
        if file is not None:
            if "O_TRUNC" in call.rest:
                assert not file.durable, "cutting a file is unknown to the model"
                assert not file.unsynced
            self._open_files[str(call.result)] = _OpenFile(file, "SYNC" in call.rest)

    def _change(self, change: _Change) -> None:
        self._unsynced.append(change)
        change.apply(self._now)

    def _written(self, call: Call) -> tuple[_OpenFile, int, bytes]:
        opened = self._open_files[_descriptor(call)]
        positioned = call.name.startswith("p")
        offset = int(call.rest.rpartition(",")[2]) if positioned else opened.position
        return opened, offset, b"".join(call.strings)[: call.result]

    def _sync(self, call: Call) -> None:
        file = self._now.get(call.fd_path)
        if file is not None:
            file.sync()
            return
        here = [change for change in self._unsynced if change.touches(call.fd_path)]
        for change in here:
            change.apply(self._names)
        self._unsynced = [change for change in self._unsynced if change not in here]

    def leave(self, folder: Path, draw: random.Random) -> None:
        """Write what a power cut may leave; `folder` stands for the root."""
        names = dict(self._names)
        survivors = draw.choice((0, len(self._unsynced), draw.randint(0, len(self._unsynced))))
        for change in self._unsynced[:survivors]:
            change.apply(names)
        for name, file in sorted(names.items()):
            path = folder / Path(name).relative_to(self._root)
            if not path.parent.exists():  # its folder was lost, and it with it
                continue
            if file is None:
                path.mkdir(mode=0o700)
            elif path.name == _LMDB_LOCK:
                path.write_bytes(draw.randbytes(32_896))
            else:
                path.write_bytes(file.survive(draw))


def _descriptor(call: Call) -> str:
    return call.rest.partition("<")[0]


def fingerprint_of(store: Store) -> str:
    """Hash all a store holds, however its tables are laid out."""
    digest = xxhash.xxh3_64(store.fingerprints().tobytes() + repr(store.seed).encode())
    names = ("documents", "identities", "fingerprints", "texts")
    rows = store.read(
        lambda stored: [(name, *row) for name in names for row in stored.values.scan(name)]
    )
    digest.update(repr(rows).encode())
    return digest.hexdigest()


def find_fault(folder: Path, acknowledged: list[str]) -> str:
    """Open the store that a power cut left, and say what is wrong, or nothing.

    Args:
        folder: of the store.
        acknowledged: fingerprints of what it must hold or, last, may hold; empty where nothing
            was acknowledged yet.
    """
    try:
        store = open_lmdb(folder)
    except StoreError as error:
        return f"refused: {error}" if acknowledged else ""
    with store:
        try:
            if problems := store.check():
                return f"check: {problems}"
            if acknowledged and fingerprint_of(store) not in acknowledged:
                return "something is lost, or half there"
            before = store.stats()["documents"]
            store.find_and_add([document("after the cut", 2**63 + 1)])
            gone_on = store.stats()["documents"] == before + 1
            return "".join(store.check()) if gone_on else "cannot go on"
        except StoreError as error:
            return str(error)


class Trace(NamedTuple):
    """What a process did.

    Attributes:
        calls: that touch the store.
        acknowledged: (how many calls came before, fingerprint of what the store holds).
    """

    calls: list[Call]
    acknowledged: list[tuple[int, str]]


def read_trace(log: Path, root: Path) -> Trace:
    """Read what strace logged; what the process writes to its output are acknowledgements."""
    calls: list[Call] = []
    acknowledged = []
    ours = re.compile(re.escape(str(root)) + "(/|$)")
    for call in read_calls(log):
        if call.name == "write" and call.rest.startswith("1<"):
            acknowledged.append((len(calls), call.strings[0].decode().strip()))
            continue
        paths = [call.fd_path, call.opened]
        if call.name.startswith(("rename", "unlink", "mkdir")):
            paths += [string.decode("utf-8", "replace") for string in call.strings]
        if any(map(ours.match, paths)):
            calls.append(call)
    return Trace(calls, acknowledged)


def cut(trace: Trace, root: Path, work: Path, states: int, seed: int) -> Iterator[str]:
    """Cut the power at random calls; yields what is wrong with each state, or nothing."""
    draw = random.Random(seed)  # noqa: S311 - told when the test fails
    moments = sorted(draw.randrange(len(trace.calls)) for _ in range(states))
    disk, done = Disk(root), 0
    for number, moment in enumerate(moments):
        for call in trace.calls[done:moment]:
            disk.apply(call)
        done = moment
        told = [text for calls, text in trace.acknowledged if calls <= moment]
        following = trace.acknowledged[len(told) : len(told) + 1]
        allowed = [*told[-1:], *(text for _, text in following if told)]
        folder = work / str(number)
        folder.mkdir()
        disk.leave(folder, draw)
        fault = find_fault(folder / "store", allowed)
        yield fault and f"state {number} at call {moment} of {len(trace.calls)}: {fault}"
        shutil.rmtree(folder)


def main(log: str, root: str, work: str, states: str, seed: str) -> None:
    """Print what is wrong with which states, as JSON."""
    trace = read_trace(Path(log), Path(root))
    found = cut(trace, Path(root), Path(work), int(states), int(seed))
    print(json.dumps([fault for fault in found if fault]))  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
