"""Confirmation on Spark: which pairs of fingerprints are near-duplicate documents.

The rule is the store's (`judge`, `confirm`), for every pair on its own. The sketches of a batch are
compared at once; only where the texts are alike the store's own rule looks at titles and headings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from scrapy_simhash.confirm import confirm_alike
from scrapy_simhash.matching import MOST_CANDIDATES
from scrapy_simhash.sketch import compare_pairs
from scrapy_simhash.spark_engine import require_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import Column, DataFrame


class _Witness(NamedTuple):
    """One document of a pair, as `confirm.Witnesses`."""

    url: str
    sketch: bytes
    title: str
    heading: str
    canonical: str
    words: int
    whole_words: int


_SIDES = ("first", "second")
CONFIRMED = (
    "first binary, second binary, first_url string, second_url string, distance int, "
    "similarity double, tests array<string>"
)
_SCHEMA = pa.schema(
    {
        **dict.fromkeys(_SIDES, pa.binary()),
        **{f"{side}_url": pa.string() for side in _SIDES},
        "distance": pa.int32(),
        "similarity": pa.float64(),
        "tests": pa.list_(pa.string()),
    }
)


def confirm_pairs(documents: DataFrame, pairs: DataFrame, least: float | None) -> DataFrame:
    """Find the near-duplicates among the documents whose fingerprints are near.

    Args:
        documents: as `spark_pages.fingerprint_pages` returns them; of several with one `id` the
            one with the least digest stands for all, the same one in every run.
        pairs: of their fingerprints, as `spark_pairs.find_pairs` returns them.
        least: similarity that one of the texts must reach (SIMHASH_CONFIRM), 0 to 1; None to let
            the distance alone decide.

    Returns:
        A row for each pair: `first` and `second`, the ids, in ascending order; `first_url`,
        `second_url`; `distance` of their nearest fingerprints, in bits; `similarity`, null where
        none was compared; `tests`, what decided, for people. Documents with one fingerprint are
        pairs of distance 0. Of more than 1,024 of them only the first 1,024 by id are compared with
        all of these, and with documents of other fingerprints. Of those too short for a simhash
        each is a pair with the first by id that has the same digest: the others follow from that.

    Raises:
        SparkError: a column is missing.

    Cost: four joins, two of which move 512 bytes and the names of both documents of each
    candidate pair; 3 us of a core to compare the sketches of a pair, and 30 us more for its names.
    To number the documents of one fingerprint takes one task, which sorts their ids.
    """
    require_columns(pairs, "the table of pairs", first="bigint", second="bigint", distance="int")
    require_columns(
        documents,
        "the table of documents",
        id="binary",
        fingerprints="array<bigint>",
        stub="boolean",
        sketch="binary",
        text_digest="binary",
    )
    judged = _choose_versions(documents.where("reason IS NULL"))
    candidates = _find_candidates(judged, pairs)
    for side in _SIDES:
        columns = [F.col(name).alias(f"{side}_{name}") for name in _Witness._fields]
        candidates = candidates.join(judged.select(F.col("id").alias(side), *columns), side)
    return candidates.mapInArrow(lambda batches: _confirm(batches, least), CONFIRMED)


def _choose_versions(documents: DataFrame) -> DataFrame:
    """Choose one of the documents of each id, by what they are: Spark may look several times."""
    versions = Window.partitionBy("id").orderBy("text_digest", "fingerprints", *_Witness._fields)
    ranked = documents.withColumn("version", F.row_number().over(versions))
    return ranked.where("version = 1").drop("version")


def list_postings(judged: DataFrame) -> DataFrame:
    """List the documents that have each fingerprint, numbered by their ids.

    Returns:
        Columns `id`, `stub`, `fingerprint`, `digest` (of stubs), `place` from 1, and `part`, from 0
        to below `parts`: so many that one has at most 1,024 documents of a fingerprint.
    """
    # Stubs are alike by all of their digest, not by the half that is their fingerprint.
    key = F.when(F.col("stub"), F.col("text_digest")).alias("digest")
    postings = judged.select("id", "stub", key, F.explode("fingerprints").alias("fingerprint"))
    group = Window.partitionBy("fingerprint", "digest")
    return (
        postings.withColumn("place", F.row_number().over(group.orderBy("id")))
        .withColumn("parts", F.ceil(F.count("*").over(group) / MOST_CANDIDATES).cast("int"))
        .withColumn("part", F.col("place") % F.col("parts"))
    )


def _find_candidates(judged: DataFrame, pairs: DataFrame) -> DataFrame:
    """List pairs of ids, each once: `first`, `second`, `distance`, and whether both are `stub`."""
    postings = list_postings(judged)
    most = F.when(F.col("stub"), 1).otherwise(MOST_CANDIDATES)
    heads = postings.where(F.col("place") <= most)
    # A fingerprint that very many documents have is no single task's: heads go to all of its parts.
    sent = heads.withColumn("part", F.explode(F.sequence(F.lit(0), F.col("parts") - 1)))
    left, right = sent.alias("left"), postings.alias("right")
    same = left.join(
        right,
        (F.col("left.fingerprint") == F.col("right.fingerprint"))
        & F.col("left.digest").eqNullSafe(F.col("right.digest"))
        & (F.col("left.part") == F.col("right.part"))
        & (F.col("left.place") < F.col("right.place")),
    ).select("left.id", "right.id", F.lit(0), "left.stub")
    simhashed = heads.where("NOT stub")
    near = pairs.select("first", "second", "distance")
    for side in _SIDES:
        ids = simhashed.select(F.col("fingerprint").alias(side), F.col("id").alias(f"{side}_id"))
        near = near.join(ids, side)
    near = near.select("first_id", "second_id", "distance", F.lit(False))  # noqa: FBT003
    both = same.union(near).toDF("one", "other", "distance", "stub").where("one != other")
    ordered: tuple[Column, ...] = (
        F.least("one", "other").alias("first"),
        F.greatest("one", "other").alias("second"),
    )
    # Near by their main texts and by their whole ones.
    return both.groupBy(*ordered, "stub").agg(F.min("distance").alias("distance"))


def _confirm(batches: Iterable[pa.RecordBatch], least: float | None) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        plain = batch.column("stub")
        if least is not None:
            yield _answer_alike(batch.filter(pc.invert(plain)), least)
            batch = batch.filter(plain)  # noqa: PLW2901 - what is left
        yield _answer_plain(batch)


def _answer_plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Let distance, or equality, alone decide."""
    bits = pc.cast(batch.column("distance"), pa.string())
    near = pc.binary_join_element_wise("distance", bits, "bits", " ")
    kinds = pc.if_else(batch.column("stub"), "same short page", near)
    ends = pa.array(np.arange(batch.num_rows + 1, dtype=np.int32))
    answer = {name: batch.column(name) for name in _SCHEMA.names if name in batch.schema.names}
    answer["similarity"] = pa.nulls(batch.num_rows, pa.float64())
    answer["tests"] = pa.ListArray.from_arrays(ends, kinds)
    return pa.RecordBatch.from_pydict(answer, _SCHEMA)


