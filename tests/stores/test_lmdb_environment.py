"""The environment while it is open: shared, grown, and with a full disk."""

import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scrapy_simhash.errors import StoreUnavailableError, StoreUnusableError
from scrapy_simhash.stores.lmdb.engine import Environment, acquire_environment, release_environment
from tests.helpers.children import run_script
from tests.helpers.documents import open_lmdb

if TYPE_CHECKING:
    import lmdb

SMALL_MAP_BYTES = 128 * 1024


def test_modes_do_not_depend_on_the_umask(tmp_path: Path) -> None:
    """Of all that opening, a log, a compaction and a failing disk leave there."""
    script = """
import os, sys
from pathlib import Path
from scrapy_simhash.judge.log import DecisionLog
from scrapy_simhash.stores.lmdb.copying import compact
from scrapy_simhash.stores.lmdb.guard import mark_suspect
from scrapy_simhash.stores.opening import open_store
os.umask(0)
folder = Path(sys.argv[1])
with open_store(str(folder)) as store:
    DecisionLog(folder / "log.jsonl").close()
compact(folder)
store = open_store(str(folder))
mark_suspect(folder, "an I/O error")
os._exit(0)
"""
    folder = tmp_path / "new" / "store"
    run_script(script, folder)
    modes = {
        str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode)
        for path in (folder, *folder.rglob("*"))
    }
    assert {name for name, mode in modes.items() if mode == 0o700} == {"."}
    files = {"data.mdb", "lock.mdb", "suspect"}
    files |= {f"{name}.lock" for name in ("opening", "users", "writer")}
    assert {name for name, mode in modes.items() if mode == 0o600} == {*files, "log.jsonl"}
    assert len(modes) == len(files) + 2


def put(environment: Environment, name: str, count: int) -> int:
    """Write records of 1 kB in one transaction; returns how often the work was done."""
    runs = 0

    def work(transaction: "lmdb.Transaction[bytes]") -> None:
        nonlocal runs
        runs += 1
        database = environment.open_database("test", transaction)
        for number in range(count):
            transaction.put(f"{name} {number}".encode(), bytes(1_000), db=database)

    environment.write(work)
    return runs


def count(environment: Environment) -> int:
    database = environment.open_database("test")
    return environment.read(lambda transaction: transaction.stat(database)["entries"])


def test_a_full_map_grows_inside_the_write(tmp_path: Path) -> None:
    environment = Environment(tmp_path, readonly=False, map_bytes=SMALL_MAP_BYTES)
    assert put(environment, "first", 10) == 1
    assert put(environment, "second", 1_000) > 1
    assert count(environment) == 1_010
    assert environment.data.stat().st_size > SMALL_MAP_BYTES
    environment.close()
    environment = Environment(tmp_path, readonly=False, map_bytes=SMALL_MAP_BYTES)
    assert count(environment) == 1_010
    environment.close()


def test_a_limit_on_address_space_makes_the_map_smaller(tmp_path: Path) -> None:
    script = """
import resource, sys
from scrapy_simhash.judging.documents import Document
from scrapy_simhash.pages.facts import Facts
from scrapy_simhash.stores.opening import open_store
resource.setrlimit(resource.RLIMIT_AS, (6 * 2**30, 6 * 2**30))
with open_store(sys.argv[1]) as store:
    print(store.find_and_add([Document(Facts(b"a", 1, b""))])[0].status)
"""
    assert run_script(script, tmp_path / "store") == "new\n"


def test_one_environment_for_each_folder_and_process(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "store")
    first = acquire_environment(tmp_path / "store", readonly=False)
    second = acquire_environment(tmp_path / "link", readonly=True)
    other = acquire_environment(tmp_path / "other", readonly=False)
    assert first is second
    assert first is not other
    release_environment(first.folder)
    assert put(second, "still open", 1) == 1
    release_environment(second.folder)
    with pytest.raises(StoreUnavailableError, match="failed"):
        second.read(lambda transaction: transaction.stat())
    again = acquire_environment(tmp_path / "store", readonly=False)
    assert again is not first
    assert count(again) == 1
    for environment in (again, other):
        release_environment(environment.folder)


def test_a_writer_is_refused_after_a_reader(tmp_path: Path) -> None:
    open_lmdb(tmp_path).close()
    with open_lmdb(tmp_path, readonly=True) as reader:
        with pytest.raises(StoreUnusableError, match="open read-only in this process; close it"):
            open_lmdb(tmp_path)
        assert reader.query(1) == []
    open_lmdb(tmp_path).close()
