"""Open a store by its URL, which names its kind and where it is."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode

from scrapy_simhash.errors import StoreUnusableError

if TYPE_CHECKING:
    from scrapy_simhash.pages.facts import Recipe
    from scrapy_simhash.stores.keyvalues import Engine
    from scrapy_simhash.stores.store import Store

# The URL of a store in memory, of which nothing is kept.
MEMORY = "memory:"
SERVER_SCHEMES = ("redis", "rediss", "unix")
# By the schemes of their URLs, the kinds of stores; what has none is a folder of LMDB.
ENGINES = {
    "": "scrapy_simhash.stores.lmdb:LmdbEngine",
    "memory": "scrapy_simhash.stores.lmdb:MemoryEngine",
    **dict.fromkeys(SERVER_SCHEMES, "scrapy_simhash.stores.redis:RedisEngine"),
}
# Without characters that have a meaning in patterns. Without colons: `a:tables` would look like the
# tables of `a`, which deletes its old ones.
_PREFIX = re.compile(r"[\w.-]{1,64}", re.ASCII)
# What follows the scheme, up to the options.
_SERVER = re.compile(r"([^@/?#]*@)?(\[[0-9a-fA-F:.]+\]|[^@/?#:]*)(:0*[1-9][0-9]*)?(/[0-9]*)?")
_SOCKET = re.compile(r"([^@/?#]*@)?/[^@?#]+")
_LIKE_SERVER = re.compile(f"({'|'.join(SERVER_SCHEMES)})(:|//)", re.IGNORECASE)
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
    scheme = "" if folder else url.partition(":")[0].lower()
    if scheme in SERVER_SCHEMES and find_spec("redis") is None:
        raise StoreUnusableError(
            f"store {show_url(url)} needs a client: pip install 'scrapy-simhash[redis]'"
        )
    engine: Engine = resolve_name(ENGINES[scheme])(folder or url, readonly=readonly)
    return Store(engine, distance, tables, recipe, rule, seed=seed)


def open_as_it_is(url: str) -> Store:
    """Open a store to read it, whatever its recipe and design."""
    return open_store(url, distance=0, readonly=True)


def folder_of(url: str) -> Path | None:
    """Return the folder of a store; None of one elsewhere; a ValueError for what is no store."""
    scheme, is_url, _ = url.partition("://")
    if url == MEMORY:
        return None
    if is_url and scheme.lower() in ENGINES:
        if scheme.lower() in SERVER_SCHEMES:
            server_address(url)
        return None
    if is_url or not url or url.endswith(":") or _LIKE_SERVER.match(url):
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
    if "@" in query or not (_SOCKET if scheme.lower() == "unix" else _SERVER).fullmatch(place):
        problem = "write redis://USER:PASSWORD@HOST:PORT/NUMBER or unix:///SOCKET?db=NUMBER; in "
        problem += "user, password and options %2F for /, %3F for ?, %23 for # and %40 for @"
    elif unknown := sorted(options.keys() - _OPTIONS):
        problem = f"unknown option {unknown[0]!r}; take {', '.join(sorted(_OPTIONS))}"
    elif not _PREFIX.fullmatch(prefix):
        problem = f"prefix {prefix!r} must be 1 to 64 letters, digits, '.', '_' or '-'"
    if problem:
        raise ValueError(f"store URL {show_url(url)!r}: {problem}")
    return f"{scheme.lower()}://{place}{'?' * bool(options)}{urlencode(options)}", prefix
