"""Open a store by its URL, which names its kind and where it is."""

from __future__ import annotations

import re
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode

from scrapy_simhash.errors import StoreUnusableError

if TYPE_CHECKING:
    from scrapy_simhash.pages.facts import Recipe
    from scrapy_simhash.stores.keyvalues import Engine
    from scrapy_simhash.stores.store import Store

_REDIS = "scrapy_simhash.stores.redis:RedisEngine"
# By how their URLs begin, the engines of all kinds of stores beside folders. What has no place,
# behind `//`, ends with the process that made it.
KINDS = {
    "memory:": "scrapy_simhash.stores.lmdb:MemoryEngine",
    **dict.fromkeys(("redis://", "rediss://", "unix://"), _REDIS),
}
MEMORY = "memory:"
# Without characters that have a meaning in patterns. Without colons: `a:tables` would look like the
# tables of `a`, which deletes its old ones.
_PREFIX = re.compile(r"[\w.-]{1,64}", re.ASCII)
# What follows the scheme, up to the options.
_PLACE = re.compile(r"([^@/?#]*@)?(\[[0-9a-fA-F:.]+\]|[^@/?#:]*)(:0*[1-9][0-9]*)?(/[0-9]*)?")
_SOCKET = re.compile(r"([^@/?#]*@)?/[^@?#]+")
_LIKE_URL = re.compile(f"({'|'.join(each.rstrip(':/') for each in KINDS)})(:|//)", re.IGNORECASE)
_TLS_OPTIONS = ("ca_certs", "certfile", "keyfile", "cert_reqs", "check_hostname")
_OPTIONS = {"prefix", "db", *(f"ssl_{name}" for name in _TLS_OPTIONS)}


def open_store(  # noqa: PLR0913 - a store has so many sides
    url: str,
    distance: int | None = None,
    tables: str | int = "auto",
    recipe: Recipe | None = None,
    readonly: bool = False,
    rule: str | None = None,
    *,
    seed: int | None = None,
) -> Store:
    """Open a store, or make a new one if there is none.

    Args:
        url: a folder, `memory:` (nothing is kept), or a server: `redis://host:6379/0`,
            `rediss://`, `unix:///socket`; `?prefix=` sets a prefix of the keys.
        distance: k, the bits within which documents are near-duplicates, 0 up to the largest
            distance for which the table design is complete (7 with four tables). None for 7, or
            3 in plain simhash, but no more than the store's design is complete for.
        tables: table design: `auto`, 4, 10, 16, 20 or blocks and distance as "m:k". `auto` keeps
            that of an existing store.
        recipe: how fingerprints are made; None for that of an existing store, or the default.
        readonly: change nothing; the store must exist.
        rule: `words`, see `judging.rule`, where documents without words match within 3 bits; or
            `plain`: the distance alone decides, as in the paper. None for what an existing store
            was made with, or words.
        seed: seed of the token hash; an existing store must have it. None draws one.

    Returns:
        The store, a context manager.

    Raises:
        StoreUnusableError: the store cannot be opened, or was made with another recipe, seed, rule
            or table design; nothing was changed.
        ValueError: an argument is out of range.
    """
    from scrapy_simhash.stores.store import Store  # noqa: PLC0415 - loads numpy

    folder = folder_of(url)
    kind = "scrapy_simhash.stores.lmdb:LmdbEngine" if folder else KINDS[_find_kind(url)]
    try:
        engine: Engine = resolve_name(kind)(folder or url, readonly=readonly)
    except ModuleNotFoundError as error:
        raise StoreUnusableError(
            f"store {show_url(url)} needs a client: pip install 'scrapy-simhash[{error.name}]'"
        ) from None
    return Store(engine, distance, tables, recipe, rule, seed=seed)


def open_as_it_is(url: str) -> Store:
    """Open a store to read it, whatever its recipe and design."""
    return open_store(url, distance=0, readonly=True)


def _find_kind(url: str) -> str:
    """Find how the URLs of a store's kind begin; "" of a folder."""
    start = next((each for each in KINDS if url.lower().startswith(each)), "")
    return start if start.endswith("//") or start == url.lower() else ""


def lasts(url: str) -> bool:
    """Return whether what a store has is there after the process that made it."""
    return not (kind := _find_kind(url)) or kind.endswith("//")


def folder_of(url: str) -> Path | None:
    """Return the folder of a store; None of one elsewhere; a ValueError for what is no store."""
    if kind := _find_kind(url):
        if KINDS[kind] == _REDIS:
            server_address(url)
        return None
    if "://" in url or not url or url.endswith(":") or _LIKE_URL.match(url):
        raise ValueError(
            f"store URL {show_url(url)!r} names no store; write a folder (./NAME, where it looks "
            f"like a URL), {MEMORY}, redis://HOST, rediss://HOST or unix:///SOCKET"
        )
    return Path(url)


def show_url(url: str) -> str:
    """Write a store's URL for display, without user and password."""
    if "://" not in url:
        return url
    # In a password that nobody escaped there may be any character.
    shown = re.sub("(?s)://.*@", "://***@", url)
    return re.sub(r"(?i)([?&](?:pass|user)\w*=)[^&]*", r"\1***", shown)


def server_address(url: str) -> tuple[str, str]:
    """Read the URL of a server: the one that redis-py takes, and the prefix of all keys.

    Raises a ValueError for an unknown option, a bad prefix or port.
    """
    scheme, _, rest = url.partition("://")
    place, _, query = rest.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    prefix, problem = options.pop("prefix", "simhash"), ""
    # redis-py would use number 0 of a path that is none.
    if "@" in query or not (_SOCKET if scheme.lower() == "unix" else _PLACE).fullmatch(place):
        problem = "write redis://USER:PASSWORD@HOST:PORT/NUMBER or unix:///SOCKET?db=NUMBER; in "
        problem += "user, password and options %2F for /, %3F for ?, %23 for # and %40 for @"
    elif unknown := sorted(options.keys() - _OPTIONS):
        problem = f"unknown option {unknown[0]!r}; take {', '.join(sorted(_OPTIONS))}"
    elif not _PREFIX.fullmatch(prefix):
        problem = f"prefix {prefix!r} must be 1 to 64 letters, digits, '.', '_' or '-'"
    if problem:
        raise ValueError(f"store URL {show_url(url)!r}: {problem}")
    return f"{scheme.lower()}://{place}{'?' * bool(options)}{urlencode(options)}", prefix
