"""All that the plugin uses of what Scrapy calls private: names that begin with an underscore.

Any release may change these; `tests/crawl/test_internals.py` has a test for each. An engine,
scheduler or duplicate filter of another kind need not have them (`tests/crawl/test_foreign.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from scrapy.crawler import Crawler

# The names of a spider's own callbacks: of requests that name none, and of a CrawlSpider's rules.
DEFAULT_CALLBACK, RULE_CALLBACK, RULE_ERRBACK = "_parse", "_callback", "_errback"
# The key in the meta of a request for whose proxy there are credentials.
PROXY_KEY = "_auth_proxy"
# The coroutine in which a process of Scrapy's runs a crawl.
CRAWL_OF_PROCESS = "AsyncCrawlerRunner._crawl_and_track"


def is_closing(crawler: Crawler) -> bool:
    """Whether the spider is about to end: requests that are made now are lost."""
    slot = getattr(crawler.engine, "_slot", None)
    # An engine of another kind tells it late; what is lost then is owed to the next crawl.
    return crawler.engine.spider is None if slot is None else slot.closing is not None


def wake(crawler: Crawler) -> None:
    """Have the engine look for requests now, and not only when five seconds are over."""
    slot = getattr(crawler.engine, "_slot", None)
    if slot is not None:
        slot.nextcall.schedule()


def list_asked(crawler: Crawler) -> AbstractSet[bytes]:
    """List the fingerprints that Scrapy's duplicate filter has; none of another filter."""
    # No method asks it without adding to it. It knows addresses in any spelling, and those that no
    # callback asked for.
    own = getattr(getattr(crawler.engine, "scheduler", None), "df", None)
    found = getattr(own, "_fingerprints", None)
    return found if isinstance(found, set) else set()
