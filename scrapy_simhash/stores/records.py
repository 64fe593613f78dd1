"""Write and read the records of a store: MessagePack behind a checksum.

::

    octets 0-7   XXH3-64 of key and body, which reveals a flipped bit or a swapped record
    octets 8-    MessagePack array, fields in the order of the class; later versions append fields
"""

from __future__ import annotations

import zlib
from functools import lru_cache, partial
from struct import Struct
from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec
import xxhash

from scrapy_simhash.errors import DamagedError, StoreError
from scrapy_simhash.judging.documents import CrawlRecord, Record, Waiting
from scrapy_simhash.judging.interface import Documents

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from scrapy_simhash.judging import Document
    from scrapy_simhash.judging.merging import Row

_CHECKSUM_BYTES = 8
# The tables of URL rules and of what goes with them, see `judging.rows` and `rulebook`. A row is
# packed behind a checksum, and its key has at most 64 bytes. On disk all tables are in one
# database, where their letters begin the keys.
ROW_TABLES = {
    "rules": b"r",
    "acting": b"m",
    "forms": b"f",
    "parked": b"p",
    "released": b"x",
    "sinks": b"s",
    "links": b"l",
}
# Makes keys from document numbers and fingerprints; not a Python function: a page needs a dozen.
octets = Struct(">Q").pack
number_of = partial(int.from_bytes, byteorder="big")


class Header(msgspec.Struct, array_like=True, forbid_unknown_fields=False):
    """The settings and the state of a store.

    `base` and `added` say which of two databases of each kind is in use (in Redis, `base` is the
    generation of the tables). While `compacting`, the other `added` is being compacted into the
    other `base`. `archive` and `merging` name files that 0.1.0 kept beneath the tables; a store
    with such files is refused. `addressed`: all documents are in the index of URLs.
    """

    format: int
    recipe: dict[str, str | int]
    design: str
    seed: int
    created: float
    libraries: dict[str, str]
    base: int = 0
    added: int = 0
    compacting: bool = False
    archive: str = ""
    merging: str = ""
    addressed: bool = False


AnyRecord = TypeVar("AnyRecord", Record, Header, CrawlRecord, Waiting)
_encoder = msgspec.msgpack.Encoder()


def pack(key: bytes, record: Record | Header | CrawlRecord | Waiting) -> bytes:
    """Pack a record, with a checksum that covers its key, too."""
    body = _encoder.encode(record)
    return _checksum(key, body) + body


def unpack(kind: type[AnyRecord], key: bytes, octets: bytes) -> AnyRecord:
    """Read the record of a key, or raise a DamagedError."""
    body = octets[_CHECKSUM_BYTES:]
    # A damaged header has more than one cure.
    damaged = StoreError if kind is Header else DamagedError
    if octets[:_CHECKSUM_BYTES] != _checksum(key, body):
        raise damaged(f"damaged {kind.__name__.lower()} at key {key.hex()}: checksum differs")
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except msgspec.MsgspecError as error:
        raise damaged(f"damaged {kind.__name__.lower()} at key {key.hex()}: {error}") from error


def _checksum(key: bytes, body: bytes) -> bytes:
    return xxhash.xxh3_64_digest(key + body)


def pack_identity(identity: bytes, number: int) -> bytes:
    """Pack the number of the document of an identity, with 4 bytes of a checksum."""
    key = octets(number)
    return key + xxhash.xxh3_64_digest(identity + key)[:4]


def unpack_identity(identity: bytes, value: bytes) -> int:
    """Read to which document an identity leads, or raise a StoreError that names the cure."""
    number = number_of(value[:8])
    if value != pack_identity(identity, number):
        raise StoreError(
            f"damaged identity {identity.hex()}: checksum differs; mend it with `scrapy simhash "
            "check --rebuild`"
        )
    return number


_NUMBER_BITS = 40


def address_row(url: str, number: int = 0) -> int:
    """Make the row of a document in the index of URLs: 24 bits of a digest, and its number."""
    # Of other documents, one in 16 million has the same 24 bits: its record tells.
    digest = xxhash.xxh3_64_intdigest(url.encode(errors="surrogatepass"))
    return digest >> _NUMBER_BITS << _NUMBER_BITS | number


def number_in(row: int) -> int:
    """Get the number of the document of a row in the index of URLs."""
    return row & (1 << _NUMBER_BITS) - 1


@lru_cache(maxsize=1_024)
def scope_hash(scope: str) -> bytes:
    """Hash a scope to the 8 bytes that begin a row of `fingerprints`."""
    return xxhash.xxh3_64_digest(scope.encode())


