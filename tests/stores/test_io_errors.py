"""I/O errors at every call a store makes; full disks are in `test_crawl_processes`."""

import json
from pathlib import Path

import pytest

from scrapy_simhash.stores.opening import open_store
from tests.helpers.children import run_script
from tests.helpers.tracing import run_traced

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
    assert (folder / "suspect").read_text().endswith("Input/output error)")
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
