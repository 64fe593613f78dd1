"""Rows of the tables of URL rules: as a dict would keep them, on every kind of store."""

import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scrapy_simhash.errors import StoreError
from scrapy_simhash.stores import Store, open_store
from scrapy_simhash.stores.keyvalues import ROW_TABLES
from tests.helpers.documents import document, open_in_crawl

if TYPE_CHECKING:
    from scrapy_simhash.stores.documents import Documents

STORE_KINDS = ("lmdb", "memory", "redis", "cluster")
# All that a pattern of Redis gives a meaning to.
keys = st.binary(min_size=1, max_size=3) | st.sampled_from([b"*", b"a*b", b"?", b"[x]", b"\\"])
steps = st.lists(
    st.tuples(st.sampled_from(["put", "drop"]), st.sampled_from(["forms", "links"]), keys),
    max_size=12,
)


Tables: TypeAlias = dict[str, dict[bytes, bytes]]


def read(store: Store) -> Tables:
    return store.read(lambda stored: {t: dict(stored.scan_rows(t)) for t in ROW_TABLES})


def take_steps(
    before: Tables, group: list[tuple[str, str, bytes]], row: bytes, stored: "Documents"
) -> Tables:
    """Put and drop rows; a transaction sees its own writes."""
    own = {table: dict(rows) for table, rows in before.items()}
    for action, table, key in group:
        if action == "put":
            stored.put_row(table, key, row)
            own[table][key] = row
        else:
            stored.drop_row(table, key)
            own[table].pop(key, None)
        assert stored.get_row(table, key) == own[table].get(key)
        assert dict(stored.scan_rows(table)) == own[table]
        assert stored.count_rows(table) == len(own[table])
    return own


def drop_all(tables: Tables, stored: "Documents") -> None:
    for table, rows in tables.items():
        for key in rows:
            stored.drop_row(table, key)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(transactions=st.lists(steps, max_size=4), prefix=st.binary(max_size=1))
def test_rows_are_those_of_a_dict(
    store: Store, transactions: list[list[tuple[str, str, bytes]]], prefix: bytes
) -> None:
    expected = read(store)
    for number, group in enumerate(transactions):
        expected = store.write(partial(take_steps, expected, group, b"row %d" % number))
        assert read(store) == expected

    def scan(stored: "Documents") -> Tables:
        assert all(stored.count_rows(table) == len(expected[table]) for table in ROW_TABLES)
        return {table: dict(stored.scan_rows(table, prefix)) for table in ROW_TABLES}

    for table, rows in store.read(scan).items():
        assert rows == {k: row for k, row in expected[table].items() if k.startswith(prefix)}
    store.write(partial(drop_all, expected))


def test_many_rows_are_scanned_and_counted(store: Store) -> None:
    """More than a server hands out at once."""
    rows = {b"%08d" % number: b"row" * 20 for number in range(6_000)}

    def put_all(stored: "Documents") -> None:
        for key, row in rows.items():
            stored.put_row("links", key, row)

    store.write(put_all)
    assert store.read(lambda stored: dict(stored.scan_rows("links"))) == rows
    assert store.read(lambda stored: len(dict(stored.scan_rows("links", b"000001")))) == 100
    store.write(partial(drop_all, {"links": rows}))
    assert store.read(lambda stored: stored.count_rows("links")) == 0


def test_a_transaction_that_fails_writes_no_row(store: Store) -> None:
    def work(stored: "Documents") -> None:
        stored.put_row("links", b"key", b"row")
        raise StoreError("given up")

    for _ in range(2):
        with pytest.raises(StoreError, match="given up"):
            store.write(work)
        assert store.read(lambda stored: stored.get_row("links", b"key")) is None
        assert store.read(lambda stored: stored.count_rows("links")) == 0


def test_the_newest_records_come_first(store: Store) -> None:
    pages = [document(f"{number}", 0x9E37_79B9_7F4A_7C15 // number) for number in range(1, 8)]
    store.find_and_add(pages)
    store.end_crawl("crawl-1")
    assert store.delete([6]) == 1
    found = store.read(lambda stored: stored.list_newest(3))
    assert [(number, record.url[-1]) for number, record in found] == [(7, "7"), (5, "5"), (4, "4")]
    assert len(store.read(lambda stored: stored.list_newest(99))) == 6


def test_backup_and_compaction_keep_the_rows(tmp_path: Path) -> None:
    place = tmp_path / "store"
    with open_in_crawl(place) as store:
        store.find_and_add([document("a", 1)])
        store.write(lambda stored: stored.put_row("links", b"key", b"row"))
        store.backup(tmp_path / "copy", check=False)
        store.compact()
    for folder in (place, tmp_path / "copy"):
        with open_store(str(folder)) as opened:
            assert opened.read(lambda stored: stored.get_row("links", b"key")) == b"row"
    shutil.rmtree(tmp_path / "copy")
