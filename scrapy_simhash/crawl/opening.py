"""What the judges of a crawl open, made of its settings."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy_simhash.config import DEFAULT_LOG, LOG_IN_STORE, Config
from scrapy_simhash.errors import SettingError
from scrapy_simhash.judge.messages import Open
from scrapy_simhash.judge.scopes import load_scope
from scrapy_simhash.pages.recipe import DEFAULT_EXTRACTOR, Recipe
from scrapy_simhash.stores.opening import MEMORY, check_store_url, folder_of

if TYPE_CHECKING:
    from collections.abc import Iterator


def make_open(config: Config) -> Open:
    """Make the first message of judges, without crawl and spider.

    Args:
        config: the settings; relative paths are below the current folder.

    Raises:
        SettingError: a setting names what there is not.
    """
    with _naming("SIMHASH_STORE"):
        check_store_url(config.store)
        if config.store == MEMORY and config.processes > 1:
            raise ValueError(
                f"{MEMORY!r} is for one process, but SIMHASH_PROCESSES = {config.processes}; name "
                "a folder, or set it to 1"
            )
        placed = _place(config)
    for name, value in asdict(placed).items():
        with _naming(f"SIMHASH_{name.upper()}"):
            str(value).encode()  # else it cannot be sent to a judge
    with _naming("SIMHASH_SCOPE"):
        load_scope(config.scope)
    if config.text_reader not in {"", DEFAULT_EXTRACTOR}:
        from scrapy_simhash.pages.main_text import load_text_reader  # noqa: PLC0415

        with _naming("SIMHASH_HAND_OVER_TEXT"):
            load_text_reader(config.text_reader)
    return Open(placed, Recipe())


def _place(config: Config) -> Config:
    """Name store and log so that they are found when the spider has changed its folder."""
    log, store = config.log, config.store
    folder = None if store == MEMORY else folder_of(store)
    if folder:
        store = str(folder := folder.absolute())
    if log == DEFAULT_LOG:
        # A read-only crawl leaves nothing in the store's folder.
        log = str(folder / LOG_IN_STORE) if folder and not config.readonly else None
    return replace(config, store=store, log=str(Path(log).absolute()) if log else None)


@contextmanager
def _naming(setting: str) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise SettingError(f"{setting}: {error}") from None
