"""Where a store is, by its URL."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit


def store_folder(url: str) -> Path:
    """Find the folder of a store's URL.

    Raises:
        ValueError: the URL has another scheme, or names no folder.
    """
    parts = urlsplit(url)
    if parts.scheme == "lmdb" and parts.netloc:
        raise ValueError(f"store URL {url!r}: an LMDB store has no host; write lmdb:///folder")
    if parts.scheme != "lmdb" and "://" in url:
        raise ValueError(
            f"store URL {url!r}: unknown scheme {parts.scheme!r}; a folder or lmdb:///folder"
        )
    path = unquote(parts.path) if parts.scheme == "lmdb" else url
    if not path:
        raise ValueError(f"store URL {url!r} names no folder")
    return Path(path)
