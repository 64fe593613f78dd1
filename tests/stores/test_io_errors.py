"""I/O errors, damaged files and power cuts; full disks are in `test_crawl_processes`."""

import json
import os
import random
from pathlib import Path

import pytest

from scrapy_simhash.errors import StoreUnusableError
from scrapy_simhash.stores.opening import open_store
from tests.helpers.children import run_script, running
from tests.helpers.damage import MUTATORS, Outcome, make_store
from tests.helpers.documents import open_lmdb
from tests.helpers.needing import slow_but
from tests.helpers.powercut import CALLS
from tests.helpers.processes import ROOT, run_python
from tests.helpers.tracing import run_traced, trace_options

# Which call of a kind fails is counted for each process: a child that is to fail at its third call
# makes as many calls in vain before, on the same file.
AT_EVERY_CALL = """
import json, os, sys, traceback
from pathlib import Path
from shutil import rmtree
from scrapy_simhash.errors import StoreError, StoreUnavailableError
from tests.helpers.documents import document, open_lmdb
from tests.helpers.powercut import fingerprint_of

folder, fails_at = Path(sys.argv[1]), int(sys.argv[2])
data = folder / "data.mdb"
IN_VAIN = {
    "fdatasync": os.fdatasync,
    "pwrite64": lambda file: os.pwrite(file, b"", 0),
    "writev": lambda file: os.writev(file, [b""]),
}

def pages(batch):
    return [
        document(f"{batch} {n}", (batch * 9 + n) * 0x9E3779B97F4A7C15 % 2**64, text="text" * 3_000)
        for n in range(4)
    ]

def write(acknowledged):
    with open_lmdb(folder) as store:
        acknowledged.append(fingerprint_of(store))
        for batch in range(4):
            store.find_and_add(pages(batch))
            acknowledged.append(fingerprint_of(store))

def write_until_it_fails(call, number):
    folder.mkdir()
    file = os.open(data, os.O_RDWR | os.O_CREAT)
    for _ in range(fails_at - number):
        IN_VAIN[call](file)
    os.close(file)
    data.unlink()
    acknowledged, told = [], ""
    try:
        write(acknowledged)
    except StoreError as error:
        told = f"{type(error).__name__}: {error}"
    return acknowledged, told, (folder / "suspect").exists()

def reopen():
    with open_lmdb(folder) as store:
        found = fingerprint_of(store)
        problems = store.check()
        status = store.find_and_add(pages(99))[0].status
        return found, problems, status, (folder / "suspect").exists()

def in_child(work, *arguments):
    read, write = os.pipe()
    if not os.fork():
        try:
            told = work(*arguments)
        except BaseException:
            told = traceback.format_exc()
        os.write(write, json.dumps(told).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        told = json.load(answer)
    os.wait()
    return told

outcomes = []
for call in IN_VAIN:
    for number in range(1, fails_at):
        outcomes.append((f"{call} {number}", in_child(write_until_it_fails, call, number),
                         in_child(reopen)))
        rmtree(folder)
        if not outcomes[-1][1][1]:
            break
print(json.dumps(outcomes))
"""
FAILS_AT = 40


@pytest.mark.slow
@pytest.mark.usefixtures("strace")
def test_an_io_error_at_any_call_loses_nothing_acknowledged(in_memory: Path) -> None:
    folder = in_memory / "store"
    calls = ("fdatasync", "pwrite64", "writev")
    options = ["-o", "/dev/null", "-P", str(folder / "data.mdb"), "-e", f"trace={','.join(calls)}"]
    for call in calls:
        options += ["-e", f"inject={call}:error=EIO:when={FAILS_AT}"]
    done = run_traced(options, "-c", AT_EVERY_CALL, folder, FAILS_AT)
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout)
    # Every call was reached, and one after the last: then nothing failed.
    assert [name.split()[0] for name, written, _ in outcomes if not written[1]] == [*calls]
    assert len(outcomes) > 25
    for name, (acknowledged, told, suspect), again in outcomes:
        assert isinstance(again, list), (name, told, again)
        found, problems, status, still_suspect = again
        assert problems == [], (name, told)
        assert (status, still_suspect) == ("new", False), (name, told)
        if acknowledged:
            assert found == acknowledged[-1], (name, told)
        if told and acknowledged:
            assert suspect, (name, told)
            assert "Nothing more is read or written; the store is verified when" in told, (
                name,
                told,
            )


JUDGE_EIGHT_PAGES = """
import sys
from pathlib import Path
from tests.helpers.judging import judging
from tests.helpers.pages import page

with judging(Path(sys.argv[1])) as crawl:
    for n in range(8):
        print(crawl.deliver(f"p{n}", page(n)), flush=True)
print(crawl.closed.unwritten)
"""


