"""A site whose addresses have parameters that matter and some that do not, and rules about it."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from scrapy_simhash.stores.rulebook import put_rule
from scrapy_simhash.stores.store import Store
from scrapy_simhash.urls.rules import UrlRuleRecord, parse_rule
from tests.helpers.detecting import fetched, judge, running
from tests.helpers.pages import make_page, page
from tests.helpers.parking import read_rule

SITE = "http://site.example"
SID, PAGE, LANG = (f"site.example drop-parameter {name}" for name in ("sid", "page", "lang"))
# Where they lead, and the text that they show. `/copy` repeats a page that `LANG` would skip.
ADDRESSES = {
    "/a?sid=1": 1,
    "/a?sid=2": 1,
    "/b?sid=1": 2,
    "/b?sid=3": 2,
    "/list?page=1": 3,
    "/list?page=2": 4,
    "/list?page=3": 5,
    "/c?lang=de": 6,
    "/c?lang=fr": 7,
    "/copy": 7,
}


async def crawl_addresses(
    store: Path, pages: Mapping[str, int | str] = MappingProxyType(ADDRESSES), **fields: Any
) -> None:
    """Fill a store with pages: their addresses, and the seed of their text or a short one."""
    async with running(store, url_rules="off", **fields) as detector:
        for name, text in pages.items():
            html = page(text) if isinstance(text, int) else make_page(text.split())
            await judge(detector, fetched(name[1:], html))


def add_rule(store: Store, text: str, action: str = "", **votes: Any) -> UrlRuleRecord:
    """Add a rule with votes, in the state that a person gives it."""
    rule = parse_rule(text)
    store.add_url_rules([rule])
    if action:
        store.change_url_rule(rule.id, action)  # type: ignore[arg-type]
    record = read_rule(store, rule)
    for name, value in votes.items():
        setattr(record, name, value)
    store.write(lambda stored: put_rule(stored, record))
    return record
