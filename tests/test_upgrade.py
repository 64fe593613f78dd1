"""A store of any released format opens in every later version, to be read and to be written."""

from pathlib import Path
from shutil import copyfile

import numpy as np
import pytest

from scrapy_simhash.lmdb_header import FORMAT
from tests.documents import document, open_in_crawl, open_lmdb
from tests.formats.make import BULK_LOADED, FINGERPRINTS, SEED

FORMATS = sorted((Path(__file__).parent / "formats").glob("*.mdb"))


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
