"""A power cut at any moment: nothing acknowledged is lost, all tables agree, no repair step."""

import json
import os
import random
from pathlib import Path

import pytest

from tests.helpers.needing import slow_but
from tests.helpers.powercut import CALLS
from tests.helpers.processes import ROOT, run_python
from tests.helpers.tracing import run_traced, trace_options

# The long version takes 5,000.
QUICK, STATES = 30, int(os.environ.get("SIMHASH_TEST_POWER_CUTS", "100"))
WRITER = """
import os, random, sys
from pathlib import Path
from scrapy_simhash.stores.copying import compact
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
compact(folder)
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
