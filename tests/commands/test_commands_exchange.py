"""`export`, `import`, joins over archives and stores: round trips, refusals."""

import json
from pathlib import Path

import numpy as np
import pytest

from scrapy_simhash.batch.archive import Archive, write_archive
from scrapy_simhash.pages.recipe import Recipe
from scrapy_simhash.stores.opening import open_store
from tests.helpers.commanding import Done, Run
from tests.helpers.documents import document, open_lmdb
from tests.helpers.needing import slow_but

DRAWN = np.unique(np.random.default_rng(5).integers(0, 2**64 - 1, 3_000, np.uint64))
RECIPE = Recipe("html2txt", "words-2", 2, 2)
SEED = 2**64 - 3
PAIRS = "[1, 3]\n[3, 7]\n"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "archive"
    write_archive(path, DRAWN, seed=SEED, recipe=RECIPE)
    return path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


EXPORTS: list[tuple[tuple[str, ...], str]] = [((), "1:0"), (("--tables",), "8:5")]


@pytest.mark.parametrize(("options", "design"), slow_but(EXPORTS[:1], EXPORTS))
def test_export_and_import(run: Run, tmp_path: Path, options: tuple[str, ...], design: str) -> None:
    with open_lmdb(tmp_path / "a", distance=5, tables="8:5", recipe=RECIPE) as store:
        store.bulk_load(DRAWN)
        seed = store.seed
    answers = run.answers("export", "fingerprints", "-o", "out", *options, "--store", "a")
    with Archive(tmp_path / "out") as exported:
        assert (exported.read_all() == DRAWN).all()
        assert (exported.seed, exported.recipe, exported.design.name) == (seed, RECIPE, design)
        if options:
            assert (5, int(DRAWN[0])) in exported.probe(int(DRAWN[0]) ^ 0x1F, 5)
    assert answers == [
        {
            "archive": "out",
            "design": design,
            "fingerprints": DRAWN.size,
            "left_out": 0,
            "file_bytes": (tmp_path / "out").stat().st_size,
        }
    ]
    answers = run.answers("import", "out", "--store", "b")
    counted = {"design": "4", "fingerprints": DRAWN.size, "new": DRAWN.size}
    assert answers == [{"source": "out", "kind": "archive", "store": "b", **counted}]
    with open_lmdb(tmp_path / "b") as store:
        assert (store.seed, store.recipe) == (seed, RECIPE)
        assert (store.fingerprints() == DRAWN).all()
        assert store.check() == []
    done = run("import", "out", "--store", "a")
    assert f"\nfingerprints: {DRAWN.size:,}\nnew: 0\n" in done.out
    assert names(tmp_path) == ["a", "b", "out"]


def test_import_beside_documents(run: Run, archive: Path, tmp_path: Path) -> None:
    run("import", archive, "--store", "s")
    with open_lmdb(tmp_path / "s") as store:
        pages = [
            document("a", 5),
            document("b", int(DRAWN[0]) ^ 1),
            document("stub", 1 << 60, stub=True),
            document("stub of a known one", int(DRAWN[1]), stub=True),
        ]
        found = store.find_and_add(pages)
        assert [verdict.status for verdict in found] == ["new", "near_duplicate", "new", "new"]
    assert "left out: 1\n" in run("export", "fingerprints", "-o", "both", "--store", "s").out
    with Archive(tmp_path / "both") as exported:
        assert set(exported.read_all().tolist()) == {5, *DRAWN.tolist()}
    write_archive(archive, np.array([5, 6], np.uint64), seed=SEED, recipe=RECIPE, overwrite=True)
    assert run.answers("import", archive, "--store", "s")[0]["new"] == 1


def test_export_replaces_nothing_unasked(run: Run, archive: Path, tmp_path: Path) -> None:
    open_lmdb(tmp_path / "a").close()
    before = archive.read_bytes()
    assert f"{archive} exists already; name another file, or overwrite it" in run.refused(
        "export", "fingerprints", "-o", archive, "--store", "a"
    )
    assert archive.read_bytes() == before
    assert (
        run("export", "fingerprints", "-o", archive, "--overwrite", "--store", "a").exit_code == 0
    )
    with Archive(archive) as exported:
        assert exported.count == 0
    assert names(tmp_path) == ["a", "archive"]


def spoil(path: Path, how: str) -> None:
    octets = bytearray(path.read_bytes())
    if how == "cut":
        del octets[-1:]
    elif how == "header":
        octets[20] ^= 1
    elif how == "bit":
        octets[len(octets) // 2] ^= 0x10
    else:
        octets[:] = how.encode()
    path.write_bytes(octets)


SPOILT = {"cut": "cut short", "header": "cannot be used", "bit": "is damaged at octets"}


@pytest.mark.parametrize("how", [*SPOILT, "1\n2\n", ""])
def test_import_of_what_is_no_archive(run: Run, archive: Path, tmp_path: Path, how: str) -> None:
    spoil(archive, how)
    for store in ("new", "there"):
        if store == "there":
            open_store(str(tmp_path / "there"), seed=SEED, recipe=RECIPE).close()
        err = run.refused("import", archive, "--store", store)
        assert SPOILT.get(how, "cannot be used") in err
        assert str(archive) in err
        assert len(err.splitlines()) == 1
    assert names(tmp_path) == ["archive", "there"]
    with open_lmdb(tmp_path / "there") as opened:
        assert opened.fingerprints().size == 0


def test_joins_of_archives_and_stores(run: Run, tmp_path: Path) -> None:
    """Three near ones, and another that the store dropped as a near-duplicate of the last."""
    values = np.array([7, 1, 3, 1 << 40], np.uint64)
    write_archive(tmp_path / "few", values)
    with open_lmdb(tmp_path / "s") as store:
        store.bulk_load(values)
        (verdict,) = store.find_and_add([document("a", 3 << 40)])
        assert verdict.status == "near_duplicate"
    (tmp_path / "queries").write_text("5\n9\n")
    for source in (("-i", "few"), ("--store", "s")):
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
    pairs = [
        json.loads(line)
        for line in run("find-all", "-d", "9", "--store", "s").out.split("\n")
        if line
    ]
    assert len(pairs) == 6
