"""The header of an LMDB store: what it was made with, and whether we may use it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_simhash.lmdb_documents import Databases
from scrapy_simhash.lmdb_reading import TableDatabases
from scrapy_simhash.records import Header, pack, unpack
from scrapy_simhash.store_header import new_header
from scrapy_simhash.stores import StoreError, StoreUnusableError

if TYPE_CHECKING:
    import lmdb

    from scrapy_simhash.lmdb_environment import Environment
    from scrapy_simhash.recipe import Recipe

# Raised when a later version writes what an earlier one would misread.
FORMAT = 3
_KEY = b"store"
_HEADER = b"header"


def make_store(environment: Environment, recipe: Recipe, design: str, seed: int | None) -> bool:
    """Make a store in an empty file: all databases and the header in one transaction.

    Args:
        environment: of the file.
        recipe: its fingerprints are made with.
        design: of its tables.
        seed: of the token hash, 0 to 2**64 - 1; None to draw one.

    Returns:
        Whether the file was empty.
    """

    def work(transaction: lmdb.Transaction[bytes]) -> bool:
        if transaction.stat()["entries"]:
            return False
        databases = Databases.open(environment, transaction)
        header = new_header(FORMAT, recipe, design, seed, client="lmdb")
        write_header(transaction, databases, header)
        return True

    return environment.write(work)


def open_databases(environment: Environment) -> Databases:
    """Open the databases of a store.

    Raises:
        StoreUnusableError: the file holds something else, or another version's store; it was not
            touched.
    """
    names = {name.encode() for name in Databases._fields}
    found = environment.read(lambda txn: {bytes(key) for key, _ in txn.cursor()})
    # The header first: another version may have other databases.
    if _HEADER in found:
        header = environment.open_database(_HEADER.decode())
        packed = environment.read(lambda txn: txn.get(_KEY, db=header))
        if packed is not None:
            unpack_header(packed)
    if found != names:
        foreign = ", ".join(sorted(map(repr, found - names)))
        raise StoreUnusableError(
            f"{environment.folder} is no store of scrapy_simhash but an LMDB file "
            f"{'with ' + foreign if foreign else 'without our databases'}; name another folder"
        )
    return Databases.open(environment)


def read_packed_header(transaction: lmdb.Transaction[bytes], databases: Databases) -> bytes:
    """Get the header as it is stored: equal octets mean an unchanged header.

    Raises:
        StoreUnusableError: it is gone.
    """
    packed = transaction.get(_KEY, db=databases.header)
    if packed is None:
        raise StoreUnusableError("the store has no header; restore it from a backup")
    return packed


def unpack_header(packed: bytes) -> Header:
    """Read a header.

    Raises:
        StoreUnusableError: it is damaged, or of a newer version.
    """
    try:
        header = unpack(Header, _KEY, packed)
    except StoreError as error:
        raise StoreUnusableError(
            f"{error}. Restore the store from a backup, or open it with the newest scrapy-simhash"
        ) from error
    if header.format > FORMAT:
        raise StoreUnusableError(
            f"the store has format {header.format}, this version reads up to {FORMAT}; "
            f"upgrade scrapy-simhash (it was made with {header.libraries.get('scrapy-simhash')})"
        )
    if header.format < FORMAT:
        raise StoreUnusableError(
            f"the store has format {header.format} of a version before the first release, this one "
            f"reads {FORMAT}; name another SIMHASH_STORE and crawl again"
        )
    return header


def read_header(transaction: lmdb.Transaction[bytes], databases: Databases) -> Header:
    """Read the header of a store that was opened.

    Raises:
        StoreUnusableError: it is gone, damaged, or of a newer version.
    """
    return unpack_header(read_packed_header(transaction, databases))


def write_header(
    transaction: lmdb.Transaction[bytes], databases: Databases, header: Header
) -> None:
    """Change the header; every other user sees it at its next transaction."""
    transaction.put(_KEY, pack(_KEY, header), db=databases.header)


def table_databases(databases: Databases, header: Header) -> TableDatabases:
    """Choose the databases of the tables that are in use."""
    bases = databases.base0, databases.base1
    added = databases.added0, databases.added1
    return TableDatabases(
        base=bases[header.base],
        added=added[header.added],
        frozen=added[1 - header.added] if header.compacting else None,
        hot=databases.hot,
        building=bases[1 - header.base] if header.compacting else None,
        removed=databases.removed,
    )
