"""Pairs, clusters and batch queries on Spark; one shuffle builds all tables of a self-join.

1. Each partition packs its fingerprints, sorted, into rows of a million.
2. The driver takes a sample and plans cells of bounded size (`batch.joins.tables`).
3. Each packed row is cut into these cells, once for each table; one task gets all parts of a cell,
   and joins them with `batch.joins.selfjoin`.

Only one cell yields each pair, so there are no duplicates to remove.

Fingerprints are `bigint` columns: Spark has no unsigned numbers, so those from 2**63 on are
negative there, with the same 64 bits. Comparisons treat them as unsigned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from scrapy_simhash.batch.joins import batch as one_process
from scrapy_simhash.batch.joins.selfjoin import join_cell
from scrapy_simhash.batch.joins.tables import CellPlan, check_join, choose_join_blocks, plan_cells
from scrapy_simhash.errors import InspectionError
from scrapy_simhash.pages.features import sort_distinct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray
    from pyspark import Broadcast
    from pyspark.sql import DataFrame, SparkSession

try:
    import pandas as pd  # noqa: F401 - PySpark asks for it before it calls Arrow functions
    import pyarrow as pa
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
except ImportError as error:
    raise ImportError(f"Spark needs pip install 'scrapy-simhash[spark]' ({error})") from error


def require_columns(frame: DataFrame, name: str, **wanted: str) -> None:
    """Refuse a DataFrame without columns of these types, such as `bigint` or `int|bigint`."""
    there = dict(frame.dtypes)
    wrong = [
        f"{column} ({kinds.replace('|', ' or ')})"
        for column, kinds in wanted.items()
        if there.get(column) not in kinds.split("|")
    ]
    if wrong:
        have = ", ".join(f"{column} ({kind})" for column, kind in there.items())
        raise InspectionError(f"{name} has no column {', '.join(wrong)}; it has {have or 'none'}")


def cut_lineage(frame: DataFrame) -> DataFrame:
    """Compute a DataFrame once, and keep it as long as something refers to it."""
    # In a checkpoint folder (spark.checkpoint.dir) it survives the loss of executors. Without such
    # a folder, executors keep it; if one of them is lost, the job fails and must be run again.
    context = frame.sparkSession.sparkContext
    if context.getCheckpointDir() is not None:
        return frame.checkpoint()
    return frame.localCheckpoint()


def open_file_system(spark: SparkSession, path: str) -> tuple[Any, Any]:
    """Get Hadoop's file system of a path that Spark can read, and Hadoop's form of the path."""
    context = spark.sparkContext
    wanted = context._jvm.org.apache.hadoop.fs.Path(path)  # noqa: SLF001 - PySpark has no other way
    return wanted.getFileSystem(context._jsc.hadoopConfiguration()), wanted  # noqa: SLF001


def collect(frame: DataFrame) -> dict[str, list[Any]]:
    """Collect a small DataFrame on the driver, as a list for each column."""
    columns: dict[str, list[Any]] = frame.toArrow().to_pydict()
    return columns


def to_unsigned(column: pa.Array) -> NDArray[np.uint64]:
    """Convert a `bigint` column to unsigned fingerprints, without nulls."""
    values: NDArray[np.int64] = column.drop_null().to_numpy(zero_copy_only=False)
    return values.view(np.uint64)


def to_bigint(fingerprints: NDArray[np.uint64]) -> pa.Array:
    """Convert fingerprints to a `bigint` column."""
    return pa.array(np.ascontiguousarray(fingerprints).view(np.int64))


def pack(values: NDArray[np.uint64]) -> bytes:
    """Pack many fingerprints into one `binary` value, which the shuffle moves faster than rows."""
    return values.astype("<u8").tobytes()


def unpack(packed: Iterable[bytes]) -> NDArray[np.uint64]:
    """Unpack the fingerprints of several packed values."""
    return np.frombuffer(b"".join(packed), "<u8").astype(np.uint64)


# Fingerprints in a cell, 8 MB: a task holds one cell at a time, in several copies while it sorts.
CELL_ROWS = 1 << 20
PAIRS = "first bigint, second bigint, distance int"
_PACKED_ROWS = 1 << 20
# Sampled fingerprints for each cell; fewer would make cells less even.
_SAMPLED_PER_CELL = 512
# A task joins its cells one after the other, about a second each.
_CELLS_PER_TASK = 4


def find_pairs(
    fingerprints: DataFrame, distance: int, blocks: int | None = None, cell_rows: int = CELL_ROWS
) -> DataFrame:
    """Find all pairs of distinct fingerprints within a distance, as `batch.joins` does."""
    # Columns `first` and `second` (first < second as unsigned numbers), and `distance` in bits;
    # each pair once, in no order. A task holds up to `cell_rows` fingerprints, in some five copies
    # while it works. Two jobs run immediately; they read the input and keep 8 bytes a fingerprint.
    # The job of the result shuffles 8 bytes a fingerprint for each of the C(blocks, distance)
    # tables, and more for the tables of a crowd. ValueError if distance or blocks are out of
    # range.
    cells, plan = scatter_cells(fingerprints, distance, blocks, cell_rows)
    paths = plan.paths

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

    # A lambda, because Spark would resolve annotations that are only for the type checker.
    return cells.groupBy("cell").applyInArrow(
        lambda key, parts: join(key, parts),  # noqa: PLW0108
        PAIRS,
    )


def scatter_cells(
    fingerprints: DataFrame, distance: int, blocks: int | None, cell_rows: int
) -> tuple[DataFrame, CellPlan]:
    """Cut the fingerprints into cells: `cell` (int) and `values` (binary, see `pack`), by cell."""
    check_join(distance, blocks)
    require_columns(fingerprints, "the input", fingerprint="bigint")
    packed = cut_lineage(
        fingerprints.select("fingerprint").mapInArrow(_pack, "values binary, rows bigint")
    )
    count = collect(packed.agg(F.coalesce(F.sum("rows"), F.lit(0)).alias("rows")))["rows"][0]
    if blocks is None:
        blocks = choose_join_blocks(count, distance) or distance + 1
    # The sample has everything if that fits into a cell, otherwise enough for each cell.
    rate = min(1.0, max(_SAMPLED_PER_CELL / cell_rows, _PACKED_ROWS / max(1, count)))
    sampled = packed.mapInArrow(lambda batches: _sample(batches, rate), "values binary")
    plan = plan_cells(unpack(collect(sampled)["values"]), rate, distance, blocks, cell_rows)
    scattered = packed.mapInArrow(
        lambda batches: _scatter(batches, plan), "cell int, values binary"
    )
    context = packed.sparkSession.sparkContext
    tasks = max(2 * context.defaultParallelism, len(plan.paths) // _CELLS_PER_TASK)
    return scattered.repartition(min(tasks, len(plan.paths)), "cell"), plan


def read_packed(
    batches: Iterable[pa.RecordBatch], rows: int = _PACKED_ROWS
) -> Iterator[np.ndarray[tuple[int], np.dtype[np.uint64]]]:
    """Read a partition's fingerprints, its first column, in arrays of at least `rows` rows."""
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
        # A fingerprint that half of all pages have is once in each packed row, not once a page.
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


