"""Every error names the fault, the value and the cure, in one line: bad input of all kinds."""

from pathlib import Path

import lmdb
import numpy as np
import pytest

from tests.helpers.commanding import Run
from tests.helpers.documents import open_lmdb


def make_files(folder: Path) -> None:
    """Make what the errors below are about."""
    for name in ("cut", "other", "empty"):
        (folder / name).mkdir()
    with open_lmdb(folder / "store") as store:
        store.bulk_load(np.array([1, 2, 3], np.uint64))
    (folder / "empty" / "data.mdb").touch()
    (folder / "cut" / "data.mdb").write_bytes((folder / "store" / "data.mdb").read_bytes()[:9_000])
    with lmdb.open(str(folder / "other"), lib_version=0) as env, env.begin(write=True) as row:
        row.put(b"somebody", b"else")
    for name, text in (
        ("numbers.txt", "1\n-2\n"),
        ("junk.jsonl", '{"url": "http://a.example/"}\n'),
        ("items.jsonl", '{"link": "x", "text": "y"}\n'),
        ("there", ""),
    ):
        (folder / name).write_text(text, encoding="utf-8")


# What is asked, the words that name the fault with its value, and those that name the cure.
ERRORS = [
    ("check --store nowhere", "there is no store at", "name"),
    ("check --store empty", "data.mdb is empty", "Restore it from a backup"),
    ("check --store cut", "is cut short: 9,000 of", "Restore it from a backup"),
    ("check --store other", "is not a store of scrapy_simhash", "name another folder"),
    ("check --store ftp://host/", "ftp://host/", "redis"),
    ("check --store redis:/host", "store URL 'redis:/host'", "write redis://HOST"),
    (
        "check --store redis://localhost:1",
        "redis://localhost:1 cannot be reached",
        "check that it runs",
    ),
    ("-s SIMHASH_DISTANCE=9 check", "SIMHASH_DISTANCE = 9", "must be 0 to 7 bits"),
    ("-s SIMHASH_TABLES=5x check", "'5x' is not a table design", "take auto, 4, 10, 16, 20"),
    ("-s SIMHASH_REFETCH=-2 check", "SIMHASH_REFETCH = ", "must be 0 to 1,000"),
    ("-s SIMHASH_ACTION=delete check", "SIMHASH_ACTION = 'delete'", "must be 'drop'"),
    ("-s SIMHASH_NEVER_DROP=( check", "'(' is not a regular expression", "escape"),
    ("-s SIMHASH_IGNORE=p.. check", "'p..' is not a CSS selector", "name elements, such as"),
    ("check --rebuild --tables 20 --store store", "distance 7", "take a smaller SIMHASH_DISTANCE"),
    ("explain --store store word", "'word' is not a URL", "a text of several words"),
    (
        "log --log nowhere.jsonl",
        "there is no decision log nowhere.jsonl",
        "name another with --log",
    ),
    ("log --log junk.jsonl", "junk.jsonl", "is not a decision"),
    ("prune --store store", "name what to delete", "--days, --scope or --crawl"),
    ("prune --days -1 --store store", "--days -1.0", "must be 0 or more"),
    ("undo --store store", "name what to undo", "--original"),
    ("check --tables 10 --store store", "--tables 10", "needs --rebuild"),
    ("export fingerprints -o there --store store", "there exists already", "--overwrite"),
    ("export store -o other --store store", "other exists already", "name a new folder"),
    ("import there --store new", "there cannot be used", "a feed .jsonl"),
    ("import items.jsonl --store new", "The last item has: link, text", "rename its fields"),
    ("import store --store store", "store is the store itself", "name another one"),
    ("find-all -i numbers.txt", "numbers.txt, line 2: '-2'", "from 0 to 18446744073709551615"),
    ("find-all --blocks 3 -i numbers.txt", "3 blocks", "takes 4 to"),
    ("plan --documents 0", "0: must be a whole number", "such as 8000000"),
    ("exprot a", "invalid choice: 'exprot'", "'export'"),
]


@pytest.mark.parametrize(("asked", "fault", "cure"), ERRORS, ids=[asked for asked, *_ in ERRORS])
def test_an_error_names_fault_value_and_cure(
    run: Run, tmp_path: Path, asked: str, fault: str, cure: str
) -> None:
    make_files(tmp_path)
    done = run(*asked.split())
    assert done.exit_code in {1, 2}
    *_, told = done.err.splitlines()
    assert fault in told
    assert cure in told
    assert "Traceback" not in done.err
