"""Where the store is when its setting is a relative path."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from scrapy.exceptions import NotConfigured
from scrapy.utils.project import data_path

from scrapy_simhash.config import SettingError

if TYPE_CHECKING:
    from scrapy_simhash.config import Config


def resolve_store(config: Config) -> Config:
    """Put a relative store below Scrapy's data path (`.scrapy` in the project).

    Raises:
        SettingError: nobody knows the folder of the project, as under Scrapyd.
    """
    if "://" in config.store:
        return config
    try:
        return replace(config, store=data_path(config.store))
    except NotConfigured as error:
        # Left alone, Scrapy would crawl on without the plugin.
        raise SettingError(
            f"SIMHASH_STORE = {config.store!r}: is a path below the folder of the project, which "
            f"cannot be found here ({error}); must be an absolute path"
        ) from None
