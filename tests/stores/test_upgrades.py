"""Stores of released versions: this version reads them, goes on with them, and judges by them."""

import lzma
from collections import Counter
from pathlib import Path

import pytest

from scrapy_simhash.stores.opening import open_store
from scrapy_simhash.urls.rules import RuleState
from tests.formats.make import BANNED, FORMATS, LOST, PAGES, PINNED, WALL, show
from tests.helpers.detecting import fetched, judge, running
from tests.helpers.owing import list_owed

RELEASED = sorted(FORMATS.glob("*.mdb.xz"))


@pytest.fixture(params=RELEASED, ids=lambda path: path.name.removesuffix(".mdb.xz"))
def released(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "data.mdb").write_bytes(lzma.decompress(request.param.read_bytes()))
    return tmp_path / "store"


def test_a_store_of_each_release_is_kept() -> None:
    assert [path.name for path in RELEASED] == ["0.2.0.mdb.xz"]


async def test_pages_are_judged_by_it(released: Path) -> None:
    async with running(released) as detector:
        told = [
            await judge(detector, fetched("page1", show(1))),
            await judge(detector, fetched("page2", show(1_002))),
            await judge(detector, fetched("other/page3", show(3, "Other"))),
            await judge(detector, fetched("new", show(1_000))),
            # What its original's items never came for is no original any more.
            await judge(detector, fetched("copy", show(LOST, "Copy"))),
        ]
        assert told == [
            *(["revisit unchanged"], ["revisit changed"], ["near_duplicate"], ["new"], ["new"]),
        ]
        wall = await detector.judge(fetched("weather/snow", show(WALL)))
        assert (wall.status, wall.sink) == ("near_duplicate", True)
        assert wall.match_url == "http://site.example/news/fire"


def test_what_it_owes_and_what_it_learned_is_read(released: Path) -> None:
    with open_store(str(released)) as store:
        assert store.check() == []
        assert store.stats()["documents"] > PAGES
        why = Counter(owed.why.value for owed in list_owed(store))
        assert why == {"lost": 1, "parked": 1, "link": 1}
        states = {each.rule: each.state for each in store.url_rules()}
        assert states == {PINNED: RuleState.PINNED, BANNED: RuleState.BANNED}
        store.rebuild()
        assert store.check() == []
