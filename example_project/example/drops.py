"""Keeps what is dropped in an SQLite database, so that nothing is lost."""

import sqlite3
import zlib
from typing import Any, Self

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response

from scrapy_simhash.signals import near_duplicate_found

_TABLE = """
CREATE TABLE IF NOT EXISTS drops (
    url TEXT PRIMARY KEY,
    match_url TEXT,  -- the page it is a near-duplicate of
    distance INTEGER,  -- bits
    similarity REAL,  -- 0 to 1
    better_url INTEGER,  -- 1: url is the canonical address of both
    body BLOB  -- compressed by zlib
)
"""


class Drops:
    """Extension: a row for each dropped page in the database that `DROPS_DATABASE` names."""

    def __init__(self, path: str) -> None:
        # Each row is a transaction of its own: a crawl that is killed loses none.
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.execute(_TABLE)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Called by Scrapy."""
        path = crawler.settings.get("DROPS_DATABASE")
        if not path:
            raise NotConfigured
        extension = cls(path)
        crawler.signals.connect(extension.near_duplicate_found, near_duplicate_found)
        crawler.signals.connect(extension.spider_closed, signals.spider_closed)
        return extension

    def near_duplicate_found(self, response: Response, verdict: dict[str, Any]) -> None:
        """Keep a page whose items are about to be dropped; with other actions they pass."""
        if verdict["action"] not in {"drop", "follow"}:
            return
        names = ("url", "match_url", "distance", "similarity", "better_url")
        row = (*(verdict[name] for name in names), zlib.compress(response.body))
        self._database.execute("INSERT OR REPLACE INTO drops VALUES (?, ?, ?, ?, ?, ?)", row)

    def spider_closed(self) -> None:
        """Close the database."""
        self._database.close()
