"""Tables above an archive: new fingerprints in LMDB, the older ones compressed in a file beneath.

Both are probed. `merge` writes a new archive of both and empties the tables, while crawls go on::

    1. freeze   header: merging; new fingerprints go into another `added`   one short transaction
    2. write    the next archive: archive + tables - removed                no transaction
    3. switch   header: the next archive; drop what is in it                one transaction

A fingerprint that is removed stays in the archive until the next merge; until then its row in
`removed` says that it does not count. What has such a row is never in the tables.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from scrapy_simhash.archive import Archive
from scrapy_simhash.archive_format import ArchiveError
from scrapy_simhash.archive_writer import write_archive
from scrapy_simhash.designs import parse_design
from scrapy_simhash.jointables import contains, sort_distinct
from scrapy_simhash.lmdb_compact import compacting_alone, freeze, open_compaction, switch
from scrapy_simhash.lmdb_documents import Documents
from scrapy_simhash.lmdb_header import read_header, table_databases
from scrapy_simhash.lmdb_tables import MOST_IN_BUCKET, Tables
from scrapy_simhash.store_header import check_recipe
from scrapy_simhash.store_rows import octets
from scrapy_simhash.stored import Probe
from scrapy_simhash.stores import StoreError, StoreUnavailableError, StoreUnusableError

if TYPE_CHECKING:
    from pathlib import Path

    import lmdb
    from numpy.typing import NDArray

    from scrapy_simhash.lmdb_documents import Databases
    from scrapy_simhash.lmdb_environment import Environment
    from scrapy_simhash.lmdb_reading import TableDatabases
    from scrapy_simhash.permutation import Design
    from scrapy_simhash.records import Header

# A probe takes as many decoding steps as a block has fingerprints: with an archive's usual 1,024
# bytes eight times as many, for a file a twenty-fifth smaller (benchmarks/bench_archive.py).
_BLOCK_BYTES = 128


class ArchivedTables(Tables):
    """The tables of one design, above an archive.

    Args:
        design: of tables and archive.
        databases: of the tables.
        archive: beneath; None while the first one is being written.
        merging: another one is being written, which may have what is in the tables now.
    """

    def __init__(
        self, design: Design, databases: TableDatabases, archive: Archive | None, *, merging: bool
    ) -> None:
        super().__init__(design, databases)
        self._merging = merging
        self._removed = databases.removed
        self._archive = archive

    def add(self, transaction: lmdb.Transaction[bytes], fingerprint: int) -> None:
        # The archive that is being written may be without what was removed.
        if transaction.delete(octets(fingerprint), db=self._removed):
            self._put(transaction, fingerprint)
        else:
            super().add(transaction, fingerprint)

    def holds(self, transaction: lmdb.Transaction[bytes], fingerprint: int) -> bool:
        return super().holds(transaction, fingerprint) or (
            self._archive is not None
            and not self._is_removed(transaction, fingerprint)
            and self._archive.holds(fingerprint)
        )

    def _is_removed(self, transaction: lmdb.Transaction[bytes], fingerprint: int) -> bool:
        return transaction.get(octets(fingerprint), db=self._removed) is not None

    def remove(self, transaction: lmdb.Transaction[bytes], fingerprint: int) -> None:
        super().remove(transaction, fingerprint)
        if self._merging or (self._archive is not None and self._archive.holds(fingerprint)):
            transaction.put(octets(fingerprint), b"", db=self._removed)

    def list_removed(self, transaction: lmdb.Transaction[bytes]) -> NDArray[np.uint64]:
        """List what does not count of the archive: sorted, each once; shape (n,)."""
        cursor = transaction.cursor(self._removed)
        keys = b"".join(cursor.iternext(keys=True, values=False))
        return np.frombuffer(keys, ">u8").astype(np.uint64)

    def probe(
        self,
        transaction: lmdb.Transaction[bytes],
        fingerprint: int,
        distance: int,
        most: int | None = None,
        *,
        bounded: bool = False,
    ) -> Probe:
        probe = super().probe(transaction, fingerprint, distance, most, bounded=bounded)
        if self._archive is None:
            return probe
        archived = self._archive.probe(fingerprint, distance, MOST_IN_BUCKET if bounded else None)
        near = set(probe.near)
        near.update(each for each in archived.near if not self._is_removed(transaction, each[1]))
        return Probe(sorted(near)[:most], min(probe.complete_bits, archived.complete_bits))

    def with_archived(
        self, transaction: lmdb.Transaction[bytes], found: NDArray[np.uint64], *, tolerant: bool
    ) -> NDArray[np.uint64]:
        if self._archive is None:
            return found
        archived = self._archive.read_undamaged() if tolerant else self._archive.read_all()
        counting = archived[~contains(self.list_removed(transaction), archived)]
        return sort_distinct(np.concatenate([found, counting]))

    def count_fingerprints(self, transaction: lmdb.Transaction[bytes]) -> int:
        """Count what is in the tables or the archive; what is in both counts twice."""
        removed = transaction.stat(self._removed)["entries"]
        archived = self._archive.count - removed if self._archive else 0
        return super().count_fingerprints(transaction) + archived

    @property
    def archive_bytes(self) -> int:
        return self._archive.file_bytes if self._archive else 0

    def find_strays(self, transaction: lmdb.Transaction[bytes]) -> list[str]:
        return super().find_strays(transaction) + (self._archive.verify() if self._archive else [])


def open_tables(folder: Path, databases: Databases, header: Header) -> Tables:
    """Open the tables that the header names, with the archive beneath them if there is one.

    Raises:
        StoreUnusableError: the archive is not there, or damaged.
    """
    design, found = parse_design(header.design), table_databases(databases, header)
    if not header.archive and not header.merging:
        return Tables(design, found)
    archive = _open_archive(folder, header)
    return ArchivedTables(design, found, archive, merging=bool(header.merging))


def _open_archive(folder: Path, header: Header) -> Archive | None:
    if not header.archive:
        return None
    path = folder / header.archive
    try:
        archive = Archive(path)
    except (OSError, ArchiveError) as error:
        raise StoreUnusableError(
            f"the archive beneath the tables of the store cannot be read: {error}. Restore {path} "
            "from a backup; if another process has just merged or rebuilt the store, try again"
        ) from error
    if (archive.seed, archive.design.name) != (header.seed, header.design):
        raise StoreUnusableError(f"{path} belongs to another store; restore it from a backup")
    return archive


class _Content(NamedTuple):
    """What was read for a new archive.

    Attributes:
        before: what counted until then; sorted, shape (n,).
        removed: what does not, and stays out; shape (r,).
    """

    before: NDArray[np.uint64]
    removed: NDArray[np.uint64]


def merge(
    environment: Environment, databases: Databases, loaded: NDArray[np.uint64] | None = None
) -> int:
    """Write all fingerprints into a new archive beneath the tables, and empty these.

    Args:
        environment: of the store, writable.
        databases: its databases.
        loaded: fingerprints to be bulk-loaded on this occasion; sorted, each once; shape (n,).

    Returns:
        How many of the loaded ones were not there. Cost: memory for two copies of everything, and
        the time of `write_archive`.

    Raises:
        StoreError: another compaction is running, or the tables were rewritten meanwhile.
        StoreUnavailableError: the archive could not be written; nothing is lost.
    """
    loaded = np.zeros(0, np.uint64) if loaded is None else loaded
    with compacting_alone(environment):
        header = environment.write(partial(_begin, databases))
        delete_unused_archives(environment.folder, header)
        content = environment.read(partial(_read, environment.folder, databases))
        _write(environment.folder / header.merging, header, content, loaded)
        header = environment.write(partial(_end, databases, header, content, loaded))
        delete_unused_archives(environment.folder, header)
    return int(loaded.size - np.count_nonzero(contains(content.before, loaded)))


def _begin(databases: Databases, transaction: lmdb.Transaction[bytes]) -> Header:
    header = read_header(transaction, databases)
    number = int(header.archive.removeprefix("base-").removesuffix(".archive") or 0)
    freeze(transaction, databases, merging=f"base-{number + 1}.archive")
    return read_header(transaction, databases)


def _read(folder: Path, databases: Databases, transaction: lmdb.Transaction[bytes]) -> _Content:
    header = read_header(transaction, databases)
    found = table_databases(databases, header)
    assert found.frozen is not None  # noqa: S101 - since `_begin`, and nobody else compacts
    still = ArchivedTables(
        parse_design(header.design),
        found._replace(added=found.frozen, frozen=None),
        _open_archive(folder, header),
        merging=True,
    )
    return _Content(still.read_all(transaction), still.list_removed(transaction))


def _write(path: Path, header: Header, content: _Content, loaded: NDArray[np.uint64]) -> None:
    try:
        write_archive(
            path,
            sort_distinct(np.concatenate([content.before, loaded])),
            design=header.design,
            seed=header.seed,
            recipe=check_recipe(header, None),
            block_bytes=_BLOCK_BYTES,
            overwrite=True,
        )
        path.chmod(0o600)
    except OSError as error:
        raise StoreUnavailableError(
            f"the archive {path} could not be written, nothing is lost: {error}"
        ) from error


def _end(
    databases: Databases,
    begun: Header,
    content: _Content,
    loaded: NDArray[np.uint64],
    transaction: lmdb.Transaction[bytes],
) -> Header:
    header = read_header(transaction, databases)
    if header.merging != begun.merging or header.design != begun.design:
        raise StoreError("the tables were rewritten by another process meanwhile; nothing is lost")
    compaction = open_compaction(transaction, databases)
    compaction.tables.forget_hot(transaction, content.before)
    header.archive = header.merging
    switch(transaction, databases, compaction, header)
    for fingerprint in np.concatenate([content.removed, loaded]).tolist():
        transaction.delete(octets(fingerprint), db=databases.removed)
    stored = Documents(transaction, databases, compaction.tables)
    indexed = stored.list_indexed()
    for known in indexed[contains(loaded, indexed)].tolist():
        stored.note_bulk_loaded(known)
    return header


def tidy_archives(environment: Environment, databases: Databases) -> None:
    """Delete archives that nobody needs; left to a merge that is running, and to the next one."""
    with suppress(StoreError), compacting_alone(environment):
        header = environment.read(lambda txn: read_header(txn, databases))
        delete_unused_archives(environment.folder, header)


def delete_unused_archives(folder: Path, header: Header) -> None:
    """Delete what a merge left behind: earlier archives, and those of one that was killed.

    Whoever still reads one goes on to do so. Only for who keeps other compactions away.
    """
    for path in folder.glob("base-*.archive"):
        if path.name not in {header.archive, header.merging}:
            path.unlink(missing_ok=True)
