"""Where a store is, by its URL: a folder, or a Redis or Valkey server."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

DEFAULT_PREFIX = "simhash"
# What redis-py is told for each scheme, and whether that is a cluster.
_SCHEMES = {
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
# Without what has a meaning in the keys of a cluster, and in patterns of keys: after a colon, `a:t`
# would be taken for tables of `a`, which deletes old ones.
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
    """Where a server is.

    Attributes:
        url: as redis-py takes it.
        prefix: all keys begin with it.
        cluster: it is one node of a cluster.
        shown: for people, without password.
    """

    url: str
    prefix: str
    cluster: bool
    shown: str


def is_server(url: str) -> bool:
    """Say whether a store's URL names a server, not a folder."""
    return urlsplit(url).scheme in _SCHEMES and "://" in url


def check_store_url(url: str) -> None:
    """Accept the URL of any kind of store.

    Raises:
        ValueError: it names none.
    """
    if is_server(url):
        server_address(url)
    else:
        store_folder(url)


def show_url(url: str) -> str:
    """Write a store's URL for people: without password."""
    return _without_password(url) if is_server(url) else url


def store_folder(url: str) -> Path:
    """Find the folder of a store's URL.

    Raises:
        ValueError: the URL has another scheme, or names no folder.
    """
    parts = urlsplit(url)
    if parts.scheme == "lmdb" and parts.netloc:
        raise ValueError(f"store URL {url!r}: an LMDB store has no host; write lmdb:///folder")
    if parts.scheme != "lmdb" and "://" in url:
        if parts.scheme in _SCHEMES:
            raise ValueError(f"store {show_url(url)!r} is on a server; this needs one in a folder")
        raise ValueError(
            f"store URL {_without_password(url)!r}: unknown scheme {parts.scheme!r}; a folder, "
            f"lmdb:///folder, or a server: {', '.join(_SCHEMES)}"
        )
    if parts.scheme in _SCHEMES:
        raise ValueError(f"store URL {url!r}: write {parts.scheme}:// with two slashes")
    path = unquote(parts.path) if parts.scheme == "lmdb" else url
    if not path:
        raise ValueError(f"store URL {url!r} names no folder")
    return Path(path)


def server_address(url: str) -> ServerAddress:
    """Read the URL of a server.

    Raises:
        ValueError: an option that is not known, a prefix that cannot be one, or no host or port.
    """
    parts = urlsplit(url)
    shown = _without_password(url)
    scheme, cluster = _SCHEMES[parts.scheme]
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if unknown := sorted(options.keys() - _OPTIONS):
        raise ValueError(
            f"store URL {shown!r}: unknown option {unknown[0]!r}; {', '.join(sorted(_OPTIONS))}"
        )
    prefix = options.pop("prefix", DEFAULT_PREFIX)
    if not _PREFIX.fullmatch(prefix):
        raise ValueError(
            f"store URL {shown!r}: prefix {prefix!r} must be 1 to 64 letters, digits, '.', '_' "
            "or '-'"
        )
    # It would go on to number 0 otherwise.
    if scheme != "unix" and not re.fullmatch(r"/?|/[0-9]+", parts.path):
        raise ValueError(
            f"store URL {shown!r}: {parts.path!r} is no number of a database; write /0 or nothing"
        )
    if scheme != "unix":
        _check_port(parts, shown)
    if scheme == "unix" and not parts.path:
        raise ValueError(f"store URL {shown!r} names no socket; write unix:///path")
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
