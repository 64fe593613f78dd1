"""Opening a store where there is something else, or something broken: refused and left alone."""

import errno
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import lmdb
import psutil
import pytest

from scrapy_simhash.errors import StoreUnusableError
from scrapy_simhash.stores.documents import Documents, pack_row, unpack_row
from scrapy_simhash.stores.keyvalues import FORMAT, Header
from scrapy_simhash.stores.lmdb import ALLOW_NETWORK, LmdbEngine
from tests.helpers.children import run_script, running
from tests.helpers.documents import document, open_lmdb
from tests.helpers.needing import slow_but


def make_store(folder: Path, pages: int = 50) -> None:
    with open_lmdb(folder) as store:
        store.find_and_add([document(str(n), n * 0x9E3779B97F4A7C15 % 2**64) for n in range(pages)])


def write_data(octets: bytes) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        folder.mkdir()
        (folder / "data.mdb").write_bytes(octets)

    return write


def make_foreign(names: tuple[bytes, ...], *, lib_version: int = 0) -> Callable[[Path], None]:
    """Make an LMDB file of somebody else, with these databases and a key in the main one."""

    def make(folder: Path) -> None:
        folder.mkdir()
        with lmdb.open(str(folder), max_dbs=9, lib_version=lib_version) as environment:
            databases = [environment.open_db(name) for name in names]
            with environment.begin(write=True) as transaction:
                for database in databases:
                    transaction.put(b"their key", b"their value", db=database)
                if not names:
                    transaction.put(b"their key", b"their value")

    return make


def rewrite_header(*, changed_format: int = FORMAT, damage: bool = False) -> Callable[[Path], None]:
    """Make a store of a version 9.8.7, with such a format."""

    def work(stored: Documents) -> None:
        header = unpack_row(Header, b"store", stored.values.get("header", b"store")[0] or b"")
        header.format, header.version = changed_format, "9.8.7"
        packed = pack_row(b"store", header)
        if damage:
            packed = packed[:-1] + bytes([packed[-1] ^ 1])
        stored.values.put("header", b"store", packed)

    return partial(change, work)


def change(work: Callable[[Documents], None], folder: Path) -> None:
    make_store(folder)
    with open_lmdb(folder) as store:
        store.write(work)


REFUSED: dict[str, tuple[Callable[[Path], None], str]] = {
    "empty": (write_data(b""), "is empty.*Restore it from a backup"),
    "text": (write_data(b"To whom it may concern\n" * 999), "is not an LMDB file.*another folder"),
    "zeros": (write_data(bytes(65_536)), "is not an LMDB file"),
    "garbage": (write_data(bytes(n * n % 251 for n in range(65_536))), "is not an LMDB file"),
    "one byte": (write_data(b"\0"), "is not an LMDB file|cut short|cannot be opened"),
    "foreign": (make_foreign((b"mail", b"users")), "b'mail', b'users'; name another folder"),
    "foreign and ours": (make_foreign((b"documents", b"mail")), "b'mail'; name another folder"),
    "foreign keys": (make_foreign(()), "b'their key'; name another folder"),
    "other engine": (make_foreign((b"documents",), lib_version=1), "name another folder"),
}
# Stores of ours, beside which lock files are.
OWN: dict[str, tuple[Callable[[Path], None], str]] = {
    **{
        f"format {number}": (
            rewrite_header(changed_format=number),
            rf"format {number}.*name another SIMHASH_STORE.*9\.8\.7",
        )
        for number in (FORMAT - 1, FORMAT + 1)
    },
    "damaged header": (rewrite_header(damage=True), r"damaged header.*backup"),
    "no header": (
        partial(change, lambda stored: stored.values.delete("header", b"store")),
        "header; restore it from a backup",
    ),
}


@pytest.mark.parametrize("readonly", [False, True])
@pytest.mark.parametrize("kind", [*REFUSED, *OWN])
def test_what_is_no_store_is_refused_and_stays(tmp_path: Path, kind: str, readonly: bool) -> None:
    make, message = (REFUSED | OWN)[kind]
    folder = tmp_path / "store"
    make(folder)
    before = (folder / "data.mdb").read_bytes()
    names = {path.name for path in folder.iterdir()}
    for _ in range(2):  # the first refusal must not make the second attempt succeed
        with pytest.raises(StoreUnusableError, match=message) as told:
            open_lmdb(folder, readonly=readonly)
        assert "\n" not in str(told.value)
    assert (folder / "data.mdb").read_bytes() == before
    assert kind in OWN or {path.name for path in folder.iterdir()} == names  # no locks


WRITER = """
import sys
from tests.helpers.documents import document, open_lmdb
with open_lmdb(sys.argv[1]) as store:
    print("ready", flush=True)
    for start in sys.stdin:
        bits = {n: n * 0x9E3779B97F4A7C15 % 2**64 for n in range(int(start), int(start) + 200)}
        store.find_and_add([document(f"{n}", each, url="x" * 300) for n, each in bits.items()])
        print("added", flush=True)
"""


