"""`export`, `import` of archives and stores: round trips, refusals."""

from pathlib import Path

import numpy as np
import pytest

from scrapy_simhash.batch.archive import Archive, write_archive
from scrapy_simhash.pages.recipe import Recipe
from scrapy_simhash.stores.opening import open_store
from tests.helpers.commanding import Run
from tests.helpers.documents import document, open_lmdb
from tests.helpers.needing import slow_but

DRAWN = np.unique(np.random.default_rng(5).integers(0, 2**64 - 1, 3_000, np.uint64))
RECIPE = Recipe(2, 2, 2)
SEED = 2**64 - 3


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


@pytest.mark.parametrize(
    ("place", "octets", "fault"),
    [
        (-1, b"", "cut short"),
        (2_000, b"\0", "is damaged at octets"),
        (0, b"1\n2\n", "cannot be used"),
    ],
)
def test_import_of_what_is_no_archive(
    run: Run, archive: Path, tmp_path: Path, place: int, octets: bytes, fault: str
) -> None:
    whole = archive.read_bytes()
    archive.write_bytes(whole[:place] + octets + whole[place + len(octets) :] * bool(octets))
    open_store(str(tmp_path / "there"), seed=SEED, recipe=RECIPE).close()
    for store in ("new", "there"):
        err = run.refused("import", archive, "--store", store)
        assert fault in err
        assert str(archive) in err
        assert len(err.splitlines()) == 1
    assert names(tmp_path) == ["archive", "there"]
    with open_lmdb(tmp_path / "there") as opened:
        assert opened.fingerprints().size == 0
