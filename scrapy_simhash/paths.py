"""Where files are that settings name: under Scrapy's data path, unless they say otherwise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from scrapy.exceptions import NotConfigured
from scrapy.utils.conf import closest_scrapy_cfg
from scrapy.utils.project import data_path

from scrapy_simhash.config import DEFAULT_LOG, LOG_IN_STORE, Config, SettingError
from scrapy_simhash.store_urls import is_server, store_folder


def place_store(config: Config) -> Config:
    """Put a relative folder of a store under Scrapy's data path (`.scrapy` in the project).

    Raises:
        SettingError: nobody knows the folder of the project, as under Scrapyd.
    """
    if "://" in config.store:
        return config
    return replace(config, store=_place("STORE", config.store))


def place_log(config: Config) -> Config:
    """Put the decision log where commands find it from every folder of the project.

    A relative path is below the project's folder; without a project, below the current one. The log
    of a store on a server is where that of a folder would be.

    Raises:
        SettingError: see `place_store`.
    """
    if config.log is None:
        return config
    if config.log != DEFAULT_LOG:
        return replace(config, log=str(Path(closest_scrapy_cfg()).parent / config.log))
    if not is_server(config.store):
        return config
    # A read-only crawl leaves nothing behind.
    return replace(config, log=None if config.readonly else str(find_default_log(config.store)))


def find_default_log(store: str) -> Path:
    """Say where the decision log of a store is, unless SIMHASH_LOG says something else.

    Raises:
        SettingError: see `place_store`.
        ValueError: the URL names no store.
    """
    if is_server(store):
        return Path(_place("LOG", f"{Config.store}/{LOG_IN_STORE}"))
    return store_folder(store) / LOG_IN_STORE


def _place(name: str, path: str) -> str:
    try:
        return data_path(path)
    except NotConfigured as error:
        # Left alone, Scrapy would crawl on without the plugin.
        raise SettingError(
            f"SIMHASH_{name} = {path!r}: is a path below the folder of the project, which "
            f"cannot be found here ({error}); must be an absolute path"
        ) from None
