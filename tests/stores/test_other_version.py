"""Rows that another version of this package wrote: nothing reads, changes or drops them."""

from functools import partial
from typing import Any

import msgspec
import pytest
import xxhash

from scrapy_simhash.judging.rows import OWED, Owed, Why
from scrapy_simhash.stores.owed import put
from scrapy_simhash.stores.rulebook import keep_learned
from scrapy_simhash.stores.store import Store
from scrapy_simhash.urls.rules import RuleState, UrlRuleRecord
from tests.helpers.documents import CRAWL
from tests.helpers.owing import list_owed, take_owed
from tests.helpers.parking import RULE

OWN = Owed("http://a.example/own", Why.LINK, "spider", "before", b"request", released=True)
FIELDS = msgspec.msgpack.decode(msgspec.msgpack.encode(OWN))
OTHERS = {
    "another reason": [FIELDS[0], "later", *FIELDS[2:]],
    "a field more": [*FIELDS, "new"],
    "another kind of field": [*FIELDS[:4], 7, *FIELDS[5:]],
    "too few fields": FIELDS[:2],
}


def write(store: Store, table: str, key: bytes, fields: list[Any]) -> bytes:
    """Write a row as another version does, with its checksum."""
    body = msgspec.msgpack.encode(fields)
    row = xxhash.xxh3_64_digest(key + body) + body
    store.write(lambda stored: stored.put_row(table, key, row))
    return row


def end(store: Store, table: str, key: bytes) -> bytes | None:
    """Read a row once the store was mended, and drop it, so that `check` finds nothing."""
    store.rebuild()
    row = store.read(lambda stored: stored.get_row(table, key))
    store.write(lambda stored: stored.drop_row(table, key))
    return row


@pytest.mark.parametrize("fields", OTHERS.values(), ids=OTHERS)
def test_requests_of_another_version_are_named_and_kept(store: Store, fields: list[Any]) -> None:
    """Those of this version are made all the same."""
    store.write(partial(put, rows=[OWN]))
    key = Why.LINK.letter + b"anything"
    row = write(store, OWED, key, fields)
    assert [owed.url for owed in list_owed(store)] == [OWN.url]
    assert [taken.owed.url for taken in take_owed(store)] == [OWN.url]
    assert store.owed.count_left(CRAWL, "spider") == {"link": 1}
    assert store.owed.release([key]) == 0
    (told,) = store.check()
    assert told.startswith(f"table owed: owed of another version at key {key.hex()}: ")
    assert end(store, OWED, key) == row


def test_a_rule_of_another_version_stays_as_a_person_left_it(store: Store) -> None:
    """It may be one that must never act; learning does not begin it anew."""
    banned = UrlRuleRecord(RULE, RuleState.BANNED)
    row = write(
        store, "rules", RULE.key, [*msgspec.msgpack.decode(msgspec.msgpack.encode(banned)), "new"]
    )
    fresh = UrlRuleRecord(RULE, same=12, directories=("/*",))
    assert store.url_rules() == store.add_url_rules([RULE]) == []
    with pytest.raises(ValueError, match="no URL rule has the id"):
        store.change_url_rule(RULE.id, "pin")
    learned = partial(keep_learned, learned=[fresh], known=[RULE], time=1.0)
    assert store.write(learned) == []
    assert store.list_acting_rules()[1] == []
    (told,) = store.check()
    assert "urlrulerecord of another version" in told
    assert end(store, "rules", RULE.key) == row


def test_a_lost_page_of_another_version_is_kept(store: Store) -> None:
    key = Why.LOST.letter + (7).to_bytes(8, "big")
    row = write(store, OWED, key, [*FIELDS, "new"])
    assert len(store.check()) == 1
    assert end(store, OWED, key) == row
