"""Where files are that settings name: under Scrapy's data path, unless they say otherwise."""

from __future__ import annotations

from dataclasses import replace

from scrapy.exceptions import NotConfigured
from scrapy.utils.project import data_path

from scrapy_simhash.config import DEFAULT_LOG, LOG_IN_STORE, Config, SettingError
from scrapy_simhash.store_urls import is_server


def place_store(config: Config) -> Config:
    """Put a relative folder of a store under Scrapy's data path (`.scrapy` in the project).

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


def place_log(config: Config) -> Config:
    """Put the decision log of a store on a server where that of a folder would be."""
    if config.log != DEFAULT_LOG or not is_server(config.store):
        return config
    # A read-only crawl leaves nothing behind.
    path = None if config.readonly else data_path(f"{Config.store}/{LOG_IN_STORE}")
    return replace(config, log=path)
