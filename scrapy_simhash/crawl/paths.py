"""Find the files that settings name; relative ones are under Scrapy's data path."""

from dataclasses import replace
from pathlib import Path

from scrapy.exceptions import NotConfigured
from scrapy.utils.conf import closest_scrapy_cfg
from scrapy.utils.project import data_path

from scrapy_simhash.config import DEFAULT_LOG, LOG_IN_STORE, Config
from scrapy_simhash.detector.log import find_log_in
from scrapy_simhash.errors import SettingError
from scrapy_simhash.stores.urls import MEMORY, is_server


def place_store(config: Config) -> Config:
    """Place a store's relative folder under Scrapy's data path (`.scrapy` in the project)."""
    if "://" in config.store or config.store == MEMORY:
        return config
    return replace(config, store=_place("STORE", config.store))


def place_log(config: Config) -> Config:
    """Place the decision log where commands find it from every folder of the project."""
    # A relative path is below the project's folder, or without a project below the current folder.
    # If the store is on a server, its log is in the default folder of stores.
    if config.log is None:
        return config
    if config.log != DEFAULT_LOG:
        return replace(config, log=str(Path(closest_scrapy_cfg()).parent / config.log))
    if config.store == MEMORY:
        return replace(config, log=None)
    if not is_server(config.store):
        return config
    # A read-only crawl writes no files.
    return replace(config, log=None if config.readonly else str(find_default_log(config.store)))


def find_default_log(store: str) -> Path:
    """Find the decision log of a store when SIMHASH_LOG has its default."""
    if is_server(store):
        return Path(_place("LOG", f"{Config.store}/{LOG_IN_STORE}"))
    return find_log_in(store)


def _place(name: str, path: str) -> str:
    try:
        return data_path(path)
    except NotConfigured as error:
        # Otherwise Scrapy would crawl without the plugin.
        raise SettingError(
            f"SIMHASH_{name} = {path!r}: is a path below the project's folder, which cannot be "
            f"found from here ({error}); must be an absolute path"
        ) from None
