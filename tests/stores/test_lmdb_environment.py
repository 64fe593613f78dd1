"""An LMDB store while it is open: its files, its map, a second one, and a forked child."""

import gc
import stat
from pathlib import Path

import pytest

from scrapy_simhash.errors import StoreUnusableError
from scrapy_simhash.stores.opening import open_store
from tests.helpers.children import run_script
from tests.helpers.documents import document, open_lmdb
from tests.helpers.needing import slow_but


def test_modes_do_not_depend_on_the_umask(tmp_path: Path) -> None:
    """Of all that opening, a log, a compaction and a failing disk leave there."""
    script = """
import os, sys
from pathlib import Path
from scrapy_simhash.judge.log import CrawlLog
from scrapy_simhash.stores.copying import compact
from scrapy_simhash.stores.opening import open_store
os.umask(0)
folder = Path(sys.argv[1])
with open_store(str(folder)) as store:
    CrawlLog(str(folder / "log.jsonl")).close()
compact(folder)
store = open_store(str(folder))
store.engine._failed(OSError(5, "an I/O error"))
os._exit(0)
"""
    folder = tmp_path / "new" / "store"
    run_script(script, folder)
    modes = {
        str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode)
        for path in (folder, *folder.rglob("*"))
    }
    assert {name for name, mode in modes.items() if mode == 0o700} == {"."}
    files = {"data.mdb", "lock.mdb", "suspect", "writer.lock"}
    assert {name for name, mode in modes.items() if mode == 0o600} == {*files, "log.jsonl"}
    assert len(modes) == len(files) + 2


def test_a_limit_on_address_space_is_named(tmp_path: Path) -> None:
    script = """
import resource, sys
from scrapy_simhash.errors import StoreUnusableError
from scrapy_simhash.stores.opening import open_store
resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
try:
    open_store(sys.argv[1])
except StoreUnusableError as error:
    print(error)
"""
    assert "lift the limit (`ulimit -v`)" in run_script(script, tmp_path / "store")
    open_lmdb(tmp_path / "store").close()


def test_transactions_that_nobody_collects_leave_their_readers(tmp_path: Path) -> None:
    """A judge that collects its garbage more seldom had used up LMDB's after 900 pages."""
    with open_store(str(tmp_path)) as store:
        gc.disable()
        try:
            kept = [store.read(lambda stored: stored) for _ in range(600)]
        finally:
            gc.enable()
    assert len(kept) == 600


def test_a_store_is_opened_once_in_a_process(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "store")
    with open_lmdb(tmp_path / "store") as store:
        for readonly in (True, False):
            with pytest.raises(StoreUnusableError, match="twice in a process: close it first"):
                open_lmdb(tmp_path / "link", readonly=readonly)
        assert store.find_and_add([document("a", 1)])[0].status == "new"
    with open_lmdb(tmp_path / "link", readonly=True) as store:
        assert store.stats()["documents"] == 1


FORK = """
import os, sys
from scrapy_simhash.errors import StoreError
from scrapy_simhash.stores.opening import open_store
from tests.helpers.documents import document

def in_child(store):
    if sys.argv[2] == "write":
        store.find_and_add([document("b", 2**40 - 1)])
    elif sys.argv[2] == "read":
        store.query(1)
    elif sys.argv[2] == "close":
        store.close()
    elif sys.argv[2] == "open":
        with open_store(sys.argv[1]) as own:
            own.query(1)

store = open_store(sys.argv[1])
store.find_and_add([document("a", 1)])
if not (child := os.fork()):
    try:
        in_child(store)
    except StoreError as error:
        told = "opened before a fork", "already open in this process"
        print("refused" if any(each in str(error) for each in told) else error, flush=True)
    else:
        print("done", flush=True)
    os._exit(0)
os.waitpid(child, 0)
store.find_and_add([document("c", 2**50 - 1)])
print(store.check(), store.stats()["documents"])
"""


@pytest.mark.parametrize(
    "in_child", slow_but(["write", "open"], ["write", "read", "close", "open"])
)
def test_a_forked_child(tmp_path: Path, in_child: str) -> None:
    """It can neither use nor harm the store of its parent."""
    outcome = "done" if in_child == "close" else "refused"
    assert run_script(FORK, tmp_path, in_child).splitlines() == [outcome, "[] 2"]