@pytest.mark.usefixtures("strace")
def test_after_an_io_error_pages_pass_not_judged(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    inject = ["-P", str(folder / "data.mdb"), "-e", "trace=fdatasync"]
    inject += ["-e", "inject=fdatasync:error=EIO:when=5"]
    done = run_traced(["-o", "/dev/null", *inject], "-c", JUDGE_EIGHT_PAGES, folder)
    assert done.returncode == 0, done.stderr
    *verdicts, unwritten = done.stdout.splitlines()
    new = verdicts.count("new")
    assert verdicts == ["new"] * new + ["not_judged store_unavailable"] * (8 - new)
    assert done.stderr.count("The store cannot be written") == 1
    assert (folder / "suspect").stat().st_mode == 0o100600
    with open_store(str(folder)) as store:
        assert 1 <= store.stats()["documents"] == new - int(unwritten) < new
        assert store.check() == []
    assert not (folder / "suspect").exists()


FULL_MEMORY = """
import resource, tempfile
from scrapy_simhash.errors import StoreUnavailableError, StoreUnusableError
from tests.helpers.documents import document, open_lmdb

with open_lmdb("memory:") as store:
    store.find_and_add([document("before", 1)])
    room = store.engine.measure() + 6_000  # in the middle of a page
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
    try:
        store.find_and_add([document("during", 1 << 40, text=ascii([*range(9_999)]))])
    except StoreUnavailableError as error:
        print(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    print(store.find_and_add([document("after", 2**40 - 1)])[0].status, store.check())
tempfile.tempdir = "/no such folder"
try:
    open_lmdb("memory:")
except StoreUnusableError as error:
    print(error)
"""


def test_what_is_in_memory_needs_a_disk() -> None:
    """Its file has no name any more when the disk is full, and nobody can look at it again."""
    told, after, unopened = run_script(FULL_MEMORY).splitlines()
    assert "cannot grow: the disk is full; make room" in told
    assert after == "new []"
    assert "/no such folder" in unopened


# The long version takes 5,000.
QUICK, STATES = 30, int(os.environ.get("SIMHASH_TEST_POWER_CUTS", "100"))
WRITER = """
import os, random, sys
from pathlib import Path
from scrapy_simhash.stores.copying import compact
from scrapy_simhash.stores.opening import open_as_it_is
from tests.helpers.documents import document, open_lmdb
from tests.helpers.powercut import fingerprint_of

folder, draw = Path(sys.argv[1]), random.Random(int(sys.argv[2]))
pages = 0

def acknowledge(store):
    os.write(1, fingerprint_of(store).encode() + b"\\n")

def add(store):
    global pages
    batch = [
        document(f"page {pages + n}", draw.getrandbits(64) if draw.random() < 0.8 else 77 << 20,
                 text=draw.randbytes(draw.choice((20, 20, 200, 5_000))).hex())
        for n in range(draw.randint(1, 6))
    ]
    pages += len(batch)
    store.find_and_add(batch, crawl=f"crawl {pages}")

def forget(store):
    store.write(lambda stored: stored.forget(f"page {draw.randrange(pages)}".encode()))

def delete(store):
    store.delete([draw.randint(1, pages)])

def rebuild(store):
    store.rebuild()

steps = [add] * 24 + [forget] * 4 + [delete, delete, rebuild]
draw.shuffle(steps)
{sabotage}
with open_lmdb(folder) as store:
    acknowledge(store)
    acknowledge(store)
    for step in [add, *steps]:
        step(store)
        acknowledge(store)
    acknowledge(store)
with open_as_it_is(str(folder)) as store:
    compact(store)
with open_lmdb(folder) as store:
    store.find_and_add([document("after", 5)])
    acknowledge(store)
"""
UNSYNCED_COMMITS = """
from scrapy_simhash.stores.lmdb import LmdbEngine
LmdbEngine.synced = False
"""
UNSYNCED_FILES = "os.fsync = lambda _: None"


def replay(folder: Path, states: int, sabotage: str = "") -> tuple[int, list[str]]:
    """Let a process write, then cut the power; returns its exit code and what went wrong."""
    seed = random.SystemRandom().getrandbits(32)
    root, log = folder / "disk", folder / "log"
    root.mkdir()
    script = WRITER.replace("{sabotage}", sabotage)
    written = run_traced(trace_options(log, CALLS), "-c", script, root / "store", seed)
    assert written.returncode == 0, (seed, written.stderr)
    arguments = map(str, (log, root, folder, states, seed))
    done = run_python("-m", "tests.helpers.powercut", *arguments, cwd=ROOT, seconds=100 + states)
    faults = json.loads(done.stdout) if done.returncode == 0 else [done.stderr[-2_000:]]
    return done.returncode, [f"seed {seed}: {fault}" for fault in faults]


@pytest.mark.usefixtures("strace")
@pytest.mark.parametrize("states", slow_but([QUICK], [QUICK, STATES]))
def test_a_power_cut_loses_nothing(in_memory: Path, states: int) -> None:
    assert replay(in_memory, states) == (0, [])


@pytest.mark.usefixtures("strace")
@pytest.mark.slow
@pytest.mark.parametrize("sabotage", [UNSYNCED_COMMITS, UNSYNCED_FILES])
def test_without_the_syncs_the_replay_finds_losses(in_memory: Path, sabotage: str) -> None:
    """The test of the test: a replay that finds nothing here would find nothing above."""
    assert replay(in_memory, 20, sabotage)[1]


SEEDS, ALL_SEEDS = 3, int(os.environ.get("SIMHASH_TEST_DAMAGED", "9"))


@pytest.mark.parametrize("first", slow_but([SEEDS], range(0, ALL_SEEDS, SEEDS)))
def test_no_damage_kills_a_process_or_is_believed(in_memory: Path, first: int) -> None:
    """24 damaged files, each in a process of its own; every exit code is looked at."""
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
