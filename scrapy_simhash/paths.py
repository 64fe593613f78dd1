"""Where files are that settings name: under Scrapy's data path, unless they say otherwise."""

from __future__ import annotations

from dataclasses import replace

from scrapy.utils.project import data_path

from scrapy_simhash.config import DEFAULT_LOG, LOG_IN_STORE, Config
from scrapy_simhash.store_urls import is_server


def place_store(config: Config) -> Config:
    """Put a relative folder of a store under Scrapy's data path."""
    if "://" in config.store:
        return config
    return replace(config, store=data_path(config.store))


def place_log(config: Config) -> Config:
    """Put the decision log of a store on a server where that of a folder would be."""
    if config.log != DEFAULT_LOG or not is_server(config.store):
        return config
    # A read-only crawl leaves nothing behind.
    path = None if config.readonly else data_path(f"{Config.store}/{LOG_IN_STORE}")
    return replace(config, log=path)
