"""A store's file is replaced only when nobody has it open."""

import os
import stat
from pathlib import Path

import numpy as np
import pytest

from scrapy_simhash.errors import StoreUnavailableError, StoreUnusableError
from scrapy_simhash.stores.lmdb.copying import shrink
from scrapy_simhash.stores.opening import open_store
from tests.helpers.needing import slow_but
from tests.helpers.processes import run_python

NUMBERS = np.random.default_rng(3).integers(0, 2**64, 30_000, np.uint64)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make a store with many free pages."""
    with open_store(str(tmp_path / "store")) as store:
        store.bulk_load(NUMBERS)
        store.bulk_load(NUMBERS[:1])
    return tmp_path / "store"


def test_the_file_shrinks_and_loses_nothing(folder: Path) -> None:
    answer = shrink(folder)
    assert answer is not None
    before, after = answer
    assert after == (folder / "data.mdb").stat().st_size < 0.7 * before
    assert stat.S_IMODE((folder / "data.mdb").stat().st_mode) == 0o600
    assert not list(folder.glob("*.shrunk"))
    with open_store(str(folder)) as store:
        assert store.check() == []
        assert (store.fingerprints() == np.sort(NUMBERS)).all()
        store.bulk_load(np.array([7], np.uint64))


@pytest.mark.parametrize("readonly", slow_but([True], [False, True]))
def test_not_while_somebody_has_it_open(folder: Path, *, readonly: bool) -> None:
    before = (folder / "data.mdb").stat().st_ino
    with open_store(str(folder), readonly=readonly):
        assert shrink(folder) is None
        told = run_python(
            "-c",
            "import sys; from pathlib import Path\n"
            "from scrapy_simhash.stores.lmdb.copying import shrink\n"
            "print(shrink(Path(sys.argv[1])))",
            folder,
            cwd=folder,
        )
        assert told.stdout == "None\n"
    assert (folder / "data.mdb").stat().st_ino == before


def test_nobody_opens_it_meanwhile(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = []

    def look(_: int) -> None:
        for readonly in (False, True):
            with pytest.raises(StoreUnusableError, match="is being shrunk just now"):
                open_store(str(folder), readonly=readonly)
            refused.append(readonly)

    with monkeypatch.context() as patched:
        patched.setattr("scrapy_simhash.stores.lmdb.guard.os.fsync", look)
        shrink(folder)
    assert refused[:2] == [False, True]
    open_store(str(folder)).close()


def test_a_full_disk_leaves_it_as_it_was(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(28, os.strerror(28))

    before = (folder / "data.mdb").read_bytes()
    monkeypatch.setattr("scrapy_simhash.stores.lmdb.guard.os.fsync", fail)
    with pytest.raises(StoreUnavailableError, match=r"unchanged: .*No space left"):
        shrink(folder)
    assert (folder / "data.mdb").read_bytes() == before
    assert not list(folder.glob("*.shrunk"))


def test_there_must_be_a_store(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusableError, match="there is no store"):
        shrink(tmp_path / "none")
    assert not (tmp_path / "none").exists()
