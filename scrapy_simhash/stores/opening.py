"""Open a store by its URL."""

from __future__ import annotations

from importlib.util import find_spec
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from scrapy_simhash.errors import StoreUnusableError
from scrapy_simhash.stores.urls import ENGINES, is_server, scheme_of, show_url, store_folder

if TYPE_CHECKING:
    from scrapy_simhash.pages.recipe import Recipe
    from scrapy_simhash.stores.keyvalues import Engine
    from scrapy_simhash.stores.store import Store


def open_store(  # noqa: PLR0913 - a store has so many sides
    url: str,
    distance: int | None = 3,
    tables: str | int = "auto",
    recipe: Recipe | None = None,
    readonly: bool = False,
    confirm: float | None = None,
    *,
    seed: int | None = None,
) -> Store:
    """Open a store, or make a new one if there is none.

    Args:
        url: a folder, `lmdb:///folder`, `memory:` (nothing is kept), or a server:
            `redis://host:6379/0`, `rediss://`,
            `unix:///socket`, `redis+cluster://host:6379`; `?prefix=` sets a prefix of the keys.
        distance: k, the bits within which documents are near-duplicates, 0 up to the largest
            distance for which the table design is complete (7 with four tables). None for 7, or
            3 without `confirm`, but no more than the store's design is complete for.
        tables: table design: `auto`, 4, 10, 16, 20 or blocks and distance as "m:k". `auto` keeps
            that of an existing store.
        recipe: how fingerprints are made; None for that of an existing store, or the default.
        readonly: change nothing; the store must exist.
        confirm: similarity of the sketches that a match must reach, 0 to 1, see `judging`;
            None for plain simhash. Documents without a sketch match within 3 bits instead.
        seed: seed of the token hash; an existing store must have it. None draws one.

    Returns:
        The store, a context manager.

    Raises:
        StoreUnusableError: the store cannot be opened; nothing was changed.
        StoreMismatchError: the store was made with another recipe, seed or table design.
        ValueError: an argument is out of range.
    """
    from scrapy_simhash.stores.store import Store  # noqa: PLC0415 - loads numpy

    engine = find_engine(url, readonly=readonly)
    return Store(engine, distance, tables, recipe, confirm, seed=seed)


def find_engine(url: str, *, readonly: bool) -> Engine:
    """Find the engine of a store by its URL; it is not open yet."""
    if is_server(url) and find_spec("redis") is None:
        raise StoreUnusableError(
            f"store {show_url(url)} needs a client: pip install 'scrapy-simhash[redis]'"
        )
    scheme = scheme_of(url)
    where = store_folder(url) if scheme == "lmdb" else url
    engine: Engine = resolve_name(ENGINES[scheme])(where, readonly=readonly)
    return engine


def open_as_it_is(url: str) -> Store:
    """Open a store to read it, whatever its recipe and design."""
    return open_store(url, distance=0, readonly=True)


def shrink(url: str) -> tuple[int, int] | None:
    """Rewrite the file of a store in a folder, without its free pages.

    Returns:
        Bytes before and after, or None if any process has the store open.

    Raises:
        StoreUnusableError: there is no store, or it cannot be read.
        StoreUnavailableError: the disk is full or failed; the store is unchanged.
    """
    from scrapy_simhash.stores.lmdb.environment import shrink as shrink_folder  # noqa: PLC0415

    return shrink_folder(store_folder(url))