def test_a_file_that_grows_while_it_is_opened_is_not_taken_for_a_cut_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may commit at any point between our looks at the size and the content."""
    open_as_ever = lmdb.open
    with running(WRITER, tmp_path) as writer:
        starts = iter(range(0, 100_000, 200))

        def open_after_a_commit(path: str, **arguments: object) -> lmdb.Environment:
            assert writer.ask(str(next(starts))) == "added"
            return open_as_ever(path, **arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(lmdb, "open", open_after_a_commit)
        with open_lmdb(tmp_path) as store:
            assert store.stats()["documents"] == 200


@pytest.mark.parametrize(
    ("path", "readonly", "message"),
    [
        ("file", False, "is a file; name a folder|is not a folder"),
        ("file/store", False, "is not a folder"),
        *((path, True, f"{path}.*name") for path in ("nothing", "empty", "file")),
    ],
)
def test_a_path_where_there_is_no_store(
    tmp_path: Path, path: str, *, readonly: bool, message: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("somebody's text")
    with pytest.raises(StoreUnusableError, match=message):
        open_lmdb(tmp_path / path, readonly=readonly)
    assert sorted(entry.name for entry in tmp_path.rglob("*")) == ["empty", "file"]
    assert (tmp_path / "file").read_text() == "somebody's text"


def test_a_store_whose_maker_was_killed(tmp_path: Path) -> None:
    """It has no tables yet, or no header; who may write makes them."""
    lmdb.open(str(tmp_path), lib_version=0).close()
    for _ in range(2):
        with pytest.raises(StoreUnusableError, match="not made to its end; crawl again"):
            open_lmdb(tmp_path, readonly=True)
        engine = LmdbEngine(tmp_path)
        engine.open()
        engine.close()
    make_store(tmp_path)
    with open_lmdb(tmp_path, readonly=True) as store:
        assert store.check() == []


AS_NOBODY = """
import os, sys
from scrapy_simhash.errors import StoreUnusableError
from scrapy_simhash.stores.opening import open_store
with open_store(sys.argv[1]) as store:
    store.stats()  # everything is imported after this
os.chmod(sys.argv[2], 0o555)
if os.path.exists(sys.argv[2] + "/data.mdb"):
    os.chmod(sys.argv[2] + "/data.mdb", 0o444)
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
try:
    with open_store(sys.argv[2], readonly=sys.argv[3] == "readonly") as store:
        print(store.stats()["documents"])
except StoreUnusableError as error:
    print(error)
"""


@pytest.mark.parametrize("existing", slow_but([True], [False, True]))
def test_a_folder_that_cannot_be_written(tmp_path: Path, existing: bool) -> None:
    """As nobody, since root may write everywhere; below a folder everybody may enter."""
    with tempfile.TemporaryDirectory() as folder:
        if existing:
            make_store(Path(folder))
        told = run_script(AS_NOBODY, tmp_path / "mine", folder, "writable")
        said = "cannot be read or written; check who owns it and its permissions"
        assert f"store {folder} {said}" in told
        if existing:
            assert run_script(AS_NOBODY, tmp_path / "mine", folder, "readonly") == "50\n"


def test_a_file_that_ends_before_pages_that_were_given_back_is_sound(tmp_path: Path) -> None:
    """LMDB does not write pages that one transaction takes at the end and gives back."""
    make_store(tmp_path)
    with open_lmdb(tmp_path) as store:

        def take_and_give_back(stored: Documents) -> None:
            stored.values.put("identities", b"one", bytes(200_000))
            stored.values.delete("identities", b"one")

        store.write(take_and_give_back)
    with lmdb.open(str(tmp_path), readonly=True, lock=False, lib_version=0) as env:
        promised = (env.info()["last_pgno"] + 1) * env.stat()["psize"]
    assert (tmp_path / "data.mdb").stat().st_size < promised
    with open_lmdb(tmp_path) as store:
        assert store.check() == []


def test_processes_that_make_a_store_at_once_make_one(tmp_path: Path) -> None:
    """Each new store has a seed of its own."""
    script = """
import sys
from scrapy_simhash.stores.opening import open_store
print("ready", flush=True)
sys.stdin.readline()
with open_store(sys.argv[1]) as store:
    print(store.seed, flush=True)
"""
    with ExitStack() as stack:
        children = [stack.enter_context(running(script, tmp_path / "new")) for _ in range(3)]
        for child in children:
            child.tell("go")
        assert len({child.read() for child in children} - {""}) == 1


@pytest.mark.parametrize("kind", ["nfs4", "fuse.sshfs", "NFS"])
def test_a_network_file_system_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Unless the user knows better."""
    share = tmp_path / "share"
    share.mkdir()
    (tmp_path / "link").symlink_to(share)
    kinds = {"/": "ext4", str(share): kind}
    mounted = [SimpleNamespace(mountpoint=path, fstype=each) for path, each in kinds.items()]
    monkeypatch.setattr(psutil, "disk_partitions", lambda *, all: mounted if all else [])  # noqa: A006
    said = f"network file system .{kind.lower()}.*{ALLOW_NETWORK}=1"
    for folder, readonly in product((share, tmp_path / "link"), (False, True)):
        with pytest.raises(StoreUnusableError, match=said):
            open_lmdb(folder / "store", readonly=readonly)
    assert list(share.iterdir()) == []
    monkeypatch.setattr("fcntl.flock", Mock(side_effect=OSError(errno.EBADF, "of NFS")))
    with pytest.raises(StoreUnusableError, match=f"network file .*of NFS.*{ALLOW_NETWORK}=1"):
        open_lmdb(tmp_path / "local")
    assert list((tmp_path / "local").iterdir()) == []
    monkeypatch.setenv(ALLOW_NETWORK, "1")
    open_lmdb(share / "store").close()
