"""The add-on: `ADDONS = {"scrapy_simhash.Addon": 500}` puts both middlewares in place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_simhash.downloadermiddlewares import SimhashDownloaderMiddleware
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
        """Add the middlewares where the user has not."""
        settings.setdefault_in_component_priority_dict(
            "DOWNLOADER_MIDDLEWARES", SimhashDownloaderMiddleware, DOWNLOADER_POSITION
        )
        settings.setdefault_in_component_priority_dict(
            "SPIDER_MIDDLEWARES", SimhashSpiderMiddleware, SPIDER_POSITION
        )