def _answer_alike(batch: pa.RecordBatch, least: float) -> pa.RecordBatch:
    """Confirm those whose texts are alike."""
    similar = compare_pairs(*(batch.column(f"{side}_sketch").to_pylist() for side in _SIDES))
    alike = np.flatnonzero(np.maximum(similar.main, similar.whole) >= least)
    near = batch.take(pa.array(alike))
    texts = similar.main[alike].tolist(), similar.whole[alike].tolist()
    found = [
        confirm_alike(first, second, main, whole, least)
        for first, second, main, whole in zip(
            *(_witnesses(near, side) for side in _SIDES), *texts, strict=True
        )
    ]
    answer = _answer_plain(near).to_pydict()
    answer["similarity"] = [each.similarity for each in found]
    answer["tests"] = [
        [*kind, *each.tests] for kind, each in zip(answer["tests"], found, strict=True)
    ]
    confirmed = pa.array([each.confirmed for each in found], pa.bool_())
    return pa.RecordBatch.from_pydict(answer, _SCHEMA).filter(confirmed)


def _witnesses(batch: pa.RecordBatch, side: str) -> Iterator[_Witness]:
    columns = (batch.column(f"{side}_{name}").to_pylist() for name in _Witness._fields)
    return map(_Witness._make, zip(*columns, strict=True))
