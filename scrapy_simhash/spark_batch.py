"""Many queries against far more fingerprints on Spark (paper, section 3.3).

The queries are sent to every task, which builds the tables on them and scans its part of the
fingerprints by `batch`: nothing is shuffled but the matches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from scrapy_simhash import batch
from scrapy_simhash.jointables import check_join, sort_distinct
from scrapy_simhash.spark_engine import pack, require_columns, to_bigint, to_unsigned, unpack
from scrapy_simhash.spark_pairs import read_packed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark import Broadcast
    from pyspark.sql import DataFrame

# `batch` gives a core so many at a time: a task has one core, others have theirs.
_ROWS_PER_CHUNK = 1 << 17


def batch_query(
    queries: DataFrame, fingerprints: DataFrame, distance: int, blocks: int | None = None
) -> DataFrame:
    """Find all fingerprints within a distance of any query; as `batch.batch_query`.

    Args:
        queries: column `fingerprint` (bigint); few enough for one machine, 8 bytes each on the
            driver. Repeated ones count once.
        fingerprints: the same column, in any order; repeated ones count once.
        distance: bits, 0 to 63.
        blocks: into which the 64 bits are cut, more than `distance`, up to 64; None for the
            number that is quickest for so many queries.

    Returns:
        Columns `query`, `fingerprint` (bigint) and `distance`, in bits; each pair once, in no
        order.

    Raises:
        ValueError: a distance or number of blocks that is out of range.
        SparkError: there is no column of that name and type.

    Cost: a job at once, which collects the queries. Each task holds, for each of the C(blocks,
    distance) tables, 8 bytes a query and up to 4 MB, and 80 bytes for each of its matches: with a
    million queries and ten tables 120 MB.
    """
    check_join(distance, blocks)
    require_columns(queries, "the table of queries", fingerprint="bigint")
    require_columns(fingerprints, "the input", fingerprint="bigint")
    distinct = sort_distinct(to_unsigned(_one_column(queries)))
    sent: Broadcast[bytes] = fingerprints.sparkSession.sparkContext.broadcast(pack(distinct))

    def answer(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        chunks = read_packed(batches, _ROWS_PER_CHUNK)
        rows = batch.batch_query(unpack([sent.value]), chunks, distance, blocks)
        yield pa.record_batch(
            {
                "query": to_bigint(rows[:, 0]),
                "fingerprint": to_bigint(rows[:, 1]),
                "distance": pa.array(rows[:, 2].astype("int32")),
            }
        )

    found = fingerprints.select("fingerprint").mapInArrow(
        answer, "query bigint, fingerprint bigint, distance int"
    )
    # One that stands in two partitions is found in both.
    return found.distinct()


def _one_column(frame: DataFrame) -> pa.Array:
    return frame.select("fingerprint").toArrow().column("fingerprint").combine_chunks()
