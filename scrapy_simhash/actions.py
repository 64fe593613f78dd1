"""What is done with a near-duplicate."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from scrapy_simhash.config import ACTIONS, Config
from scrapy_simhash.links import MOSTLY_NEW
from scrapy_simhash.untrusted import quote

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Request

logger = logging.getLogger(__name__)

# What SIMHASH_FOLLOW_NEW_LINKS makes of an action: only the items are dropped; nothing is.
FOLLOW = "follow"
_FOLLOWING = {"drop": FOLLOW, "ignore-outlinks": "flag"}


class Actions:
    """Chooses actions by request, settings and verdict.

    Args:
        crawler: the running crawler.
        config: the settings.
        looking: a command looks at single pages; nothing is dropped.
    """

    def __init__(self, crawler: Crawler, config: Config, *, looking: bool) -> None:
        self._crawler = crawler
        self._config = config
        self._looking = looking

    def choose(self, request: Request, decision: dict[str, Any]) -> str:
        """Choose what is done with a near-duplicate.

        Args:
            request: of the page; its `meta["simhash_action"]` goes before the setting.
            decision: on it.

        Returns:
            `drop`, `ignore-outlinks`, `flag`, or `follow`.
        """
        action = self._ask(request)
        if self._has_new_links(decision) and self._config.follow_new_links:
            action = _FOLLOWING.get(action, action)
        if self._is_of_another_site(decision) and self._config.cross_site == "flag":
            action = "flag"
        return action

    def _ask(self, request: Request) -> str:
        if self._looking:
            return "flag"
        action = request.meta.get("simhash_action", self._config.action)
        if action in ACTIONS:
            return str(action)
        # The spider meant something, and we do not know what: nothing is lost by flagging.
        self._count("bad_action")
        logger.warning(
            "meta['simhash_action'] = %s of %s: must be %s; the page is flagged only",
            quote(action),
            quote(request.url),
            " or ".join(map(repr, ACTIONS)),
            extra={"spider": self._crawler.spider},
        )
        return "flag"

    def _has_new_links(self, decision: dict[str, Any]) -> bool:
        """Say whether a near-duplicate mostly leads to pages its original does not."""
        new_links = decision["new_links"]
        if new_links is None or new_links < MOSTLY_NEW:
            return False
        self._count("near_duplicate_with_new_links")
        return True

    def _is_of_another_site(self, decision: dict[str, Any]) -> bool:
        """Say whether a page is like one of another site.

        A mirror that was crawled first makes near-duplicates of all pages of the original.
        """
        from scrapy_simhash.scopes import on_one_site  # noqa: PLC0415 - loaded by now

        if on_one_site(decision["url"], decision["match_url"]):
            return False
        self._count("near_duplicate_cross_site")
        return True

    def _count(self, key: str) -> None:
        assert self._crawler.stats is not None  # noqa: S101 - there before any response
        self._crawler.stats.inc_value(f"simhash/{key}")
