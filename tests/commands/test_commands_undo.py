"""`undo`: drops are chosen, listed, and let pass the next time."""

import json
import re
from pathlib import Path

import pytest

from tests.helpers.commanding import Run
from tests.helpers.documents import document, open_lmdb
from tests.helpers.judging import new_line

A, B, ALONE = 0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210, 0x5555_5555_5555_5555
SITE = "http://site.example/"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Originals with near-duplicates of two crawls; one is gone, and one is without."""
    kept = [document("a", A, title="A page"), document("b", B), document("c", A ^ B)]
    dropped = [document("a1", A ^ 1), document("b1", B ^ 7), document("c1", A ^ B ^ 1)]
    with open_lmdb(tmp_path / "s") as store:
        store.find_and_add([*kept, *dropped, document("d", ALONE)], crawl="crawl-1")
        store.find_and_add([document("a2", A ^ 3)], crawl="crawl-2")
        store.write(lambda stored: stored.forget(b"c"))
    return tmp_path / "s"


@pytest.mark.parametrize(
    ("criteria", "expected"),
    [
        *(((SITE + "a1",), ["a1"]), ((SITE + "a1", SITE + "b1"), ["a1", "b1"])),
        (("--original", SITE + "a"), ["a1", "a2"]),
        ((SITE + "a2", "--original", SITE + "a"), ["a2"]),
        (("--crawl", "crawl-1"), ["a1", "b1", "c1"]),
    ],
)
def test_drops_are_listed(run: Run, store: Path, criteria: tuple[str, ...], expected: str) -> None:
    before = (store / "data.mdb").read_bytes()
    done = run("undo", *criteria, "--dry-run", "--store", store)
    assert done.exit_code == 0
    assert re.fullmatch(rf"{len(expected)} pages? listed, nothing undone\n", done.err)
    assert done.out.splitlines() == [SITE + name for name in expected]
    assert (store / "data.mdb").read_bytes() == before


def test_what_was_undone_passes_the_next_time(run: Run, store: Path) -> None:
    done = run("undo", "--original", SITE + "a", "--store", store, "--json")
    assert done.exit_code == 0
    found = [(line["url"], line["original"], line["distance"]) for line in done.answers]
    assert found == [(f"{SITE}a{bits}", SITE + "a", bits) for bits in (1, 2)]
    assert done.err == "2 drops undone; what was dropped passes when it is fetched again\n"
    done = run("undo", SITE + "a1", SITE + "c1", "--crawl", "crawl-1", "--store", store)
    assert (done.exit_code, done.out) == (0, f"{SITE}a1\n{SITE}c1\n")
    assert done.err.startswith("2 drops undone; ")
    with open_lmdb(store) as opened:
        pages = [document("a1", A ^ 1), document("b1", B ^ 7), document("a3", A ^ 4)]
        verdicts = [verdict.status for verdict in opened.find_and_add(pages)]
        assert verdicts == ["new", "near_duplicate", "near_duplicate"]
        assert opened.check() == []
    # Once it has passed it is a page as any other.
    for page, criteria in (("a1", ()), ("b1", ("--original", SITE + "a"))):
        said = f"{SITE}{page}: nothing in the store with this address meets all criteria"
        assert said in run.failed("undo", SITE + page, *criteria, "--store", store)
    said = run.failed("undo", "--crawl", "none", "--store", store)
    assert said.endswith("nothing to undo: no drop meets all criteria\n")


def test_unknown_urls_are_named_and_the_others_undone(run: Run, store: Path) -> None:
    said = "it passes when it is fetched again"
    assert said not in run("explain", SITE + "a1", "--store", store).out
    urls = (SITE + "a1", SITE + "A2/", SITE + "b", "http://no.example/")
    done = run("undo", *urls, "--store", store)
    assert (done.exit_code, done.out) == (1, f"{SITE}a1\n")
    left = f"http://no.example/, {SITE}A2/, {SITE}b: nothing in the store with this address meets"
    assert left in done.err
    assert said in run("explain", SITE + "a1", "--store", store).out
    failed = run.failed("undo", "--original", SITE + "a/", "--store", store)
    assert f"{SITE}a/: nothing in the store with this address meets all criteria" in failed


@pytest.mark.parametrize("command", ["undo", "prune"])
def test_the_last_crawl_is_that_of_the_log(run: Run, store: Path, command: str) -> None:
    arguments = (command, "--crawl", "last", "--dry-run", "--store", store)
    done = run(*arguments)
    assert (done.exit_code, done.out) == (2, "")
    assert "there is no decision log" in done.err
    log = store / "log.jsonl"
    for crawl, found in (("crawl-1", True), ("crawl-0", False)):
        with log.open("a", encoding="ascii") as file:
            file.write(json.dumps(new_line(SITE, crawl)) + "\n")
        done = run(*arguments)
        assert (done.exit_code, SITE + "a1\n" in done.out) == (not found, found)
        assert ("meets all criteria" in done.err) == (not found)
    log.write_text('{"url": ', encoding="ascii")
    assert run(*arguments).exit_code == 1
    # Only a log and a report take `all`, which would delete all pages.
    assert "all criteria" in run.failed(command, "--crawl", "all", "--store", store)
