"""`check`, `check --compact`, `check --rebuild`, `prune`: what they do, print and refuse."""

import re
import time
from pathlib import Path

import lmdb
import pytest

from scrapy_simhash._printable import plural
from scrapy_simhash.stores.opening import open_store
from tests.helpers.commanding import Run
from tests.helpers.documents import document, open_lmdb

DAY_SECONDS = 86_400
SITE = "http://site.example/"
# Two bits from "old", and so its near-duplicate; the others are far apart.
OLD, COPY, RECENT, OTHER = 0xFF, 0xFC, 0xFF << 20, 0xFF << 40


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store of two crawls: an old page and its copy, a recent one, one of a scope."""
    path, now = tmp_path / "store", time.time()
    pages = (
        ("crawl-1", document("old", OLD, time=now - 10 * DAY_SECONDS)),
        ("crawl-1", document("copy", COPY, time=now)),
        ("crawl-2", document("recent", RECENT, time=now)),
        ("crawl-1", document("other", OTHER, time=now - 5 * DAY_SECONDS, scope="b.example")),
    )
    with open_lmdb(path) as store:
        for crawl, page in pages:
            store.find_and_add([page], crawl=crawl)
    return path


def names(folder: Path) -> list[str]:
    with open_lmdb(folder, readonly=True) as store:
        assert store.check() == []
        found = store.get_documents(range(1, 9)).values()
        return [each.facts.url.rpartition("/")[2] for each in found]


def damage(folder: Path) -> None:
    """Take a row out of the first table."""
    with lmdb.open(str(folder), max_dbs=32, lib_version=0) as env:
        rows = env.open_db(b"tables", dupsort=True, dupfixed=True)
        with env.begin(write=True, db=rows) as transaction, transaction.cursor() as cursor:
            assert cursor.first()
            cursor.delete()


@pytest.mark.parametrize(
    ("arguments", "left", "answer"),
    [
        (("prune", "--days", "7"), ["recent", "other"], (1, 1)),
        (("prune", "--days", "2.5"), ["recent"], (2, 1)),
        (("prune", "--days", "0", "--crawl", "crawl-2"), ["old", "copy", "other"], (1, 0)),
        (("prune", "--crawl", "crawl-1"), ["recent"], (3, 0)),
        (("prune", f"{SITE}old"), ["recent", "other"], (1, 1)),
        (("prune", f"{SITE}copy"), ["old", "recent", "other"], (1, 0)),
        (("prune", f"{SITE}other", f"{SITE}recent"), ["old", "copy"], (2, 0)),
    ],
)
def test_documents_go(
    run: Run, folder: Path, arguments: tuple[str, ...], left: list[str], answer: tuple[int, int]
) -> None:
    everything = names(folder)
    documents, near_duplicates = answer
    *listed, last = run.text(*arguments, "--dry-run", "--store", folder).splitlines()
    assert [line.rpartition("/")[2] for line in listed] == [n for n in everything if n not in left]
    near = plural(near_duplicates, "near-duplicate")
    said = f"{plural(documents, 'document')} and {near} of them"
    assert (last, names(folder)) == (f"would delete {said}", everything)
    done = run(*arguments, "--store", folder)
    assert (done.exit_code, done.out, done.err) == (0, f"deleted {said}\n", "")
    assert names(folder) == left
    failed = run.failed(*arguments, "--store", folder)
    assert re.search(r"no document meets all|nothing in the store with this address", failed)


def test_check_finds_and_rebuild_mends(run: Run, folder: Path) -> None:
    out = run.text("check", "--store", folder)
    assert {"documents: 4", "near duplicates: 1", "design: 4"} <= {*out.splitlines()}
    assert out.endswith("problems: none\n")
    with open_store(str(folder), readonly=True) as opened:
        counted = opened.stats()
    assert run.answer("check", "--store", folder) == {**counted, "problems": []}
    damage(folder)
    done = run("check", "--store", folder)
    assert done.exit_code == 1
    assert " is missing in table 0\n" in done.out
    found = done.out.partition("problems:\n  ")[2].rstrip("\n").split("\n  ")
    assert f"{plural(len(found), 'problem')}; --rebuild repairs the tables" in done.err
    (answer,) = run("check", "--json", "--store", folder).answers
    assert answer["problems"] == found
    done = run("check", "--rebuild", "--store", folder, "--json")
    assert done.answers == [{"design": "4", "fingerprints": 3, "tables": 4}]
    assert run("check", "--store", folder).exit_code == 0


@pytest.mark.parametrize(
    ("given", "setting", "design"),
    [("10", "3", "10"), ("8:7", "7", "8:7"), ("auto", "3", "4"), ("6:3", "3", "")],
)
def test_rebuild_in_another_design(
    run: Run, folder: Path, given: str, setting: str, design: str
) -> None:
    arguments = ("-s", f"SIMHASH_DISTANCE={setting}", "check", "--rebuild", "--tables", given)
    assert f"design: {design or given}\n" in run.text(*arguments, "--store", folder)
    with open_store(str(folder), distance=int(setting)) as store:
        assert store.design == (design or given)
        assert [each.facts.fingerprint for _, each in store.query(OLD ^ 0b101)] == [OLD]
    assert names(folder) == ["old", "copy", "recent", "other"]
    # The settings' distance keeps nobody from the cure.
    assert run("check", "--rebuild", "--tables", "4", "--store", folder).exit_code == 0
    with open_lmdb(folder, distance=7) as store:
        assert len(store.query(OLD ^ 0x7F00)) == 1
