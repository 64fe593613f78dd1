"""The environment while it is open: shared, grown, and with a full disk."""

import stat
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scrapy_simhash.errors import StoreUnavailableError, StoreUnusableError
from scrapy_simhash.stores.lmdb.engine import Environment, acquire_environment, environments
from tests.helpers.children import run_script
from tests.helpers.documents import document, open_in_crawl, open_lmdb
from tests.helpers.needing import slow_but

if TYPE_CHECKING:
    import lmdb

SMALL_MAP_BYTES = 128 * 1024


def test_modes_do_not_depend_on_the_umask(tmp_path: Path) -> None:
    """Of all that opening, a crawl, its log, a compaction and a failing disk leave there."""
    script = """
import os, sys
from pathlib import Path
from scrapy_simhash.detector.log import DecisionLog
from scrapy_simhash.stores.lmdb.copying import compact
from scrapy_simhash.stores.lmdb.guard import mark_suspect
from scrapy_simhash.stores.opening import open_store
os.umask(0)
folder = Path(sys.argv[1])
with open_store(str(folder)) as store:
    DecisionLog(folder / "log.jsonl").close()
    pass
compact(folder)
store = open_store(str(folder))
store.start_crawl("crawl", "spider")
mark_suspect(folder, "an I/O error")
os._exit(0)
"""
    folder = tmp_path / "new" / "store"
    run_script(script, folder)
    modes = {
        str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode)
        for path in (folder, *folder.rglob("*"))
    }
    assert {name for name, mode in modes.items() if mode == 0o700} == {".", "leases"}
    files = {"data.mdb", "lock.mdb", "suspect"}
    files |= {f"{name}.lock" for name in ("opening", "users", "writer")}
    assert {name for name, mode in modes.items() if mode == 0o600} == {
        *files,
        *("log.jsonl", "leases/crawl.lock"),
    }
    assert len(modes) == len(files) + 4


def make_database(environment: Environment) -> "lmdb._Database":
    return environment.write(lambda txn: environment.open_database("test", txn))


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


GROW = """
import sys
from pathlib import Path
from scrapy_simhash.stores.lmdb.engine import Environment
environment = Environment(Path(sys.argv[1]), readonly=False, map_bytes=int(sys.argv[2]))
database = environment.write(lambda txn: environment.open_database("test", txn))
environment.write(
    lambda txn: [txn.put(f"other {n}".encode(), bytes(1000), db=database) for n in range(1000)]
)
environment.close()
"""


@pytest.mark.parametrize("first", ["read", "write", "open"])
def test_another_process_grows_the_map(tmp_path: Path, first: str) -> None:
    environment = Environment(tmp_path, readonly=False, map_bytes=SMALL_MAP_BYTES)
    put(environment, "mine", 10)
    database = make_database(environment)
    run_script(GROW, tmp_path, SMALL_MAP_BYTES)
    if first == "open":
        assert count(environment) == 1_010
    else:
        use = environment.read if first == "read" else environment.write
        assert use(lambda transaction: transaction.stat(database)["entries"]) == 1_010
    assert put(environment, "more", 10) == 1
    assert count(environment) == 1_020
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
    environments.release(first.folder)
    assert put(second, "still open", 1) == 1
    environments.release(second.folder)
    with pytest.raises(StoreUnavailableError, match="failed"):
        second.read(lambda transaction: transaction.stat())
    again = acquire_environment(tmp_path / "store", readonly=False)
    assert again is not first
    assert count(again) == 1
    for environment in (again, other):
        environments.release(environment.folder)


def test_a_writer_is_refused_after_a_reader(tmp_path: Path) -> None:
    open_lmdb(tmp_path).close()
    with open_lmdb(tmp_path, readonly=True) as reader:
        with pytest.raises(StoreUnusableError, match="open read-only in this process; close it"):
            open_lmdb(tmp_path)
        assert reader.query(1) == []
    open_lmdb(tmp_path).close()


def test_threads_share_one_store(tmp_path: Path) -> None:
    """Of 4 threads with the same 50 pages each, one gets each page as new."""
    new: list[str] = []
    with open_in_crawl(tmp_path) as store:

        def add(thread: int) -> None:
            for number in range(50):
                page = document(f"{thread} {number}", number << 32 | number << 8)
                new.extend(v.status for v in store.find_and_add([page]) if v.status == "new")

        store.find_and_add([document("first", 2**64 - 1)])
        threads = [threading.Thread(target=add, args=(thread,)) for thread in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        expected = store.stats()
        assert len(new) == expected["pending"] - 1
        assert expected["documents"] == 201
        assert store.check() == []


DISK_FULL = """
import resource, signal, sys
from pathlib import Path
from scrapy_simhash.judging.documents import Document
from scrapy_simhash.pages.facts import Facts
from scrapy_simhash.errors import StoreUnavailableError
from scrapy_simhash.stores.opening import open_store

def pages(batch):
    return [
        Document(Facts(b"%d %d" % (batch, n), (batch * 50 + n) * 0x9E3779B97F4A7C15 % 2**64, b"",
                       url="x" * 500), crawl="mine")
        for n in range(50)
    ]

def limit_file_size(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with open_store(sys.argv[1]) as store:
    store.start_crawl("mine", "spider")
    store.find_and_add(pages(0))
    limit_file_size((Path(sys.argv[1]) / "data.mdb").stat().st_size + int(sys.argv[2]))
    for batch in range(1, 9):
        kept = store.stats()["documents"]
        try:
            store.find_and_add(pages(batch))
        except StoreUnavailableError:
            break
    print(batch < 8, store.stats()["documents"] == kept, store.check())
    try:
        store.find_and_add(pages(batch))
    except StoreUnavailableError:
        print("still full", len(store.query(0)))
    limit_file_size(resource.RLIM_INFINITY)
    print({verdict.status for verdict in store.find_and_add(pages(batch))})
    print(store.stats()["documents"] == kept + 50, store.check())
with open_store(sys.argv[1]) as store:
    print(store.stats()["documents"] == kept + 50, store.check())
"""


@pytest.mark.parametrize("room_bytes", slow_but([5_000], [0, 5_000]))
def test_a_full_disk_is_an_error_until_there_is_room(tmp_path: Path, room_bytes: int) -> None:
    """With some room left a write is short, which LMDB tells as an I/O error."""
    lines = run_script(DISK_FULL, tmp_path, room_bytes).splitlines()
    assert lines == ["True True []", "still full 1", "{'new'}", "True []", "True []"]