# Large-star and small-star in turns (Kiveris, Lattanzi, Mirrokni, Rastogi, Vassilvitskii,
# "Connected Components in MapReduce and Beyond", SoCC 2014) shrink a component to a star around its
# least member. The paper proves O(log(n)**2) rounds and conjectures O(log n); a chain of 1,000
# members takes seven.

# Twice the log2 of the number of all 64-bit numbers.
_MOST_ROUNDS = 128


def find_clusters(pairs: DataFrame, progress: Callable[[int], object] | None = None) -> DataFrame:
    """Cluster members that pairs connect, directly or through others."""
    # A cluster may contain members that do not match each other, at the ends of a chain. Its name
    # is its least member in Spark's order (fingerprints from 2**63 on are negative there). Each
    # round takes a few jobs and shuffles the remaining edges twice; there are never more edges
    # than pairs.
    ends = ("first", "second")
    require_columns(pairs, "the table of pairs", **dict.fromkeys(ends, "bigint|binary"))
    edges = pairs.select(F.greatest(*ends).alias("member"), F.least(*ends).alias("parent"))
    edges = cut_lineage(edges.where("member != parent").distinct())
    for rounds in range(1, _MOST_ROUNDS + 1):
        edges = cut_lineage(_hook_to_parents(_hook_to_neighbours(edges)))
        if progress is not None:
            progress(rounds)
        if _are_stars(edges):
            break
    else:
        raise InspectionError(f"clusters are not complete after {_MOST_ROUNDS} rounds; report this")
    centres = edges.select(F.col("parent").alias("cluster"), F.col("parent").alias("member"))
    members = edges.select(F.col("parent").alias("cluster"), "member")
    return centres.distinct().union(members)


