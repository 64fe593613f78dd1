"""Compaction: pages are full afterwards, nothing is lost, and nobody else has the store open."""

import random
import signal
import stat
from pathlib import Path

import pytest

from scrapy_simhash.errors import StoreUnusableError
from scrapy_simhash.stores.copying import compact
from scrapy_simhash.stores.opening import open_store
from scrapy_simhash.stores.store import Store
from tests.helpers.children import running
from tests.helpers.documents import document, open_lmdb
from tests.helpers.needing import slow_but

COUNT = 300


def draw_fingerprints(seed: int, count: int = COUNT) -> list[int]:
    """Draw fingerprints; every fifth shares 16 bits with the others of its kind, in any table."""
    draw = random.Random(seed)  # noqa: S311 - reproducible
    drawn = [draw.getrandbits(64) for _ in range(count)]
    for number in range(0, count, 5):
        shift = 16 * (number // 5 % 4)
        drawn[number] = drawn[number] & ~(0xFFFF << shift) | 0x5A5A << shift
    return drawn


def add(store: Store, fingerprints: list[int]) -> None:
    """Each is a document of its own scope: none is a near-duplicate."""
    pages = [document(f"{each:x}", each, scope=f"{each:x}") for each in fingerprints]
    verdicts = store.find_and_add(pages)
    assert {verdict.status for verdict in verdicts} <= {"new", "not_judged"}


def make(folder: Path) -> list[int]:
    """Make a store whose rows were added before and after it was compacted."""
    fingerprints = draw_fingerprints(1)
    with open_lmdb(folder) as store:
        add(store, fingerprints[:200])
    compact(folder)
    with open_lmdb(folder) as store:
        add(store, fingerprints[200:])
        assert store.check() == []
    return fingerprints


def compare(store: Store, fingerprints: list[int]) -> None:
    """All of them are there, and each is found."""
    assert store.check() == []
    assert store.fingerprints().tolist() == sorted(fingerprints)
    for each in fingerprints:
        assert [match.fingerprint for match in store.query(each, 0)] == [each]


def test_the_file_is_smaller_and_nothing_lost(tmp_path: Path) -> None:
    fingerprints, fresh = make(tmp_path), draw_fingerprints(2, 40)
    for turn in range(2):
        before = (tmp_path / "data.mdb").stat().st_size
        compact(tmp_path)
        after = (tmp_path / "data.mdb").stat().st_size
        assert after < before if not turn else after == before
        with open_lmdb(tmp_path) as store:
            compare(store, fingerprints)
    assert stat.S_IMODE((tmp_path / "data.mdb").stat().st_mode) == 0o600
    with open_lmdb(tmp_path) as store:
        add(store, fresh)
        gone = fingerprints[::3]
        for each in gone:
            store.delete([match.document for match in store.query(each, 0)])
        compare(store, [*set(fingerprints).difference(gone), *fresh])


KILLED = """
import os, signal, sys
from pathlib import Path
from scrapy_simhash.stores import copying

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

print("ready", flush=True)
if sys.argv[2] == "copying":
    calls = iter(range(2))
    cut = copying.cut
    copying.cut = lambda *args: cut(*args) if next(calls, None) is not None else die()
elif sys.argv[2] == "replacing":
    Path.rename = die
else:
    copying.sync_folder = die
copying.compact(Path(sys.argv[1]))
"""


@pytest.mark.parametrize("at", slow_but(["copying"], ["copying", "replacing", "ending"]))
def test_kill_9_in_the_middle_loses_nothing(tmp_path: Path, at: str) -> None:
    fingerprints, fresh = make(tmp_path), draw_fingerprints(5, 100)
    before = (tmp_path / "data.mdb").stat().st_size
    with running(KILLED, tmp_path, at) as killed:
        assert killed.process.wait() == -signal.SIGKILL
    assert ((tmp_path / "data.mdb").stat().st_size < before) == (at == "ending")
    with open_lmdb(tmp_path) as store:
        compare(store, fingerprints)
        add(store, fresh)
    compact(tmp_path)
    assert not list(tmp_path.glob("*.packed"))
    with open_lmdb(tmp_path) as store:
        compare(store, fingerprints + fresh)


OPEN = """
import sys
from scrapy_simhash import open_store
with open_store(sys.argv[1], readonly=sys.argv[2] == "True"):
    print("ready", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.parametrize("readonly", [False, True])
def test_not_while_somebody_has_it_open(tmp_path: Path, *, readonly: bool) -> None:
    make(tmp_path)
    before = (tmp_path / "data.mdb").read_bytes()
    with (
        running(OPEN, tmp_path, readonly) as other,
        pytest.raises(
            StoreUnusableError, match=f"is open.*, in process {other.process.pid}: wait until"
        ),
    ):
        compact(tmp_path)
    with open_lmdb(tmp_path, readonly=readonly), pytest.raises(StoreUnusableError, match="open"):
        compact(tmp_path)
    assert (tmp_path / "data.mdb").read_bytes() == before


def test_nobody_opens_it_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fingerprints, refused = make(tmp_path), []

    def look(_: int) -> None:
        for readonly in (False, True):
            with pytest.raises(StoreUnusableError, match="being made or packed, in process"):
                open_store(str(tmp_path), readonly=readonly)
            refused.append(readonly)

    with monkeypatch.context() as patched:
        patched.setattr("scrapy_simhash.stores.copying.os.fsync", look)
        patched.setattr("scrapy_simhash.stores.lmdb._OPENING_SECONDS", 0)
        compact(tmp_path)
    assert refused[:2] == [False, True]
    with open_lmdb(tmp_path) as store:
        compare(store, fingerprints)
