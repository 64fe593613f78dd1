"""What is asked wrongly is refused with the fault, its value and the cure, and changes nothing."""

import shlex
from pathlib import Path

import lmdb
import pytest

from tests.helpers.commanding import Run
from tests.helpers.crawling import read_files
from tests.helpers.documents import document, open_lmdb

# `s` is a store of one page, `in` has two numbers; `$` is the end of the line. What stands behind
# each command is in its last line: the fault with its value, and the cure where it is looked at.
REFUSED = """
 -> name a command
check --no-such-option -> unknown arguments: --no-such-option
check --nolog -> unknown arguments: --nolog$
log --status new extra -> unknown arguments: extra
log -s A=1 -> unknown arguments: -s A=1
-s A=1 -s SIMHASH_REFETCH=-3 export store -o o --store s -> SIMHASH_REFETCH =
-s A check -> Invalid -s value, use -s NAME=VALUE
-s SIMHASH_DISTNCE=3 check --store s -> no such setting; did you mean SIMHASH_DISTANCE?$
check --store in -> no store at in, which is a file; name the folder
log --status dropped -> invalid choice: 'dropped'
import nix -> : nix: No such file or directory; check that path
explain -> required: URL
explain a.html b.html -> or two of them; got 'a.html b.html'
explain nix --store s -> 'nix' is not a URL

prune --days 1 --store nowhere -> there is no store at
export store -o out --store nowhere -> there is no store at
find-all --store nowhere -> there is no store at
batch-query --queries in --store nowhere -> there is no store at

prune --days nan --store s -> --days nan: must be 0 or more
prune --days many --store s -> invalid float value: 'many'
check --rebuild --tables 8:3+4 --store s -> flips 4 bits; at most 3
export fingerprints -o nowhere/out --store s -> nowhere
export store --store s -> required: -o/--output

find-all --distance -1 -i in -> distance -1: must be 0 to 63 bits
find-all -i nowhere -> nowhere
find-all -b x -> 'x'
batch-query --queries in --store s -i in -> not allowed with argument
batch-query --queries in --distance 64 -i in -> distance 64

batch-query --queries - -> cannot both be standard input

plan -> --documents
plan --documents 1e20 -> --documents 1e+20: must be 1 to 2**64
plan --documents lots -> argument --documents: invalid float value: 'lots'
plan --documents 1e6 --distance -1 -> --distance -1: must be 0 or more bits
plan --documents 1e6 --distance 32 -> distance 32: no design of up to 255 tables

check --store nowhere -> there is no store at -> name
check --store empty -> data.mdb is empty -> Restore it from a backup
check --store cut -> is cut short: 9,000 of -> Restore it from a backup
check --store other -> is not a store of scrapy_simhash -> name another folder
check --store ftp://host/ -> ftp://host/ -> redis
check --store redis:/host -> store URL 'redis:/host' -> redis://HOST
check --store redis://localhost:1 -> redis://localhost:1 cannot be reached -> check that it runs
-s SIMHASH_DISTANCE=9 check -> SIMHASH_DISTANCE = 9 -> must be 0 to 7 bits
-s SIMHASH_TABLES=5x check -> '5x' is not a table design -> take auto, 4, 10, 16, 20
-s SIMHASH_REFETCH=-2 check -> SIMHASH_REFETCH =  -> must be 0 to 1,000
-s SIMHASH_IGNORE=p.. check -> 'p..' is not a CSS selector -> name elements, such as
-s SIMHASH_NEVER_DROP=( check -> '(' is not a regular expression -> escape
check --rebuild --tables 20 --store s -> distance 7 -> SIMHASH_DISTANCE and SIMHASH_TABLES
explain --store s word -> 'word' is not a URL -> a text of several words
log --log nowhere.jsonl -> there is no decision log nowhere.jsonl -> name another with --log
log --log junk.jsonl -> junk.jsonl -> is not a decision
prune --store s -> name what to delete -> --days or --crawl
prune --days -1 --store s -> --days -1.0 -> must be 0 or more
undo --store s -> name what to undo -> --original
check --tables 10 --store s -> --tables 10 -> needs --rebuild
export fingerprints -o there --store s -> there exists already -> --overwrite
export store -o other --store s -> other exists already -> name a new folder
import there --store new -> there cannot be used; name a store -> a feed (.jsonl
import s --store s -> s is the store itself -> name another one
find-all -i numbers.txt -> numbers.txt, line 2: '-2' -> from 0 to 18446744073709551615
find-all --blocks 3 -i numbers.txt -> 3 blocks -> takes 4 to
plan --documents 0 -> --documents 0: must be 1 to 2**64, such as 8e6
exprot a -> invalid choice: 'exprot' -> 'export'
"""


def make_files(folder: Path) -> None:
    """Make what the commands are about."""
    for name in ("cut", "other", "empty"):
        (folder / name).mkdir()
    with open_lmdb(folder / "s") as store:
        store.find_and_add([document("a", 1)])
    (folder / "empty" / "data.mdb").touch()
    (folder / "cut" / "data.mdb").write_bytes((folder / "s" / "data.mdb").read_bytes()[:9_000])
    with lmdb.open(str(folder / "other"), lib_version=0) as env, env.begin(write=True) as row:
        row.put(b"somebody", b"else")
    texts = {"numbers.txt": "1\n-2\n", "there": "", "in": "1\n2\n"}
    for name, text in (texts | {"junk.jsonl": '{"url": "http://a.example/"}\n'}).items():
        (folder / name).write_text(text, encoding="utf-8")


@pytest.mark.parametrize("row", [row for row in REFUSED.splitlines() if row])
def test_what_is_asked_wrongly_is_refused(run: Run, tmp_path: Path, row: str) -> None:
    make_files(tmp_path)
    before = read_files(tmp_path)
    asked, *facts = row.split(" -> ")
    done = run(*shlex.split(asked))
    *usage, last = done.err.splitlines()
    assert done.exit_code == 2
    assert all(fact in f"{last}$" for fact in facts)
    assert not usage or usage[0].lower().startswith("usage")
    assert read_files(tmp_path) == before


@pytest.mark.parametrize("command", ["export fingerprints", "urls"])
def test_a_file_that_is_there_stays_unless_it_may_be_replaced(
    run: Run, tmp_path: Path, command: str
) -> None:
    with open_lmdb(tmp_path / "s") as opened:
        opened.find_and_add([document("a", 1)])
    path, words = tmp_path / "out", [*command.split(), "-o", "out", "--store", "s"]
    path.write_text("before")
    done = run(*words)
    assert (done.exit_code, done.out, path.read_text()) == (2, "", "before")
    assert "exists already; name another file, or overwrite it (--overwrite)" in done.err
    assert run(*words, "--overwrite").exit_code == 0
    assert path.read_bytes() != b"before"
    private = command == "urls"  # an archive has no addresses
    assert (path.stat().st_mode & 0o777 == 0o600) is private
