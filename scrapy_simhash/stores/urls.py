"""Read the URL of a store, which names its kind and where it is."""

import re
from pathlib import Path
from typing import NamedTuple
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

DEFAULT_PREFIX = "simhash"
# The URL of a store in memory, of which nothing is kept.
MEMORY = "memory:"
# For each scheme, the scheme that redis-py takes, and whether it is a cluster.
SERVER_SCHEMES = {
    "redis": ("redis", False),
    "rediss": ("rediss", False),
    "valkey": ("redis", False),
    "valkeys": ("rediss", False),
    "unix": ("unix", False),
    "redis+cluster": ("redis", True),
    "rediss+cluster": ("rediss", True),
    "valkey+cluster": ("redis", True),
    "valkeys+cluster": ("rediss", True),
}
# By the schemes of their URLs, the kinds of stores; a path without a scheme is a folder of LMDB.
ENGINES = {
    "lmdb": "scrapy_simhash.stores.lmdb.engine:LmdbEngine",
    "memory": "scrapy_simhash.stores.memory:MemoryEngine",
    **dict.fromkeys(SERVER_SCHEMES, "scrapy_simhash.stores.redis.engine:RedisEngine"),
}
# Without characters that have a meaning in a cluster's keys or in patterns. Without colons: `a:t`
# would look like tables of `a`, which deletes its old ones.
_PREFIX = re.compile(r"[\w.-]{1,64}", re.ASCII)
_TLS_OPTIONS = {
    "ssl_ca_certs",
    "ssl_certfile",
    "ssl_keyfile",
    "ssl_cert_reqs",
    "ssl_check_hostname",
}
_OPTIONS = {"prefix", "db", *_TLS_OPTIONS}


class ServerAddress(NamedTuple):
    """The address of a server: `url` for redis-py, `shown` for display, without password."""

    url: str
    prefix: str
    cluster: bool
    shown: str


def scheme_of(url: str) -> str:
    """Return the scheme of a store's kind; `lmdb` for paths and what `store_folder` refuses."""
    if url == MEMORY:
        return "memory"
    scheme = urlsplit(url).scheme if "://" in url else "lmdb"
    return scheme if scheme in ENGINES.keys() - {"memory"} else "lmdb"


def is_server(url: str) -> bool:
    """Whether a store's URL names a server."""
    return scheme_of(url) in SERVER_SCHEMES


def folder_of(url: str) -> Path | None:
    """Return the folder where a store has its log and journal, or None if it is in no folder.

    Raises:
        ValueError: the URL names no store, or one of which nothing is kept.
    """
    return store_folder(url) if url == MEMORY or scheme_of(url) == "lmdb" else None


def check_store_url(url: str) -> None:
    """Raise a ValueError unless the URL names a store of any kind."""
    if is_server(url):
        server_address(url)
    elif scheme_of(url) == "lmdb":
        store_folder(url)


def show_url(url: str) -> str:
    """Write a store's URL for display, without password."""
    return _without_password(url) if is_server(url) else url


def store_folder(url: str) -> Path:
    """Return the folder of a store's URL; a ValueError if it names none."""
    parts = urlsplit(url)
    if url == MEMORY:
        raise ValueError(f"store URL {url!r}: nothing of it is kept; this needs one in a folder")
    if parts.scheme == "lmdb" and parts.netloc:
        raise ValueError(f"store URL {url!r}: an LMDB store has no host; write lmdb:///folder")
    if parts.scheme != "lmdb" and "://" in url:
        if parts.scheme in SERVER_SCHEMES:
            raise ValueError(f"store {show_url(url)!r} is on a server; this needs one in a folder")
        raise ValueError(
            f"store URL {_without_password(url)!r}: unknown scheme {parts.scheme!r}; name a "
            f"folder, lmdb:///folder, or a server with {', '.join(SERVER_SCHEMES)}"
        )
    scheme = parts.scheme or url.partition("//")[0] * ("//" in url)
    if scheme in SERVER_SCHEMES:
        raise ValueError(f"store URL {url!r}: write {scheme}://HOST, or ./{url} for a folder")
    path = unquote(parts.path) if parts.scheme == "lmdb" else url
    if not path:
        raise ValueError(f"store URL {url!r} names no folder")
    return Path(path)


def server_address(url: str) -> ServerAddress:
    """Read the URL of a server; a ValueError for an unknown option, a bad prefix or port."""
    parts = urlsplit(url)
    shown = _without_password(url)
    scheme, cluster = SERVER_SCHEMES[parts.scheme]
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if unknown := sorted(options.keys() - _OPTIONS):
        raise ValueError(
            f"store URL {shown!r}: unknown option {unknown[0]!r}; take "
            f"{', '.join(sorted(_OPTIONS))}"
        )
    prefix = options.pop("prefix", DEFAULT_PREFIX)
    if not _PREFIX.fullmatch(prefix):
        raise ValueError(
            f"store URL {shown!r}: prefix {prefix!r} must be 1 to 64 letters, digits, '.', '_' "
            "or '-'"
        )
    if scheme == "unix":
        if not parts.path:
            raise ValueError(f"store URL {shown!r} names no socket; write unix:///path")
    elif not re.fullmatch(r"/?|/[0-9]+", parts.path):  # redis-py would use number 0
        raise ValueError(
            f"store URL {shown!r}: {parts.path!r} does not number a database; write /0 or nothing"
        )
    else:
        _check_port(parts, shown)
    if cluster and (parts.path.strip("/0") or options.get("db", "0") != "0"):
        raise ValueError(f"store URL {shown!r}: a cluster has no numbered databases")
    query = f"?{urlencode(options)}" if options else ""
    target = f"{scheme}://{parts.netloc}{parts.path}{query}"
    return ServerAddress(target, prefix, cluster, shown)


def _check_port(parts: SplitResult, shown: str) -> None:
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port == 0:
        raise ValueError(f"store URL {shown!r}: its port must be a number from 1 to 65535")


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    if "@" not in parts.netloc:
        return url
    account, _, host = parts.netloc.rpartition("@")
    user = account.partition(":")[0]
    hidden = f"{user}:***@{host}" if ":" in account else f"{user}@{host}"
    return url.replace(parts.netloc, hidden, 1)
