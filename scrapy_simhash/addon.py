"""The add-on: `ADDONS = {"scrapy_simhash.Addon": 500}` enables all components."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from scrapy.extensions.logstats import LogStats
from scrapy.utils.misc import load_object

from scrapy_simhash.crawl.end import SimhashLogStats
from scrapy_simhash.downloadermiddlewares import SimhashDownloaderMiddleware
from scrapy_simhash.spidermiddlewares import SimhashSpiderMiddleware

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

# Above 543, the usual position of users' own. The response is final here: redirects (600),
# decompression (590), meta refreshes (580) and retries (550) are done.
DOWNLOADER_POSITION = 545
# Right after HttpError (50), the built-in middleware that drops responses in the same way.
SPIDER_POSITION = 60


class Addon:
    """Enables the plugin; keeps positions that the user set, including `None`."""

    def update_settings(self, settings: BaseSettings) -> None:
        """Add the middlewares unless the user did; extend Scrapy's periodic log line."""
        settings.setdefault_in_component_priority_dict(
            "DOWNLOADER_MIDDLEWARES", SimhashDownloaderMiddleware, DOWNLOADER_POSITION
        )
        settings.setdefault_in_component_priority_dict(
            "SPIDER_MIDDLEWARES", SimhashSpiderMiddleware, SPIDER_POSITION
        )
        _extend_log_stats(settings)


def _extend_log_stats(settings: BaseSettings) -> None:
    """Replace Scrapy's LogStats with ours, unless the user disabled or replaced it."""
    enabled = settings.get_component_priority_dict_with_base("EXTENSIONS")
    if LogStats in map(load_object, enabled):
        for name in ("EXTENSIONS", "EXTENSIONS_BASE"):
            with suppress(KeyError):  # it is in one of these settings, or in both
                settings.replace_in_component_priority_dict(name, LogStats, SimhashLogStats)
