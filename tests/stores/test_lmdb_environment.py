"""An LMDB store while it is open: its files, its map, a second one, forked and killed processes."""

import gc
import shutil
import stat
import threading
from pathlib import Path

import pytest

from scrapy_simhash.errors import StoreUnavailableError, StoreUnusableError
from scrapy_simhash.stores.lmdb import LmdbEngine
from scrapy_simhash.stores.opening import open_store
from tests.helpers.children import HOLDER, OPENER, run_script, running
from tests.helpers.documents import document, open_lmdb
from tests.helpers.needing import slow_but
from tests.helpers.processes import PATIENCE_SECONDS, wait_until


def test_modes_do_not_depend_on_the_umask(tmp_path: Path) -> None:
    """Of all that opening, a log, a compaction and a failing disk leave there."""
    script = """
import os, sys
from pathlib import Path
from scrapy_simhash.judge.log import CrawlLog
from scrapy_simhash.stores.copying import compact
from scrapy_simhash.stores.opening import open_as_it_is, open_store
os.umask(0)
folder = Path(sys.argv[1])
with open_store(str(folder)) as store:
    CrawlLog(str(folder / "log.jsonl")).close()
with open_as_it_is(str(folder)) as store:
    compact(store)
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


def test_a_writer_killed_while_it_holds_the_lock_lets_others_go_on(tmp_path: Path) -> None:
    """One of them waits for the lock already."""
    statuses: list[str] = []
    with open_lmdb(tmp_path) as store, running(HOLDER, tmp_path, "write") as holder:

        def add() -> None:
            statuses.extend(v.status for v in store.find_and_add([document("waiting", 1)]))

        waiting = threading.Thread(target=add, daemon=True)
        waiting.start()
        waiting.join(0.1)
        assert waiting.is_alive(), "the lock is not held"
        holder.kill()
        waiting.join(PATIENCE_SECONDS)
        assert statuses == ["new"]
        assert store.find_and_add([document("after", 2**63 - 1)])[0].status == "new"
        assert store.check() == []


def test_a_file_that_was_removed_or_replaced_is_not_written(tmp_path: Path) -> None:
    """Readers would not see what is written to a file without a name."""
    for how in ("removed", "replaced"):
        folder = tmp_path / how
        with open_lmdb(folder) as store:
            store.find_and_add([document("before", 1)])
            if how == "removed":
                shutil.rmtree(folder)
            else:
                open_lmdb(tmp_path / "other").close()
                folder.rename(tmp_path / "away")
                (tmp_path / "other").rename(folder)
            with pytest.raises(StoreUnavailableError, match="was removed or replaced"):
                store.find_and_add([document("after", 2)])


def count_readers(witness: LmdbEngine) -> int:
    """Count LMDB's reader slots that are in use, by the living or the dead."""
    return len(witness.env.readers().splitlines()) - 1


@pytest.mark.slow
def test_dead_readers_are_cleared_at_opening(tmp_path: Path) -> None:
    """Otherwise the pages they looked at are never used again, and the file grows."""
    open_lmdb(tmp_path).close()
    witness = LmdbEngine(tmp_path, readonly=True)
    witness.open()
    before = count_readers(witness)
    for _ in range(3):
        with running(HOLDER, tmp_path, "read") as reader:
            reader.kill()
    assert count_readers(witness) == before + 3
    with running(OPENER, tmp_path, "False"):
        wait_until(lambda: count_readers(witness) <= before + 1)
    witness.close()
