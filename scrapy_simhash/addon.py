"""The add-on: `ADDONS = {"scrapy_simhash.Addon": 500}` puts all components in place."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from scrapy.extensions.logstats import LogStats
from scrapy.utils.misc import load_object

from scrapy_simhash.downloadermiddlewares import SimhashDownloaderMiddleware
from scrapy_simhash.logstats import SimhashLogStats
from scrapy_simhash.spidermiddlewares import SimhashSpiderMiddleware

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

# Above 543, where users put their own: the response is final here, redirected (600),
# decompressed (590), free of meta refreshes (580) and retried (550).
DOWNLOADER_POSITION = 545
# Right after HttpError (50), the built-in that drops responses the same way.
SPIDER_POSITION = 60


class Addon:
    """Enable the plugin; positions the user set, `None` included, stay."""

    def update_settings(self, settings: BaseSettings) -> None:
        """Add the middlewares where the user has not; extend Scrapy's periodic line."""
        settings.setdefault_in_component_priority_dict(
            "DOWNLOADER_MIDDLEWARES", SimhashDownloaderMiddleware, DOWNLOADER_POSITION
        )
        settings.setdefault_in_component_priority_dict(
            "SPIDER_MIDDLEWARES", SimhashSpiderMiddleware, SPIDER_POSITION
        )
        _extend_log_stats(settings)


def _extend_log_stats(settings: BaseSettings) -> None:
    """Put ours in the place of Scrapy's, unless the user switched that off or has another."""
    enabled = settings.get_component_priority_dict_with_base("EXTENSIONS")
    if LogStats in map(load_object, enabled):
        for name in ("EXTENSIONS", "EXTENSIONS_BASE"):
            with suppress(KeyError):  # it stands in one of them, or in both
                settings.replace_in_component_priority_dict(name, LogStats, SimhashLogStats)
