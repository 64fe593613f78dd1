"""All pairs within a distance on Spark: the tables of a self-join as one shuffle.

1. Each partition packs its fingerprints, sorted, into rows of a million.
2. The driver takes a sample and plans cells of bounded size (`joincells`).
3. Each packed row is cut into these cells, once for each table; a cell comes together in one task,
   which joins it by `selfjoin` as one machine would.

A pair comes out of one cell only, so there is nothing to sort out afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from scrapy_simhash.joincells import CellPlan, plan_cells
from scrapy_simhash.jointables import check_join, choose_join_blocks, sort_distinct
from scrapy_simhash.selfjoin import join_cell
from scrapy_simhash.spark_engine import (
    collect,
    cut_lineage,
    pack,
    require_columns,
    to_bigint,
    to_unsigned,
    unpack,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame

# Fingerprints of a cell, 8 MB: a task holds one at a time, several times over while it sorts.
CELL_ROWS = 1 << 20
PAIRS = "first bigint, second bigint, distance int"
_PACKED_ROWS = 1 << 20
# Of each cell, in the sample; fewer would make cells less even.
_SAMPLED_PER_CELL = 512
# A task takes a cell after the other, each a second of work.
_CELLS_PER_TASK = 4


class Cells(NamedTuple):
    """The fingerprints, cut and sent where they belong.

    Attributes:
        frame: columns `cell` (int) and `values` (binary, see `spark_engine.pack`), by cell.
        plan: what the cells are.
    """

    frame: DataFrame
    plan: CellPlan


def find_pairs(
    fingerprints: DataFrame, distance: int, blocks: int | None = None, cell_rows: int = CELL_ROWS
) -> DataFrame:
    """Find all pairs of distinct fingerprints within a distance; as `selfjoin.find_all`.

    Args:
        fingerprints: column `fingerprint` (bigint), see `spark_engine`; repeated ones count once.
        distance: bits, 0 to 63.
        blocks: into which the 64 bits are cut, more than `distance`, up to 64; None for the
            number that is quickest for so many (`jointables.choose_join_blocks`).
        cell_rows: fingerprints that a task should hold at most, 8 bytes each and some five times
            that while it works.

    Returns:
        Columns `first`, `second` (bigint), the smaller one first as unsigned numbers, and
        `distance`, in bits; each pair once, in no order.

    Raises:
        ValueError: a distance or number of blocks that is out of range.
        SparkError: there is no column of that name and type.

    Cost: runs two jobs at once, which read the input and keep 8 bytes a fingerprint
    (`spark_engine.cut_lineage`), and one for the result. That one shuffles 8 bytes a fingerprint
    for each of the C(blocks, distance) tables; of those in a crowd, for the tables of the crowd.
    """
    cells = scatter_cells(fingerprints, distance, blocks, cell_rows)
    paths = cells.plan.paths

    def join(key: tuple[pa.Scalar], parts: pa.Table) -> pa.Table:
        ordered = sort_distinct(unpack(parts["values"].to_pylist()))
        pairs = join_cell(ordered, paths[key[0].as_py()], distance)
        return pa.table(
            {
                "first": to_bigint(pairs[:, 0]),
                "second": to_bigint(pairs[:, 1]),
                "distance": np.bitwise_count(pairs[:, 0] ^ pairs[:, 1]).astype(np.int32),
            }
        )

    # In a lambda, because Spark would look up annotations that are for the type checker only.
    return cells.frame.groupBy("cell").applyInArrow(
        lambda key, parts: join(key, parts),  # noqa: PLW0108
        PAIRS,
    )


def scatter_cells(
    fingerprints: DataFrame, distance: int, blocks: int | None, cell_rows: int
) -> Cells:
    """Cut the fingerprints into cells; arguments, errors and cost as of `find_pairs`."""
    check_join(distance, blocks)
    require_columns(fingerprints, "the input", fingerprint="bigint")
    packed = cut_lineage(
        fingerprints.select("fingerprint").mapInArrow(_pack, "values binary, rows bigint")
    )
    count = collect(packed.agg(F.coalesce(F.sum("rows"), F.lit(0)).alias("rows")))["rows"][0]
    if blocks is None:
        blocks = choose_join_blocks(count, distance) or distance + 1
    # All of what fits into a cell; of more, enough of each.
    rate = (
        1.0 if count <= _PACKED_ROWS else max(_SAMPLED_PER_CELL / cell_rows, _PACKED_ROWS / count)
    )
    rate = min(1.0, rate)
    sampled = packed.mapInArrow(lambda batches: _sample(batches, rate), "values binary")
    plan = plan_cells(unpack(collect(sampled)["values"]), rate, distance, blocks, cell_rows)
    scattered = packed.mapInArrow(
        lambda batches: _scatter(batches, plan), "cell int, values binary"
    )
    context = packed.sparkSession.sparkContext
    tasks = max(2 * context.defaultParallelism, len(plan.paths) // _CELLS_PER_TASK)
    return Cells(scattered.repartition(min(tasks, len(plan.paths)), "cell"), plan)


def read_packed(
    batches: Iterable[pa.RecordBatch], rows: int = _PACKED_ROWS
) -> Iterator[np.ndarray[tuple[int], np.dtype[np.uint64]]]:
    """Read a partition's fingerprints, its first column, in arrays of so many rows or some more."""
    gathered: list[np.ndarray[tuple[int], np.dtype[np.uint64]]] = []
    for batch in batches:
        gathered.append(to_unsigned(batch.column(0)))
        if sum(part.size for part in gathered) >= rows:
            yield np.concatenate(gathered)
            gathered = []
    if gathered:
        yield np.concatenate(gathered)


def _pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for values in read_packed(batches):
        # A fingerprint that half of all pages have comes once a row, not once a page.
        distinct = sort_distinct(values)
        yield pa.record_batch({"values": [pack(distinct)], "rows": [distinct.size]})


def _sample(batches: Iterable[pa.RecordBatch], rate: float) -> Iterator[pa.RecordBatch]:
    random = np.random.default_rng(0)
    for batch in batches:
        for packed in batch.column("values").to_pylist():
            values = unpack([packed])
            chosen = values[random.random(values.size) < rate]
            yield pa.record_batch({"values": [pack(chosen)]})


def _scatter(batches: Iterable[pa.RecordBatch], plan: CellPlan) -> Iterator[pa.RecordBatch]:
    schema = pa.schema({"cell": pa.int32(), "values": pa.binary()})
    for batch in batches:
        for packed in batch.column("values").to_pylist():
            for cut in plan.cuts:  # one table at a time: each makes a copy of the row
                parts = [(cell, pack(part)) for cell, part in cut.scatter(unpack([packed]))]
                if parts:
                    yield pa.record_batch(list(map(list, zip(*parts, strict=True))), schema=schema)
