"""Rows that a store keeps beside its documents: walls, requests that were not made, links.

Records of documents are packed in the same way::

    octets 0-7   XXH3-64 of key and body, which reveals a flipped bit or a swapped row
    octets 8-    MessagePack array, fields in the order of the class
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import msgspec
import xxhash

from scrapy_simhash.errors import DamagedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy_simhash.judging.interface import Documents


class Parked(msgspec.Struct, array_like=True, forbid_unknown_fields=False):
    """A request that was not made, because rules say that its page is known.

    Attributes:
        rule: id of the rule, 16 hex digits.
        url: of the request.
        spider, crawl: whose request it is.
        target: number of the document that the rules lead to.
        request: how to make it, see `crawl.refetch.pack_request`.
        time: seconds since 1970, UTC.
        body_bytes: estimated size of the page.
        others: ids of the other rules that it takes to get to the target: when one of them is
            retired, the request is made, too.
        taken: id of the crawl that makes the request after all, or "".
        identity: of the request, as of documents.
    """

    rule: str
    url: str
    spider: str
    crawl: str
    target: int
    request: bytes = b""
    time: float = 0.0
    body_bytes: int = 0
    others: tuple[str, ...] = ()
    taken: str = ""
    identity: bytes = b""


class Witness(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=False):
    """An address that led to a document, see `judging.sinks`.

    Attributes:
        url: as it was requested.
        host: lower case, with a port.
        form: what no rule explains away.
    """

    url: str
    host: str
    form: str


class Sink(msgspec.Struct, array_like=True, forbid_unknown_fields=False):
    """A document to which unlike addresses lead: a wall, or perhaps one.

    Attributes:
        witnesses: addresses, no two of them alike.
        since: when it was recognised as a sink of a host, seconds since 1970, UTC; None before.
    """

    witnesses: tuple[Witness, ...] = ()
    since: float | None = None


class Link(msgspec.Struct, array_like=True, forbid_unknown_fields=False):
    """A link that only dropped pages had.

    Attributes:
        url: where it leads.
        page: URL of a dropped page that has it.
        time: seconds since 1970, UTC.
        crawl: that found it.
        spider: name of the spider of that crawl.
        original: URL of the page that the dropped one repeats.
        callback: name of the callback that did not see the dropped page.
        depth: of the dropped page, as Scrapy counts it.
        request: how to make it, see `crawl.refetch.pack_request`, or b"".
    """

    url: str
    page: str = ""
    time: float = 0.0
    crawl: str = ""
    spider: str = ""
    original: str = ""
    callback: str = ""
    depth: int = 0
    request: bytes = b""


AnyRow = TypeVar("AnyRow", bound=msgspec.Struct)
_encoder = msgspec.msgpack.Encoder()
_CHECKSUM_BYTES = 8


def pack_row(key: bytes, row: msgspec.Struct) -> bytes:
    """Pack a row of a table, with a checksum that covers its key, too."""
    body = _encoder.encode(row)
    return xxhash.xxh3_64_digest(key + body) + body


def unpack_row(kind: type[AnyRow], key: bytes, packed: bytes) -> AnyRow:
    """Read the row of a key, or raise a DamagedError."""
    body = packed[_CHECKSUM_BYTES:]
    if packed[:_CHECKSUM_BYTES] != xxhash.xxh3_64_digest(key + body):
        raise DamagedError(f"damaged {kind.__name__.lower()} at key {key.hex()}: checksum differs")
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except msgspec.MsgspecError as error:
        raise DamagedError(
            f"damaged {kind.__name__.lower()} at key {key.hex()}: {error}"
        ) from error


def read_rows(
    kind: type[AnyRow], rows: Iterable[tuple[bytes, bytes | None]]
) -> Iterator[tuple[bytes, AnyRow]]:
    """Read rows, with their keys; those that are missing or damaged are left out."""
    for key, packed in rows:
        if packed is not None:
            with suppress(DamagedError):  # `check` lists it
                yield key, unpack_row(kind, key, packed)


class RulesVersion(msgspec.Struct, array_like=True, forbid_unknown_fields=False):
    """A counter in the table `acting`.

    `VERSION` grows with each change of what acts; `LEARNED` is the number of the last document when
    rules were learned.
    """

    count: int = 0


VERSION, LEARNED = b"version", b"learned"
COUNTERS = frozenset({VERSION, LEARNED})


def read_version(documents: Documents, key: bytes = VERSION) -> int:
    """Read a counter of `acting`; one row."""
    row = documents.get_row("acting", key)
    try:
        return 0 if row is None else unpack_row(RulesVersion, key, row).count
    except DamagedError:
        # A number that nobody has seen, so that all read the rules; it grows like any other.
        return xxhash.xxh3_64_intdigest(row or b"") >> 16


def grow_version(documents: Documents) -> None:
    """Have all crawls read the acting rules again, and look at all that is parked."""
    grown = RulesVersion(read_version(documents) + 1)
    documents.put_row("acting", VERSION, pack_row(VERSION, grown))
