"""`export fingerprints`: what is in the archive."""

from pathlib import Path

import pytest

from scrapy_simhash.batch.archive import Archive
from scrapy_simhash.pages.recipe import Recipe
from tests.helpers.commanding import Run
from tests.helpers.documents import document, open_lmdb
from tests.helpers.needing import slow_but

RECIPE = Recipe(2, 2, 2)
EXPORTS: list[tuple[tuple[str, ...], str]] = [((), "1:0"), (("--tables",), "8:5")]


@pytest.mark.parametrize(("options", "design"), slow_but(EXPORTS[:1], EXPORTS))
def test_export(run: Run, tmp_path: Path, options: tuple[str, ...], design: str) -> None:
    """What only stubs have is no simhash."""
    with open_lmdb(tmp_path / "a", distance=5, tables="8:5", recipe=RECIPE) as store:
        found = [number * 0x9E37_79B9_7F4A_7C15 % 2**64 for number in range(1, 400)]
        pages = [document(f"{each}", each, scope=f"{each}") for each in found]
        pages += [document("stub", 0, stub=True), document("known", found[0], stub=True, scope="s")]
        store.find_and_add(pages)
        seed = store.seed
    answers = run.answers("export", "fingerprints", "-o", "out", *options, "--store", "a")
    with Archive(tmp_path / "out") as exported:
        assert exported.read_all().tolist() == sorted(found)
        assert (exported.seed, exported.recipe, exported.design.name) == (seed, RECIPE, design)
        if options:
            assert (5, found[0]) in exported.probe(found[0] ^ 0x1F, 5)
    counted = {"design": design, "fingerprints": len(found), "left_out": 1}
    octets = (tmp_path / "out").stat().st_size
    assert answers == [{"archive": "out", **counted, "file_bytes": octets}]
