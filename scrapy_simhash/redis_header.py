"""The header of a Redis store: what it was made with, and whether we may use it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_simhash.records import Header, pack, unpack
from scrapy_simhash.store_header import new_header
from scrapy_simhash.stores import StoreError, StoreUnusableError

if TYPE_CHECKING:
    from scrapy_simhash.recipe import Recipe
    from scrapy_simhash.redis_keys import Keys
    from scrapy_simhash.redis_server import Server

# Raised when a later version writes what an earlier one would misread.
FORMAT = 1
_KEY = b"store"


def make_store(server: Server, keys: Keys, recipe: Recipe, design: str, seed: int | None) -> bool:
    """Make a store where there is none: its header; everything else comes with its content.

    Args:
        server: to make it on.
        keys: of the store.
        recipe: its fingerprints are made with.
        design: of its tables.
        seed: of the token hash, 0 to 2**64 - 1; None to draw one.

    Returns:
        Whether it was made here.

    Raises:
        StoreUnusableError: there is something else under these keys.
    """
    if server.call("EXISTS", keys.header, opening=True):
        return False
    # Not all keys of the server are looked at; what others put there is seen by one of these.
    ours = [keys.seq, keys.log, keys.next, keys.crawls, keys.waiting, keys.chunk(0)]
    if foreign := [key for key in ours if server.call("EXISTS", key, opening=True)]:
        raise StoreUnusableError(
            f"there is {foreign[0].decode()!r} on the server at {server.address.shown}, but no "
            "header of a store: it is another program's, or damaged. Name another prefix "
            "(?prefix=...) in SIMHASH_STORE"
        )
    header = new_header(FORMAT, recipe, design, seed, client="redis")
    return bool(server.call("SET", keys.header, pack_header(header), "NX", opening=True))


def pack_header(header: Header) -> bytes:
    """Write a header."""
    return pack(_KEY, header)


def unpack_header(packed: bytes | None, shown: str) -> Header:
    """Read a header.

    Args:
        packed: as it is stored; None where there is none.
        shown: where the store is, for people.

    Raises:
        StoreUnusableError: there is none, or that of something else, or of another version.
    """
    if packed is None:
        raise StoreUnusableError(f"there is no store at {shown}; name an existing one")
    try:
        header = unpack(Header, _KEY, packed)
    except StoreError as error:
        raise StoreUnusableError(
            f"{error}: what is at {shown} is another program's, damaged, or of a newer version. "
            "Name another prefix (?prefix=...) in SIMHASH_STORE, restore the server's own backup, "
            "or open it with the newest scrapy-simhash"
        ) from error
    if header.format != FORMAT:
        raise StoreUnusableError(
            f"the store at {shown} has format {header.format}, this version reads {FORMAT}; it was "
            f"made with scrapy-simhash {header.libraries.get('scrapy-simhash')}"
        )
    return header
