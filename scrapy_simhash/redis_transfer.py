"""A Redis store taken over by another, or taking one over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_simhash.matching import Matcher
from scrapy_simhash.merging import (
    Merger,
    as_document,
    copy_crawls,
    copy_rows,
    is_original,
    read_rows,
)
from scrapy_simhash.records import CrawlRecord, State, unpack
from scrapy_simhash.redis_connection import RedisConnection
from scrapy_simhash.redis_prefetch import prefetch_group
from scrapy_simhash.redis_reading import list_texts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from scrapy_simhash.redis_documents import RedisDocuments
    from scrapy_simhash.store_transfer import Challenges, Row, Taken


class RedisTransfer(RedisConnection):
    """See `store_transfer.TransferStore` for what the methods do."""

    def list_first_times(self) -> list[tuple[int, float, bool]]:
        return self._read(
            lambda stored: [
                (number, record.first_time, record.state == State.DUPLICATE)
                for number, record in stored
            ]
        )

    def read_rows(self, numbers: Sequence[int]) -> list[Row]:
        def work(stored: RedisDocuments) -> list[Row]:
            stored.fetch(records=numbers, waiting=numbers)
            stored.snapshot.fetch((self._keys.texts(each), b"%d" % each) for each in numbers)
            records = map(stored.get, numbers)
            stored.fetch(records=[each.original for each in records if each and each.original])
            return read_rows(stored, numbers, stored.list_identities(numbers))

        return self._read(work)

    def list_texts(self) -> set[int]:
        return list_texts(self._server, self._keys)

    def has_original(self, identity: bytes) -> bool:
        return self._read(lambda stored: is_original(stored, identity))

    def list_crawls(self) -> dict[str, CrawlRecord]:
        found: dict[bytes, bytes] = self._server.call("HGETALL", self._keys.crawls)
        return {
            key.decode(): unpack(CrawlRecord, key, packed) for key, packed in sorted(found.items())
        }

    def copy_crawls(self, crawls: Mapping[str, CrawlRecord]) -> None:
        self._write(lambda stored: copy_crawls(stored, crawls))

    def copy_rows(self, rows: Sequence[Row]) -> Taken:
        self._require_writable()
        numbers = [row.number for row in rows]
        # Before they are in use: killed in between, some numbers stay unused.
        self._numbers.pass_over(max(numbers, default=0))

        def work(stored: RedisDocuments) -> Taken:
            identities = [each for row in rows for each in (row.record.identity, *row.aliases)]
            stored.fetch(identities=identities, records=numbers, waiting=numbers)
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
        def work(stored: RedisDocuments) -> Taken:
            documents = [as_document(row.record) for row in rows]
            prefetch_group(stored, documents, [], self.distance, self._numbers)
            matcher = Matcher(stored, self.distance, self.confirm, self._is_alive)
            return Merger(stored, matcher, was_original, challenges).take(rows, last=last)

        return self._write(work)
