"""Damaged data files: a clear error that names the cure, never a signal death, nothing changed."""

import json
import os
import signal
from pathlib import Path

import pytest

from scrapy_simhash.errors import StoreUnusableError
from tests.helpers.children import running
from tests.helpers.damage import MUTATORS, Outcome, make_store
from tests.helpers.documents import open_lmdb
from tests.helpers.needing import slow_but
from tests.helpers.processes import ROOT, run_python

SEEDS, ALL_SEEDS = 5, int(os.environ.get("SIMHASH_TEST_DAMAGED", "10"))


@pytest.mark.parametrize("first", slow_but([SEEDS], range(0, ALL_SEEDS, SEEDS)))
def test_no_damage_kills_a_process_or_is_believed(in_memory: Path, first: int) -> None:
    """35 damaged files, each in a process of its own; every exit code is looked at."""
    (in_memory / "work").mkdir()
    make_store(in_memory / "whole")
    data = in_memory / "whole" / "data.mdb"
    done = run_python(
        "-m", "tests.helpers.damage", data, in_memory / "work", str(first), str(SEEDS), cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    outcomes = [Outcome(*outcome) for outcome in json.loads(done.stdout)]
    assert len(outcomes) == len(MUTATORS) * SEEDS
    for outcome in outcomes:
        assert outcome.code == 0, outcome
        # A page that is not in use may be spoilt.
        if outcome.told == "works: []":
            assert not outcome.unchanged, outcome
            continue
        assert outcome.unchanged, outcome
        # LMDB does not see a flipped bit in a record, but `check` does.
        if not outcome.name.startswith("flip_bits") or not outcome.told.startswith("found: "):
            assert outcome.told.startswith("refused: "), outcome
            assert any(cure in outcome.told for cure in ("backup", "another folder")), outcome
    worked = [outcome.name for outcome in outcomes if outcome.told == "works: []"]
    assert len(worked) < len(outcomes) / 4, worked


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [1, 2])
def test_no_damage_of_a_large_file_where_it_is_drops_a_page(in_memory: Path, seeds: int) -> None:
    """A file with its locks beside it is not verified; LMDB may abort, but `check` not."""
    (in_memory / "work").mkdir()
    make_store(in_memory / "whole", 3_000)
    data = in_memory / "whole" / "data.mdb"
    assert 3 * 2**20 < data.stat().st_size < 8 * 2**20
    arguments = data, in_memory / "work", "100", str(seeds), "crawl"
    done = run_python("-m", "tests.helpers.damage", *arguments, cwd=ROOT, seconds=100 * seeds)
    assert done.returncode == 0, done.stderr
    outcomes = [Outcome(*outcome) for outcome in json.loads(done.stdout)]
    assert len(outcomes) == len(MUTATORS) * seeds
    for outcome in outcomes:
        assert outcome.checked.startswith(("0 refused: ", "0 found: ")), outcome
        assert outcome.unchanged or not outcome.told.startswith("refused: "), outcome
        if outcome.code in {-signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS}:
            assert outcome.checked != "0 found: []", outcome
        else:
            assert outcome.code == 0, outcome
            assert outcome.told.startswith(("refused: ", "failed: []", "works: []")), outcome
        if outcome.name.startswith(("truncate", "empty")):
            assert outcome.told.startswith("refused: "), outcome


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A store of which some pages are zeros."""
    make_store(tmp_path / "store")
    data = tmp_path / "store" / "data.mdb"
    octets = bytearray(data.read_bytes())
    pages = len(octets) // 4_096
    for page in range(pages - 8, pages):  # some of them may be free
        octets[4_096 * page : 4_096 * page + 16] = bytes(16)
    data.write_bytes(octets)
    return tmp_path / "store"


def test_a_file_is_verified_by_check(damaged: Path) -> None:
    """Pages of zeros make LMDB abort: `check` must not read them through it."""
    with open_lmdb(damaged) as store:
        assert any("page" in problem for problem in store.check())


def test_a_file_that_was_copied_here_is_verified_once(damaged: Path) -> None:
    (damaged / "lock.mdb").unlink()
    for _ in range(2):
        with pytest.raises(StoreUnusableError, match=r"data\.mdb is damaged: .*backup"):
            open_lmdb(damaged)
    assert not (damaged / "lock.mdb").exists()


def test_a_file_that_was_marked_suspect_is_verified(damaged: Path) -> None:
    (damaged / "suspect").write_text("an I/O error")
    for readonly in (False, True):
        with pytest.raises(StoreUnusableError, match=r"data\.mdb is damaged: .*backup"):
            open_lmdb(damaged, readonly=readonly)
    assert (damaged / "suspect").read_text() == "an I/O error"


KILLED = """
import sys
from pathlib import Path
from tests.helpers.documents import document, open_lmdb
store = open_lmdb(Path(sys.argv[1]))
store.find_and_add([document("a", 1)])
print("ready", flush=True)
sys.stdin.readline()
"""


def test_a_file_is_opened_unread_after_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LMDB needs no repair after one, so that a large store opens as quickly as a small one."""
    monkeypatch.setattr("scrapy_simhash.stores.lmdb.verify", pytest.fail)
    with running(KILLED, tmp_path / "store") as child:
        child.kill()
    with open_lmdb(tmp_path / "store") as store:
        assert store.stats()["documents"] == 1
