"""Links that only dropped pages had: rows of the table `links`, by the digest of their address."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_simhash.errors import DamagedError
from scrapy_simhash.judging.rows import Link, pack_row, unpack_row
from scrapy_simhash.pages.links import digest_link
from scrapy_simhash.stores.records import octets

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from scrapy_simhash.stores.documents import Documents

# A hundred thousand take 20 to 30 MB.
MOST_LINKS = 100_000
_TABLE = "links"


def keep_links(stored: Documents, links: Collection[Link], gone: Collection[str]) -> int:
    """Forget the links that are gone, and keep others, unless kept before or the table is full."""
    # Returns how many did not fit.
    keys = {link.url: _key(link.url) for link in links}
    stored.prefetch_rows((_TABLE, key) for key in (*keys.values(), *map(_key, gone)))
    for url in gone:
        stored.drop_row(_TABLE, _key(url))
    left = MOST_LINKS - stored.count_rows(_TABLE)
    missed = 0
    for link in links:
        key = keys[link.url]
        if stored.get_row(_TABLE, key) is not None:
            continue
        if left > 0:
            stored.put_row(_TABLE, key, pack_row(key, link))
        missed += left <= 0
        left -= 1
    return missed


def list_links(stored: Documents, spider: str | None) -> Iterator[Link]:
    """List the links of a spider, or all; damaged rows are left out."""
    for key, packed in stored.scan_rows(_TABLE):
        try:
            link = unpack_row(Link, key, packed)
        except DamagedError:
            continue
        if spider in {None, link.spider}:
            yield link


def _key(url: str) -> bytes:
    return octets(digest_link(url))