def _hook_to_neighbours(edges: DataFrame) -> DataFrame:
    """Large-star: connect each larger neighbour of a member to the least of its neighbourhood."""
    both = edges.union(edges.select("parent", "member")).toDF("centre", "neighbour")
    least = both.groupBy("centre").agg(F.min("neighbour").alias("parent"))
    least = least.withColumn("parent", F.least("centre", "parent"))
    larger = both.where("neighbour > centre")
    return larger.join(least, "centre").select(F.col("neighbour").alias("member"), "parent")


def _hook_to_parents(edges: DataFrame) -> DataFrame:
    """Small-star: connect a member and all of its parents to the least of them."""
    least = edges.groupBy("member").agg(F.min("parent").alias("least"))
    parents = edges.join(least, "member").where("parent != least")
    return (
        parents.select(F.col("parent").alias("member"), F.col("least").alias("parent"))
        .union(least.select("member", F.col("least").alias("parent")))
        .distinct()
    )


def _are_stars(edges: DataFrame) -> bool:
    """Return True if every member has one parent, and no parent has a parent."""
    below = edges.select(F.col("member").alias("end"), F.lit(1).alias("parents"))
    above = edges.select(F.col("parent").alias("end"), F.lit(0)).distinct()
    ends = below.union(above).groupBy("end")
    counted = ends.agg(F.sum("parents").alias("parents"), F.min("parents").alias("least"))
    return bool(counted.where("parents > 1 OR parents = 1 AND least = 0").isEmpty())


# Fingerprints that a task compares at a time, on its one core.
_ROWS_PER_CHUNK = 1 << 17


def batch_query(
    queries: DataFrame, fingerprints: DataFrame, distance: int, blocks: int | None = None
) -> DataFrame:
    """Find all fingerprints within a distance of any query, as `batch.joins` does."""
    # Columns `query`, `fingerprint` and `distance` in bits; each pair once, in no order. A job runs
    # immediately and collects the queries, 8 bytes each, on the driver. Each task holds 8 bytes a
    # query and up to 4 MB for each of the C(blocks, distance) tables, 120 MB with a million queries
    # and ten tables, and 80 bytes for each of its matches.
    check_join(distance, blocks)
    require_columns(queries, "the table of queries", fingerprint="bigint")
    require_columns(fingerprints, "the input", fingerprint="bigint")
    column = queries.select("fingerprint").toArrow().column("fingerprint")
    distinct = sort_distinct(to_unsigned(column.combine_chunks()))
    sent: Broadcast[bytes] = fingerprints.sparkSession.sparkContext.broadcast(pack(distinct))

    def answer(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        chunks = read_packed(batches, _ROWS_PER_CHUNK)
        rows = one_process.batch_query(unpack([sent.value]), chunks, distance, blocks)
        yield pa.record_batch(
            {
                "query": to_bigint(rows[:, 0]),
                "fingerprint": to_bigint(rows[:, 1]),
                "distance": pa.array(rows[:, 2].astype("int32")),
            }
        )

    # Each task scans its part of the fingerprints: only the matches are shuffled.
    found = fingerprints.select("fingerprint").mapInArrow(
        answer, "query bigint, fingerprint bigint, distance int"
    )
    # A fingerprint in two partitions is found in both.
    return found.distinct()
