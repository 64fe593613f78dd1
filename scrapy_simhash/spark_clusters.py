"""Clusters on Spark: connected components of pairs, without bringing them to one machine.

Large-star and small-star in turns (Kiveris, Lattanzi, Mirrokni, Rastogi, Vassilvitskii, "Connected
Components in MapReduce and Beyond", SoCC 2014). Each round hooks every member to the least one that
it or its neighbours know of, so that a component shrinks to a star around its least member. The
paper proves O(log(n)**2) rounds and conjectures O(log n); a chain of a thousand takes seven.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from scrapy_simhash.spark_engine import SparkError, cut_lineage

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

# log2 of all 64-bit numbers, and as many again.
_MOST_ROUNDS = 128


def find_clusters(
    pairs: DataFrame,
    ends: tuple[str, str] = ("first", "second"),
    progress: Callable[[int], object] | None = None,
) -> DataFrame:
    """Put together what is connected by pairs, directly or through others.

    A cluster may hold members that do not match each other, at the ends of a chain.

    Args:
        pairs: as `spark_pairs.find_pairs` or `spark_confirm.confirm_pairs` return them, in any
            order and direction; pairs of a member with itself are passed over.
        ends: the two columns that are members, of one type that can be ordered.
        progress: is told after each round how many there were.

    Returns:
        Columns `cluster` and `member`, a row for each member: as `clusters.connected_clusters`,
        named by the least member in Spark's order (fingerprints from 2**63 on are negative there).

    Raises:
        SparkError: there are no such columns.

    Cost: a few jobs a round, each of which shuffles the edges that are left, twice; never more
    than there are pairs. What a round made is kept until the next one is done, see
    `spark_engine.cut_lineage`.
    """
    types = dict(pairs.dtypes)
    if missing := [end for end in ends if end not in types]:
        raise SparkError(
            f"the table of pairs has no column {', '.join(missing)}; it has {', '.join(types)}"
        )
    high, low = F.greatest(*ends), F.least(*ends)
    edges = pairs.select(high.alias("member"), low.alias("parent"))
    edges = cut_lineage(edges.where("member != parent").distinct())
    for rounds in range(1, _MOST_ROUNDS + 1):
        edges = cut_lineage(_hook_to_parents(_hook_to_neighbours(edges)))
        if progress is not None:
            progress(rounds)
        if _are_stars(edges):
            break
    else:
        raise SparkError(f"clusters are not found after {_MOST_ROUNDS} rounds; report this")
    centres = edges.select(F.col("parent").alias("cluster"), F.col("parent").alias("member"))
    members = edges.select(F.col("parent").alias("cluster"), "member")
    return centres.distinct().union(members)


def _hook_to_neighbours(edges: DataFrame) -> DataFrame:
    """Large-star: each larger neighbour goes to the least one of a member's neighbourhood."""
    both = edges.union(edges.select("parent", "member")).toDF("centre", "neighbour")
    least = both.groupBy("centre").agg(F.min("neighbour").alias("parent"))
    least = least.withColumn("parent", F.least("centre", "parent"))
    larger = both.where("neighbour > centre")
    return larger.join(least, "centre").select(F.col("neighbour").alias("member"), "parent")


def _hook_to_parents(edges: DataFrame) -> DataFrame:
    """Small-star: a member and all of its parents go to the least one of these."""
    least = edges.groupBy("member").agg(F.min("parent").alias("least"))
    parents = edges.join(least, "member").where("parent != least")
    return (
        parents.select(F.col("parent").alias("member"), F.col("least").alias("parent"))
        .union(least.select("member", F.col("least").alias("parent")))
        .distinct()
    )


def _are_stars(edges: DataFrame) -> bool:
    """Say whether every member has one parent, and no parent has one."""
    below = edges.select(F.col("member").alias("end"), F.lit(1).alias("parents"))
    above = edges.select(F.col("parent").alias("end"), F.lit(0)).distinct()
    ends = below.union(above).groupBy("end")
    counted = ends.agg(F.sum("parents").alias("parents"), F.min("parents").alias("least"))
    return bool(counted.where("parents > 1 OR parents = 1 AND least = 0").isEmpty())
