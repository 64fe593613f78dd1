"""What a kind of store implements: tables of rows and of sets, and transactions; the header.

The rows of all kinds are::

    table          key                            value, or members
    header         b"store"                       Header
    header         b"noise" + digest of a host    Measured
    documents      number                         Document, but number and text
    identities     identity                       number
    texts          number                         8 bytes of a checksum, `pages.facts.pack`

    fingerprints   fingerprint                    hash of a group (8) + number (8)
    sites          digest of a host (8)           of its sample: digest of an identity (8) + number
                                                  (8) + digest of facts (4) + suspicion (1) + form
                                                  of the address (3)
    keys           a rare triple, or a digest of  number of a document that has it
                   a sketch or a name (8)
    tables         table (1) + key_bytes          the other 8 - key_bytes of a permuted fingerprint

Numbers of documents and fingerprints have 8 bytes, big-endian. The tables above the gap hold one
value a key; those below it hold a *set* of members, which all have the width above. What a row
means is not a kind's business, and kinds compute no checksums: `stores.documents` writes and reads
values (`pack_row`, `read_rows`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from itertools import islice
from struct import Struct
from typing import TYPE_CHECKING, ClassVar, TypeAlias, TypeVar

import msgspec

from scrapy_simhash.pages.facts import Reader, Recipe, Share  # noqa: TC001 - msgspec reads them
from scrapy_simhash.tables import ROW_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

Item = TypeVar("Item")
Result = TypeVar("Result")
Row: TypeAlias = tuple[str, bytes]
"""A table, and a key of it."""

# Increased with each change of what is stored, or how.
FORMAT = 27
HEADER = "header"
HEADER_KEY = b"store"
DOCUMENTS = "documents"
IDENTITIES = "identities"
TEXTS = "texts"
FINGERPRINTS = "fingerprints"
SITES = "sites"
KEYS = "keys"
TABLES = "tables"

VALUES = (HEADER, DOCUMENTS, IDENTITIES, TEXTS)
# How many bytes a key and a member have together.
SETS = {FINGERPRINTS: 24, SITES: 32, KEYS: 16, TABLES: ROW_BYTES}
# Makes keys of document numbers and fingerprints; not a Python function: a page needs a dozen.
octets = Struct(">Q").pack
number_of = partial(int.from_bytes, byteorder="big")


class Header(msgspec.Struct, array_like=True):
    """The settings of a store; headers of all formats begin with the first two fields.

    The rule decides of what texts the fingerprints are. `readers` are those of whom there are
    documents, and perhaps some of whom there were; `shares` what the last crawls counted of each.
    """

    format: int
    version: str
    recipe: Recipe
    design: str
    seed: int
    rule: str
    readers: tuple[Reader, ...] = ()
    shares: tuple[Share, ...] = ()


class KeyValues(ABC):
    """One transaction, see `Engine.run`; it sees its own writes."""

    header: bytes | None
    """The row of the header, as it was when the transaction began."""

    @abstractmethod
    def get(self, table: str, *keys: bytes) -> list[bytes | None]:
        """Get the value of each key, or None."""

    @abstractmethod
    def put(self, table: str, key: bytes, value: bytes) -> None:
        """Write the value of a key, whatever was there; or add a member to a set."""

    @abstractmethod
    def delete(self, table: str, key: bytes, member: bytes = b"") -> None:
        """Delete a key with its value, a whole set, or a member of it, if it is there."""

    @abstractmethod
    def scan(self, table: str, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Read keys that begin so with their values; of a set, the key once with each member.

        DOCUMENTS come in ascending order of their keys, others in any order. This transaction must
        not have changed the table, nor change it before the last row was read.
        """

    @abstractmethod
    def read_sets(
        self, table: str, keys: Sequence[bytes], in_bucket: int | None = None
    ) -> tuple[bytes, list[bytes]]:
        """Read sets in the order of their keys: members, each behind its key, side by side.

        Members ascend; keys are of one length. Passes over sets of more members than `in_bucket`,
        if not None, which is `tables.MOST_IN_BUCKET` or more in TABLES; returns their keys, too.
        """

    # What follows is right for every kind, and worth writing anew for some.

    def fetch(self, rows: Iterable[Row]) -> None:
        """Read rows and sets of any tables ahead, in one round trip; nothing where none needs one.

        They are as they were at one moment. Those that were read before are not read again.
        """
        del rows

    def clear(self, table: str) -> None:
        """Delete all keys of a table."""
        for key in {key for key, _ in self.scan(table)}:
            self.delete(table, key)


class Engine(ABC):
    """A store of one kind: where it is, its transactions, and what is the kind's own.

    It is made with the store's URL (LMDB with a folder) and `readonly`, which changes nothing.
    Threads share an engine, and several processes may have one each.
    """

    shared: ClassVar[bool] = False
    """Whether it is on a server: each read is a round trip, in which others may commit."""
    url: str
    """Where the store is, for display, without password."""
    readonly: bool

    @abstractmethod
    def exists(self) -> bool:
        """Whether there is a store; called before `open`, and changes nothing."""

    @abstractmethod
    def open(self) -> None:
        """Open the store, or make an empty one, without any rows, where there is none.

        Raises:
            StoreUnusableError: it cannot be opened or, with `readonly`, there is none.
        """

    @abstractmethod
    def run(self, work: Callable[[KeyValues], Result], *, writing: bool) -> Result:
        """Run a function that reads or writes; it may run several times, and must keep nothing.

        What it wrote is committed at once, durably. In a folder and in memory writers take turns. A
        server has no lock: its sets take what all writers add and discard, and where a row that the
        function read and replaced was changed meanwhile, it is run again. So of two writers that
        judge at once both may keep a page, and nothing else differs. If the function raises,
        nothing is written, and the error goes on.

        Raises:
            StoreUnavailableError: it cannot be read, or nothing was written, unless it says that
                this is not known.
        """

    @abstractmethod
    def take_numbers(self, count: int) -> int:
        """Take so many consecutive numbers of documents, durably; returns the first one.

        They are larger than those of all documents, and nobody else gets them.
        """

    @abstractmethod
    def measure(self) -> int:
        """Measure the size of the store, of its file or on a server of its memory, in bytes."""

    @abstractmethod
    def close(self) -> None:
        """Close the store; a second call is harmless."""

    def find_damage(self) -> list[str]:
        """List what is wrong below the rows, as in a file, a line each; within a transaction."""
        return []


def cut(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Cut items into parts of a size."""
    left = iter(items)
    while part := list(islice(left, size)):
        yield part
