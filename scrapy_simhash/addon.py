"""The add-on: `ADDONS = {"scrapy_simhash.Addon": 500}` enables all components."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_simhash.downloadermiddlewares import SimhashDownloaderMiddleware
from scrapy_simhash.spidermiddlewares import SimhashCallbackMiddleware, SimhashSpiderMiddleware

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

# Above 543, the usual position of users' own. The response is final here: redirects (600),
# decompression (590), meta refreshes (580) and retries (550) are done.
DOWNLOADER_POSITION = 545
# Right after HttpError (50), the built-in middleware that drops responses in the same way.
SPIDER_POSITION = 60
# Next to the spider: what another middleware handles is nowhere else to be seen.
CALLBACK_POSITION = 10_000


class Addon:
    """Enables the plugin; keeps positions that the user set, including `None`."""

    def update_settings(self, settings: BaseSettings) -> None:
        """Add the middlewares unless the user did."""
        settings.setdefault_in_component_priority_dict(
            "DOWNLOADER_MIDDLEWARES", SimhashDownloaderMiddleware, DOWNLOADER_POSITION
        )
        settings.setdefault_in_component_priority_dict(
            "SPIDER_MIDDLEWARES", SimhashSpiderMiddleware, SPIDER_POSITION
        )
        settings.setdefault_in_component_priority_dict(
            "SPIDER_MIDDLEWARES", SimhashCallbackMiddleware, CALLBACK_POSITION
        )
