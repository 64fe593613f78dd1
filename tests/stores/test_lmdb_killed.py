"""Processes that are killed in the middle of a transaction hold nobody up."""

import shutil
import threading
from pathlib import Path

import pytest

from scrapy_simhash.errors import StoreUnavailableError
from scrapy_simhash.stores.lmdb import LmdbEngine
from tests.helpers.children import HOLDER, OPENER, running
from tests.helpers.documents import document, open_lmdb
from tests.helpers.processes import PATIENCE_SECONDS, wait_until


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
    return len(witness._env.readers().splitlines()) - 1


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
