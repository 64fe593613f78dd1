"""URL rules, parked requests and links come along when stores are merged, or one is copied."""

from pathlib import Path

from scrapy_simhash.config import Config
from scrapy_simhash.stores.keyvalues import ROW_TABLES
from scrapy_simhash.stores.opening import open_store
from scrapy_simhash.stores.store import Store
from scrapy_simhash.transfer.merging import merge_stores
from scrapy_simhash.urls.rules import RuleState
from tests.helpers.documents import CRAWL, begin_crawl
from tests.helpers.owing import take_owed
from tests.helpers.parking import (
    OTHER_RULE,
    RULE,
    SITE,
    add_target,
    make_parking,
    park_requests,
    pin,
    plant_rows,
)

A, B = 0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210


def merge(into: Path, *sources: Path) -> bool:
    """Merge stores as the command does; returns whether it copied one."""
    (answer,) = merge_stores(Config(store=str(into)), list(map(str, sources)), str(into))
    return bool(answer["copied"])


def states(store: Store) -> dict[str, RuleState]:
    return {record.rule.id: record.state for record in store.url_rules()}


def test_a_copy_has_all_rows(tmp_path: Path) -> None:
    with begin_crawl(str(tmp_path / "source")) as store:
        add_target(store, "a", A)
        plant_rows(store, 1)
        store.mark_done([1], CRAWL)
        kept = store.read_url_rows()
    assert kept.keys() == set(ROW_TABLES)
    assert all(kept.values())
    for _ in range(2):  # the second time everything is there
        assert merge(tmp_path / "copy", tmp_path / "source")
        with open_store(str(tmp_path / "copy"), distance=0) as store:
            assert store.read_url_rows() == kept
            assert store.check() == []


def test_a_merged_store_learns_the_rules_again_and_makes_the_requests(tmp_path: Path) -> None:
    with begin_crawl(str(tmp_path / "first"), seed=7) as store:
        add_target(store, "b", B)
        store.add_url_rules([OTHER_RULE])
        store.change_url_rule(OTHER_RULE.id, "ban")
    with begin_crawl(str(tmp_path / "second"), seed=7) as store:
        add_target(store, "a", A)
        store.add_url_rules([OTHER_RULE])
        plant_rows(store, 1)
        assert store.check() == []
    into = tmp_path / "into"
    with begin_crawl(str(into), seed=7) as store:
        add_target(store, "c", A ^ B)
    for crawl in ("crawl-2", "crawl-3"):
        assert not merge(into, tmp_path / "second", tmp_path / "first")
        with begin_crawl(str(into), crawl, distance=0) as store:
            assert states(store) == {
                RULE.id: RuleState.PINNED,
                OTHER_RULE.id: RuleState.BANNED,
            }
            taken = take_owed(store, crawl)
            assert {owed.url for _, owed in taken} == {f"{SITE}/a?sid=1", f"{SITE}/a?sid=2"}
            assert store.check() == []


def test_what_the_target_decided_stays(tmp_path: Path) -> None:
    with begin_crawl(str(tmp_path / "source"), seed=7) as store:
        pin(store, RULE)
    with begin_crawl(str(tmp_path / "into"), seed=7) as store:
        add_target(store, "a", A)
        store.mark_done([1], CRAWL)
        store.add_url_rules([RULE])
        store.change_url_rule(RULE.id, "ban")
    merge(tmp_path / "into", tmp_path / "source")
    with open_store(str(tmp_path / "into"), distance=0) as store:
        assert states(store) == {RULE.id: RuleState.BANNED}
        assert [each.reason for each in park_requests(store, make_parking("a"))] == ["unproven"]
