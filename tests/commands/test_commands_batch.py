"""`find-all`, `batch-query`, `plan`, `export fingerprints`: what simhash-cpp prints, refusals."""

import io
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from scrapy_simhash.batch.archive import Archive, write_archive
from scrapy_simhash.pages.facts import Recipe
from tests.helpers.commanding import Done, Run
from tests.helpers.documents import document, open_lmdb
from tests.helpers.needing import slow_but

PAIRS = "[1, 3]\n[3, 7]\n"


def test_joins_of_archives_and_stores(run: Run, tmp_path: Path) -> None:
    """Three near ones, and another that the store dropped as a near-duplicate of the last."""
    values = np.array([7, 1, 3, 1 << 40], np.uint64)
    write_archive(tmp_path / "few", values)
    with open_lmdb(tmp_path / "s") as store:
        store.find_and_add([document(f"{each}", each, scope=f"{each}") for each in values.tolist()])
        (verdict,) = store.find_and_add([document("a", 3 << 40, scope=f"{1 << 40}")])
        assert verdict.status == "near_duplicate"
    (tmp_path / "queries").write_text("5\n9\n")
    (tmp_path / "numbers").write_text("7\n1\n3\n1099511627776\n1\n")
    for source in (("-i", "few"), ("-i", "numbers"), ("--store", "s")):
        assert run("find-all", "-d", "1", *source) == Done(0, PAIRS, "")
        assert run("find-all", "-b", "9", "-d", "1", *source) == Done(0, PAIRS, "")
        for queries in ("queries", "few"):
            done = run("batch-query", "--queries", queries, "-d", "0", *source)
            assert done.exit_code == (1 if queries == "queries" else 0)
        done = run("batch-query", "--queries", "queries", "-d", "1", *source)
        assert done == Done(0, "[5, 1, 1]\n[5, 7, 1]\n[9, 1, 1]\n", "")
    assert run("find-all", "--clusters", "-d", "1", "-i", "few") == Done(0, "[1, 3, 7]\n", "")
    both = f"[1, 3, 7]\n{[1 << 40, 3 << 40]}\n"
    assert run("find-all", "--clusters", "-d", "1", "--store", "s") == Done(0, both, "")
    done = run("find-all", "--clusters", "-d", "1", "--representative", "--store", "s")
    assert done.out == f"[3, 1, 7]\n{[1 << 40, 3 << 40]}\n"
    # Beyond what the tables of the store are complete for.
    assert len(run("find-all", "-d", "9", "--store", "s").out.splitlines()) == 6


def test_standard_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = SimpleNamespace(buffer=io.BytesIO(b"7\r\n1\r\n3"))
    monkeypatch.setattr("sys.stdin", stdin)
    assert run("find-all", "-d", "1", "--json") == Done(0, PAIRS, "")


LONG = "18446744073709551616"
NO_NUMBERS = {each: each for each in ("-1", "+1", "0x10", "1.5", "1 2", "three")}
NO_NUMBERS |= {"\u0663": r"\\xd9\\xa3", "\x00": r"\x00"}
BAD = {line: f"'{shown}' is not such a number" for line, shown in NO_NUMBERS.items()}
BAD |= {LONG: f"'{LONG}' has more than 64 bits", "9" * 5_000: f"'{'9' * 40}' has more than 64 bits"}
BAD |= dict.fromkeys(("", "\r"), "is empty")


@pytest.mark.parametrize("line", BAD)
@pytest.mark.parametrize("command", ["find-all", "batch-query"])
def test_bad_lines(run: Run, tmp_path: Path, command: str, line: str) -> None:
    (tmp_path / "in").write_bytes(f"1\n3\n{line}\n7\n".encode())
    more = ["--queries", "in"] if command == "batch-query" else []
    err = run.refused(command, *more, "-i", "in")
    assert f"in, line 3: {BAD[line]}" in err
    assert len(err) < 300


def test_the_example_of_the_paper(run: Run) -> None:
    out = run.text("plan", "--documents", 2**34, "--distance", 3)
    lines = [line.split() for line in out.splitlines()]
    assert lines[0] == ["documents:", "17,179,869,184"]
    named = {line[0]: line[1:7] for line in lines if len(line) == 11}
    assert named["20"] == ["20", "31", "33", "0", "20", "8"]
    assert named["16"] == ["16", "28", "28", "0", "16", "64"]
    assert named["10"] == ["10", "25", "26", "0", "10", "512"]
    assert named["4"] == ["4", "16", "16", "0", "4", "262,144"]
    optimum = [line[:2] for line in lines if len(line) == 3 and line[0].isdigit()]
    assert optimum[:4] == [["4", "16"], ["10", "25"], ["16", "28"], ["20", "31"]]
    for extreme in ("scan all", "probe every neighbour", "store every neighbour"):
        assert f"\n{extreme} " in out
    assert ["setting:", "SIMHASH_TABLES", "=", '"10"'] in lines


RECIPE = Recipe(2, 2, 2)
EXPORTS: list[tuple[tuple[str, ...], str]] = [((), "1:0"), (("--tables",), "8:5")]


@pytest.mark.parametrize(("options", "design"), slow_but(EXPORTS[:1], EXPORTS))
def test_export(run: Run, tmp_path: Path, options: tuple[str, ...], design: str) -> None:
    with open_lmdb(tmp_path / "a", distance=5, tables="8:5", recipe=RECIPE) as store:
        found = [number * 0x9E37_79B9_7F4A_7C15 % 2**64 for number in range(1, 400)]
        pages = [document(f"{each}", each, scope=f"{each}") for each in found]
        store.find_and_add(pages)
        seed = store.seed
    answers = run.answers("export", "fingerprints", "-o", "out", *options, "--store", "a")
    with Archive(tmp_path / "out") as exported:
        assert exported.read_all().tolist() == sorted(found)
        assert (exported.seed, exported.recipe, exported.design.name) == (seed, RECIPE, design)
        if options:
            assert (5, found[0]) in exported.probe(found[0] ^ 0x1F, 5)
    counted = {"design": design, "fingerprints": len(found)}
    octets = (tmp_path / "out").stat().st_size
    assert answers == [{"archive": "out", **counted, "file_bytes": octets}]
