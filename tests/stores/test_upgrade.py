"""A store of any released format opens in every later version, to be read and to be written."""

from pathlib import Path
from shutil import copyfile

import numpy as np
import pytest
from scrapy_simhash.stores.lmdb.documents import FORMAT, Documents, read_header, write_header

from scrapy_simhash.errors import StoreMismatchError, StoreUnusableError
from scrapy_simhash.pages import Recipe, make_recipe
from tests.formats.make import BULK_LOADED, FINGERPRINTS, SEED
from tests.helpers.documents import document, open_in_crawl, open_lmdb

FORMATS = sorted((Path(__file__).parents[1] / "formats").glob("*.mdb"))


@pytest.fixture(params=FORMATS, ids=[path.stem for path in FORMATS])
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of the store that an earlier version made."""
    (tmp_path / "store").mkdir(mode=0o700)
    copyfile(request.param, tmp_path / "store" / "data.mdb")
    return tmp_path / "store"


def test_there_is_a_file_of_this_format() -> None:
    assert f"format-{FORMAT}" in {path.stem for path in FORMATS}


def test_an_old_store_is_read(old: Path) -> None:
    before = (old / "data.mdb").read_bytes()
    with open_lmdb(old, readonly=True) as store:
        assert store.check() == []
        assert store.seed == SEED
        assert store.design == "4"
        expected = {*FINGERPRINTS, *BULK_LOADED} - {FINGERPRINTS[20]}  # withdrawn
        assert set(store.fingerprints().tolist()) >= expected
        stats = store.stats()
        assert (stats["documents"], stats["near_duplicates"], stats["crawls"]) == (41, 1, 2)
        (page,) = store.find_document("http://site.example/page 7")
        assert (page.state, page.title, page.text) == ("done", "Title 7", "Text of page 7")
        assert page.fingerprints == (FINGERPRINTS[7],)
        assert [match.distance for match in store.query(FINGERPRINTS[35] ^ 3)] == [2]
        assert len(store.recorded_pairs()) == 1
    assert (old / "data.mdb").read_bytes() == before


def test_an_old_store_is_written(old: Path) -> None:
    with open_in_crawl(old) as store:
        verdicts = store.find_and_add(
            [
                document("page 7", FINGERPRINTS[7], text_digest=b"changed"),
                document("twin of page 8", FINGERPRINTS[8] ^ 1),
                document("of a dead crawl", FINGERPRINTS[35], scope="site.example"),
                document("of a seed", BULK_LOADED[3] ^ 4),
                document("something else", 0),
            ]
        )
        assert [verdict.status for verdict in verdicts] == [
            *("revisit", "near_duplicate", "new", "near_duplicate", "new"),
        ]
        store.bulk_load(np.array([77], np.uint64))
        store.compact()
        store.rebuild()
        assert store.check() == []
    with open_lmdb(old) as store:
        assert store.check() == []


def test_the_default_recipe_of_0_1_0_is_refused_with_its_cure_and_goes_on_with_it(
    old: Path,
) -> None:
    with pytest.raises(StoreMismatchError, match="Set SIMHASH_EXTRACTOR = 'trafilatura-fast', or"):
        open_lmdb(old, recipe=Recipe())
    with open_lmdb(old, recipe=make_recipe("trafilatura-fast", "words-1")) as store:
        assert store.recipe.id == "58374584061d"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"archive": "base-2.archive"}, ("base-2.archive", "`rebuild` of")),
        ({"merging": "base-1.archive"}, ("base-1.archive", "`rebuild` of")),
        (
            {"design": "11,11,10,11,11,10:3"},
            ("11,11,10,11,11,10:3", "`rebuild --tables 4` of"),
        ),
        ({"design": "32,32:1"}, ("'32,32:1'", "`rebuild --tables 4` of")),
    ],
    ids=["archive", "first archive", "design", "block widths"],
)
@pytest.mark.parametrize("readonly", [True, False])
def test_tables_that_only_an_earlier_version_reads_are_refused_unharmed(
    tmp_path: Path, changes: dict[str, str], told: tuple[str, ...], readonly: bool
) -> None:
    """An archive beneath the tables, or block widths of one's own: the cure is a command of it."""

    def change(stored: Documents) -> None:
        header = read_header(stored)
        for name, value in changes.items():
            setattr(header, name, value)
        write_header(stored, header)

    with open_in_crawl(tmp_path) as store:
        store.find_and_add([document("page", 7)])
        store._commit(change)
    before = (tmp_path / "data.mdb").read_bytes()
    with pytest.raises(StoreUnusableError, match=r"only scrapy-simhash 0\.1\.0 reads") as raised:
        open_lmdb(tmp_path, readonly=readonly)
    assert all(each in str(raised.value) for each in told)
    assert (tmp_path / "data.mdb").read_bytes() == before