class Session(Documents, Protocol):
    """The documents and the tables of a store, as one transaction sees them.

    Values are stored by kind (`documents`, `texts`, `waiting` or `crawls`); their key is the
    number of a document, or the id of a crawl.
    """

    def _get(self, kind: str, key: int | str) -> bytes | None:
        """Get a stored value, or None."""

    def _put(self, kind: str, key: int | str, packed: bytes) -> None:
        """Store a value."""

    def _name(self, number: int, identity: bytes, row: bytes, *, own: bool) -> None:
        """Make an identity lead to a document; if not its `own`, only one that leads to none."""

    def _drop(self, kind: str, key: int) -> None:
        """Delete a stored value, if there is one."""

    def scan_packed(self, kind: str) -> Iterable[tuple[int, bytes]]:
        """Read all values of a kind whose keys are numbers."""

    def get(self, number: int) -> Record | None:
        packed = self._get("documents", number)
        return None if packed is None else unpack(Record, octets(number), packed)

    def put(
        self, number: int, record: Record, text: str | None = None, names: Iterable[bytes] = ()
    ) -> None:
        rows = [(name, pack_identity(name, number)) for name in names]
        self._put("documents", number, pack(octets(number), record))
        for name, row in rows:
            self._name(number, name, row, own=name == record.identity)
        if text is not None:
            self._put("texts", number, zlib.compress(text.encode()))

    def __iter__(self) -> Iterator[tuple[int, Record]]:
        for number, packed in self.scan_packed("documents"):
            yield number, unpack(Record, octets(number), packed)

    def scan(self) -> Iterator[tuple[int, Record | DamagedError]]:
        """Read every record, by ascending number; yields an error in place of a damaged one."""
        for number, packed in self.scan_packed("documents"):
            try:
                yield number, unpack(Record, octets(number), packed)
            except DamagedError as error:
                yield number, error

    # Whether all documents are in the index of URLs: those of older stores are after a `rebuild`.
    # Documents without a URL are never there.
    addressed: bool

    def put_address(self, url: str, number: int) -> None:
        if url and self.addressed:
            self._put_address(address_row(url, number))

    def drop_address(self, url: str, number: int) -> None:
        if url and self.addressed:
            self._drop_address(address_row(url, number))

    def list_at(self, url: str) -> Iterator[tuple[int, Record]]:
        """Read the records with a URL; without an index of these, it looks through all."""
        records: Iterable[tuple[int, Record | None]] = self
        if url and self.addressed:
            numbers = sorted(map(number_in, self._find_addresses(address_row(url))))
            self.prefetch_rows((), records=numbers)
            records = zip(numbers, map(self.get, numbers), strict=True)
        return (
            (number, record)
            for number, record in records
            if record is not None and record.url == url
        )

    def _put_address(self, row: int) -> None:
        """Write a row of the index of URLs, see `address_row`."""

    def _drop_address(self, row: int) -> None:
        """Delete a row of the index of URLs, if it is there."""

    def _find_addresses(self, row: int) -> Iterable[int]:
        """Find the rows that differ from this one in their numbers only."""

    def read_addresses(self) -> NDArray[np.uint64]:
        """Read all rows of the index of URLs, sorted; shape (n,)."""

    def get_text(self, number: int) -> str | None:
        packed = self._get("texts", number)
        try:
            return None if packed is None else zlib.decompress(packed).decode()
        except (zlib.error, UnicodeDecodeError) as error:
            raise StoreError(f"text of document {number} is damaged: {error}") from error

    def drop_text(self, number: int) -> None:
        self._drop("texts", number)

    def get_crawl(self, crawl: str) -> CrawlRecord | None:
        packed = self._get("crawls", crawl)
        return None if packed is None else unpack(CrawlRecord, crawl.encode(), packed)

    def put_crawl(self, crawl: str, record: CrawlRecord) -> None:
        self._put("crawls", crawl, pack(crawl.encode(), record))

    def get_waiting(self, number: int) -> Waiting | None:
        packed = self._get("waiting", number)
        return None if packed is None else unpack(Waiting, octets(number), packed)

    def put_waiting(self, number: int, waiting: Waiting) -> None:
        self._put("waiting", number, pack(octets(number), waiting))

    def drop_waiting(self, number: int) -> None:
        self._drop("waiting", number)

    def list_waiting(self) -> list[tuple[int, Waiting]]:
        return [
            (number, unpack(Waiting, octets(number), packed))
            for number, packed in self.scan_packed("waiting")
        ]

    def prefetch(
        self,
        documents: Sequence[Document],
        marked: Sequence[int],
        distance: int,
        parking: Sequence[tuple[str, bytes]] = (),
    ) -> None:
        """Read in one go what judging documents and marking others will need."""
        # And rows that parking will need.
        del documents, marked, distance, parking

    def prefetch_matches(self, fingerprint: int, distance: int) -> None:
        """Read in one go what finding the matches of a fingerprint will need."""
        del fingerprint, distance

    def prefetch_deletion(self, numbers: Sequence[int]) -> None:
        """Read in one go what deleting documents will need."""
        del numbers

    def draw_keys(self, table: str, prefix: bytes, most: int) -> Sequence[bytes]:
        """Draw some keys of a table that begin so; the cost does not grow with the table.

        Of a rare prefix a large table on a server may give fewer, though more are there.
        """

    def mend_count(self, table: str) -> None:
        """Count the rows of a table again, where they are not counted anyway."""
        del table

    def reserve(self, rows: Sequence[Row]) -> None:
        """Reserve the numbers of these rows before copying them: no other document gets one."""

    def scan_crawls(self) -> Iterable[tuple[bytes, bytes]]:
        """Read the packed records of the crawls, with their ids."""

    def list_crawls(self) -> dict[str, CrawlRecord]:
        return {
            key.decode(): unpack(CrawlRecord, key, packed) for key, packed in self.scan_crawls()
        }

    def count_crawls(self) -> int:
        """Count the crawls; reads none."""

    def list_texts(self) -> set[int]:
        """List the documents whose main texts are kept, by their numbers; reads no text."""

    def list_bulk_loaded(self) -> NDArray[np.uint64]:
        """List the fingerprints that were bulk-loaded; sorted, shape (n,)."""

    def read_fingerprints(self) -> NDArray[np.uint64]:
        """Read the distinct fingerprints of the tables, sorted; shape (n,)."""

    def measure_tables(self) -> tuple[int, int, int]:
        """Count fingerprints, bytes of their tables, and buckets that are too full."""
