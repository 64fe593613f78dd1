"""An LMDB store taken over by another, or taking one over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_simhash.lmdb_connection import LmdbConnection
from scrapy_simhash.lmdb_documents import NEXT
from scrapy_simhash.matching import Matcher
from scrapy_simhash.merging import Merger, copy_crawls, copy_rows, is_original, read_rows
from scrapy_simhash.records import CrawlRecord, State, unpack
from scrapy_simhash.store_rows import number_of, octets, unpack_identity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import lmdb

    from scrapy_simhash.lmdb_documents import Databases, Documents
    from scrapy_simhash.store_transfer import Challenges, Row, Taken


class LmdbTransfer(LmdbConnection):
    """See `store_transfer.TransferStore` for what the methods do."""

    # By the number of their document; found by reading all identities, once.
    _aliases: dict[int, list[bytes]] | None = None

    def list_first_times(self) -> list[tuple[int, float, bool]]:
        return self._read(
            lambda stored, _: [
                (number, record.first_time, record.state == State.DUPLICATE)
                for number, record in stored
            ]
        )

    def read_rows(self, numbers: Sequence[int]) -> list[Row]:
        if self._aliases is None:
            self._aliases = self._read(
                lambda stored, txn: _list_aliases(txn, self._databases, stored)
            )
        aliases = self._aliases
        return self._read(lambda stored, _: read_rows(stored, numbers, aliases))

    def list_texts(self) -> set[int]:
        return self._read(
            lambda _, txn: {
                number_of(key)
                for key in txn.cursor(self._databases.texts).iternext(keys=True, values=False)
            }
        )

    def has_original(self, identity: bytes) -> bool:
        return self._read(lambda stored, _: is_original(stored, identity))

    def list_crawls(self) -> dict[str, CrawlRecord]:
        return self._read(lambda _, txn: _list_crawls(txn, self._databases))

    def copy_crawls(self, crawls: Mapping[str, CrawlRecord]) -> None:
        self._write(lambda stored, _: copy_crawls(stored, crawls))

    def copy_rows(self, rows: Sequence[Row]) -> Taken:
        def work(stored: Documents, txn: lmdb.Transaction[bytes]) -> Taken:
            _use_numbers(txn, self._databases, [row.number for row in rows])
            return copy_rows(stored, rows)

        return self._write(work)

    def merge_rows(
        self,
        rows: Sequence[Row],
        was_original: Callable[[int, bytes], bool],
        challenges: Challenges,
        *,
        last: bool = False,
    ) -> Taken:
        def work(stored: Documents, _: lmdb.Transaction[bytes]) -> Taken:
            matcher = Matcher(stored, self.distance, self.confirm, self._leases.alive)
            return Merger(stored, matcher, was_original, challenges).take(rows, last=last)

        return self._write(work)


def _list_aliases(
    transaction: lmdb.Transaction[bytes], databases: Databases, stored: Documents
) -> dict[int, list[bytes]]:
    """List the identities that lead to a document of another one, by its number; reads all."""
    found: dict[int, list[bytes]] = {}
    for identity, value in transaction.cursor(databases.identities):
        number = unpack_identity(identity, value)
        record = stored.get(number)
        if record is not None and record.identity != identity:
            found.setdefault(number, []).append(identity)
    return found


def _list_crawls(
    transaction: lmdb.Transaction[bytes], databases: Databases
) -> dict[str, CrawlRecord]:
    """List all crawls, by their ids."""
    return {
        key.decode(): unpack(CrawlRecord, key, packed)
        for key, packed in transaction.cursor(databases.crawls)
    }


def _use_numbers(
    transaction: lmdb.Transaction[bytes], databases: Databases, numbers: Iterable[int]
) -> None:
    """Let no other document get these numbers."""
    following = max(numbers, default=0) + 1
    stored = transaction.get(NEXT, db=databases.header)
    if stored is None or number_of(stored) < following:
        transaction.put(NEXT, octets(following), db=databases.header)
