"""`check`, `check --compact`, `check --rebuild`, `prune`: what they do, print and refuse."""

import re
import time
from pathlib import Path

import lmdb
import numpy as np
import pytest

from scrapy_simhash._printable import plural
from scrapy_simhash.stores.opening import open_store
from scrapy_simhash.stores.store import Store
from tests.helpers.commanding import HOSTILE, Run, assert_printable
from tests.helpers.documents import document, open_in_crawl, open_lmdb

DAY_SECONDS = 86_400
# Two bits from "old", and so its near-duplicate; the others are far apart.
OLD, COPY, YOUNG, OTHER = 0xFF, 0xFC, 0xFF << 20, 0xFF << 40


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store of two crawls that ended: an old page and its copy, a young one, one of a scope."""
    path, now = tmp_path / "store", time.time()
    pages = [
        document("old", OLD, time=now - 10 * DAY_SECONDS),
        document("copy", COPY, time=now),
        document("young", YOUNG, time=now, crawl="crawl-2"),
        document("other", OTHER, time=now - 5 * DAY_SECONDS, scope="b.example"),
    ]
    with open_in_crawl(path) as store:
        store.start_crawl("crawl-2", "spider")
        verdicts = store.find_and_add(pages)
        assert [verdict.status for verdict in verdicts][:2] == ["new", "near_duplicate"]
        store.mark_done([1, 4], "crawl-1")
        store.mark_done([3], "crawl-2")
        store.end_crawl("crawl-1")
        store.end_crawl("crawl-2")
    return path


def names(folder: Path) -> list[str]:
    with open_lmdb(folder, readonly=True) as store:
        assert store.check() == []
        found = (store.get_document(number) for number in range(1, 9))
        return [each.facts.url.rpartition("/")[2] for each in found if each]


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
        (("prune", "--days", "7"), ["young", "other"], (1, 1)),
        (("prune", "--days", "2.5"), ["young"], (2, 1)),
        (("prune", "--days", "0", "--crawl", "crawl-2"), ["old", "copy", "other"], (1, 0)),
        (("prune", "--days", "2", "--scope", ""), ["young", "other"], (1, 1)),
        (("prune", "--scope", "b.example"), ["old", "copy", "young"], (1, 0)),
        (("prune", "--crawl", "crawl-1"), ["young"], (3, 0)),
        (("prune", "--crawl", "crawl-2", "--scope", ""), ["old", "copy", "other"], (1, 0)),
        (("prune", "http://site.example/old"), ["young", "other"], (1, 1)),
        (("prune", "http://site.example/copy"), ["old", "young", "other"], (1, 0)),
        (
            ("prune", "http://site.example/other", "http://site.example/young"),
            ["old", "copy"],
            (2, 0),
        ),
    ],
)
def test_documents_go(
    run: Run, folder: Path, arguments: tuple[str, ...], left: list[str], answer: tuple[int, int]
) -> None:
    everything = names(folder)
    documents, near_duplicates = answer
    *listed, last = run.text(*arguments, "--dry-run", "--store", folder).splitlines()
    assert [line.rpartition("/")[2] for line in listed] == [n for n in everything if n not in left]
    said = (
        f"{plural(documents, 'document')} and {plural(near_duplicates, 'near-duplicate')} of them"
    )
    assert last == f"would delete {said}"
    assert names(folder) == everything
    done = run(*arguments, "--store", folder)
    assert (done.exit_code, done.out, done.err) == (0, f"deleted {said}\n", "")
    assert names(folder) == left
    assert re.search(
        r"no document meets all|is not in the store", run.failed(*arguments, "--store", folder)
    )


def test_why_nothing_goes(run: Run, folder: Path) -> None:
    for criteria, said in (
        (
            ["--days", "7", "--crawl", "crawl-2"],
            "no document meets all criteria, or a running crawl is working on it\n",
        ),
        (["--scope", "no.example"], "no document meets all criteria, or a running crawl"),
        (
            ["http://site.example/young", "http://nowhere/", "--days", "7"],
            (
                "http://nowhere/ is not in the store; http://site.example/young does not meet all "
                "criteria, or a running crawl is working on it\n"
            ),
        ),
    ):
        assert said in run.failed("prune", *criteria, "--store", folder)


def test_urls_that_are_not_there_are_named(run: Run, folder: Path) -> None:
    done = run("prune", "http://site.example/old", "http://nowhere/", "--store", folder)
    assert (done.exit_code, done.out) == (1, "deleted 1 document and 1 near-duplicate of them\n")
    assert "http://nowhere/ is not in the store\n" in done.err
    assert "http://nowhere/ is not in the store\n" in run.failed(
        "prune", "http://nowhere/", "--store", folder
    )


def test_a_running_crawl_keeps_its_documents(run: Run, tmp_path: Path) -> None:
    with open_in_crawl(tmp_path / "busy") as store:
        store.find_and_add([document("a", OLD)])
        assert "a running crawl is working on it" in run.failed(
            "prune", "--crawl", "crawl-1", "--store", tmp_path / "busy"
        )
        assert len(store.find_document("http://site.example/a")) == 1


def test_hostile_urls_are_escaped(run: Run, tmp_path: Path) -> None:
    with open_in_crawl(tmp_path / "new") as store:
        store.find_and_add([document("a", OLD, url=HOSTILE)])
    done = run("prune", "--crawl", "crawl-1", "--dry-run", "--store", tmp_path / "new")
    assert done.exit_code == 0
    assert_printable(done.out)


def test_compact(run: Run, tmp_path: Path) -> None:
    drawn = np.random.default_rng(1).integers(0, 2**64 - 1, 20_000, np.uint64)
    with open_lmdb(tmp_path / "new") as store:
        for part in np.split(drawn, 5):
            store.bulk_load(part)
        before = store.stats()
    (answer,) = run.answers("check", "--compact", "--store", "new")
    with open_lmdb(tmp_path / "new", readonly=True) as store:
        after = store.stats()
        assert store.check() == []
        assert (store.fingerprints() == np.unique(drawn)).all()
    assert answer["file_bytes_before"] == before["file_bytes"]
    assert answer["file_bytes_after"] == after["file_bytes"]
    assert answer["file_bytes_after"] < answer["file_bytes_before"]
    done = run("check", "--compact", "--store", "new")
    assert re.search(r"^file bytes before: [\d,]+\nfile bytes after: ", done.out, re.MULTILINE)


def test_check_finds_and_rebuild_mends(run: Run, folder: Path) -> None:
    assert run.text("check", "--store", folder) == (
        "no problems: the tables agree with each other and with the documents\n"
        "tables: 4\nfingerprints: 3\n"
    )
    expected = {"problems": [], "tables": 4, "fingerprints": 3}
    assert run.answers("check", "--store", folder) == [expected]
    damage(folder)
    done = run("check", "--store", folder)
    assert done.exit_code == 1
    assert " is missing in table 0\n" in done.out
    found = [line.strip() for line in done.out.splitlines() if line.startswith("  ")]
    assert f"{plural(len(found), 'problem')}; --rebuild repairs the tables" in done.err
    (answer,) = run("check", "--json", "--store", folder).answers
    assert answer["problems"] == found
    done = run("check", "--rebuild", "--store", folder, "--json")
    assert done.answers == [{"design": "4", "fingerprints": 3, "tables": 4}]
    assert run("check", "--store", folder).exit_code == 0


def spoil_a_key(folder: Path) -> None:
    """Make the first key of the tables longer."""
    with lmdb.open(str(folder), max_dbs=32, lib_version=0) as env:
        tables = env.open_db(b"tables", dupsort=True, dupfixed=True)
        with env.begin(write=True, db=tables) as transaction, transaction.cursor() as cursor:
            assert cursor.first()
            key, rest = cursor.item()
            cursor.delete()
            cursor.put(key + b"x", rest)


@pytest.mark.parametrize("options", [(), ("--tables", "auto")])
def test_a_damaged_key_of_a_table_is_found_and_mended(
    run: Run, folder: Path, options: tuple[str, ...]
) -> None:
    run("check", "--compact", "--store", folder)
    spoil_a_key(folder)
    done = run("check", "--store", folder)
    assert done.exit_code == 1
    assert " is missing in table 0\n" in done.out
    assert "1 problem; --rebuild repairs the tables" in done.err
    assert run("check", "--rebuild", *options, "--store", folder).exit_code == 0
    assert run("check", "--store", folder).exit_code == 0
    assert names(folder) == ["old", "copy", "young", "other"]


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
        assert [match.fingerprint for match in store.query(OLD ^ 0b101)] == [OLD]
    assert names(folder) == ["old", "copy", "young", "other"]


def test_rebuild_of_a_store_that_reaches_too_little(run: Run, tmp_path: Path) -> None:
    """The settings' distance keeps nobody from the cure."""
    with open_lmdb(tmp_path / "new", distance=3, tables=10) as store:
        assert isinstance(store, Store)
        store.bulk_load(np.array([OLD], np.uint64))
    assert run("check", "--rebuild", "--tables", "4", "--store", "new").exit_code == 0
    with open_lmdb(tmp_path / "new", distance=7) as store:
        assert len(store.query(OLD ^ 0x7F)) == 1
