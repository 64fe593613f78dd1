"""Confirm on Spark which pairs of near fingerprints are near-duplicate documents.

It applies the store's rule (`judge`, `confirm`) to every pair. The sketches of a batch are compared
at once; only if the texts are half alike, the store's own code goes on, with sites unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.pandas.types import from_arrow_schema

from scrapy_simhash.batch.spark.pairs import require_columns
from scrapy_simhash.judging.comparison import (
    LEAST_AGREED,
    LESS_OF_A_BOOK,
    UNKNOWN_SITES,
    compare,
    name_proposal,
)
from scrapy_simhash.judging.content import compare_contents
from scrapy_simhash.judging.documents import PageFacts
from scrapy_simhash.judging.judge import MOST_CANDIDATES
from scrapy_simhash.judging.rule import Rule
from scrapy_simhash.pages.sketch import compare_pairs
from scrapy_simhash.simhash import FINGERPRINT_BITS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import Column, DataFrame


# The facts that the rule needs if texts and names decide.
_FACTS = ("url", "sketch", "title", "heading", "shell", "words", "whole_words")
_SIDES = ("first", "second")
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
    """Find the near-duplicates among documents (see `pages`), given pairs of near fingerprints."""
    # Columns of _SCHEMA: the ids in ascending order, `distance` of their nearest fingerprints,
    # `similarity` (null if not compared) and `tests`, a readable reason. If `least` is None, the
    # distance alone decides. Documents with the same fingerprint are pairs with distance 0; if
    # there are more than 1,024, only the first 1,024 by id are compared with all of them, and with
    # documents of other fingerprints. A document too short for a simhash is paired only with the
    # first one by id with the same digest; other pairs follow from these. Cost: four joins, two of
    # which move 768 bytes and the names of both documents of each candidate pair; 3 us of a core to
    # compare the sketches of a pair, and 30 us more for its names. One task numbers all documents
    # of a fingerprint, and sorts their ids.
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
        columns = [F.col(name).alias(f"{side}_{name}") for name in _FACTS]
        candidates = candidates.join(judged.select(F.col("id").alias(side), *columns), side)
    return candidates.mapInArrow(
        lambda batches: _confirm(batches, least), from_arrow_schema(_SCHEMA)
    )


def _choose_versions(documents: DataFrame) -> DataFrame:
    """Choose one document for each id, by content: Spark may compute this several times."""
    versions = Window.partitionBy("id").orderBy("text_digest", "fingerprints", *_FACTS)
    ranked = documents.withColumn("version", F.row_number().over(versions))
    return ranked.where("version = 1").drop("version")


def list_postings(judged: DataFrame) -> DataFrame:
    """List the documents with each fingerprint, numbered by ascending id (`place`, from 1)."""
    # None of the `parts` has more than 1,024 documents of a fingerprint. Only stubs have a
    # `digest`: they must agree in all of it, not only in the half that is their fingerprint.
    key = F.when(F.col("stub"), F.col("text_digest")).alias("digest")
    postings = judged.select("id", "stub", key, F.explode("fingerprints").alias("fingerprint"))
    group = Window.partitionBy("fingerprint", "digest")
    return (
        postings.withColumn("place", F.row_number().over(group.orderBy("id")))
        .withColumn("parts", F.ceil(F.count("*").over(group) / MOST_CANDIDATES).cast("int"))
        .withColumn("part", F.col("place") % F.col("parts"))
    )


def _find_candidates(judged: DataFrame, pairs: DataFrame) -> DataFrame:
    """List each pair of ids once: `first`, `second`, `distance`, `stub` (both are stubs)."""
    postings = list_postings(judged)
    most = F.when(F.col("stub"), 1).otherwise(MOST_CANDIDATES)
    heads = postings.where(F.col("place") <= most)
    # To spread a fingerprint with very many documents over tasks, heads go to all of its parts.
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
    # A pair may be near by main text and by whole text.
    return both.groupBy(*ordered, "stub").agg(F.min("distance").alias("distance"))


def _confirm(batches: Iterable[pa.RecordBatch], least: float | None) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        plain = batch.column("stub")
        if least is not None:
            yield _answer_alike(batch.filter(pc.invert(plain)), Rule(FINGERPRINT_BITS, least))
            batch = batch.filter(plain)  # noqa: PLW2901 - what is left
        yield _answer_plain(batch)


def _answer_plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Let the distance, or equality, alone decide: all of these pairs are near or equal."""
    kinds = [
        [name_proposal(distance, stub=stub)]
        for distance, stub in zip(
            *(batch.column(name).to_pylist() for name in ("distance", "stub")), strict=True
        )
    ]
    return _complete(batch, [None] * batch.num_rows, kinds)


def _complete(
    batch: pa.RecordBatch, similarity: list[float | None], tests: list[list[str]]
) -> pa.RecordBatch:
    answer = {name: batch.column(name) for name in _SCHEMA.names if name in batch.schema.names}
    return pa.RecordBatch.from_pydict(answer | {"similarity": similarity, "tests": tests}, _SCHEMA)


def _answer_alike(batch: pa.RecordBatch, rule: Rule) -> pa.RecordBatch:
    """Let texts and names decide; compares names only if the texts are similar."""
    similar = compare_pairs(*(batch.column(f"{side}_sketch").to_pylist() for side in _SIDES))
    assert rule.confirm is not None  # noqa: S101 - otherwise texts do not decide
    # If less is alike, no reason of the rule holds.
    least = min(rule.confirm - LESS_OF_A_BOOK, *LEAST_AGREED.values())
    alike = np.flatnonzero(np.maximum(similar.main, similar.whole) >= least)
    near = batch.take(pa.array(alike))
    firsts, seconds = (_facts(near, side) for side in _SIDES)
    pairs = list(zip(firsts, seconds, strict=True))
    contents = compare_contents(pairs, [UNKNOWN_SITES] * len(pairs))
    found = [
        compare(first, second, rule, distance=distance, content=content)
        for (first, second), distance, content in zip(
            pairs, near.column("distance").to_pylist(), contents, strict=True
        )
    ]
    tests = [[each.proposal, *each.tests] for each in found]
    confirmed = pa.array([each.confirmed for each in found], pa.bool_())
    return _complete(near, [each.similarity for each in found], tests).filter(confirmed)


def _facts(batch: pa.RecordBatch, side: str) -> Iterator[PageFacts]:
    columns = (batch.column(f"{side}_{name}").to_pylist() for name in _FACTS)
    for row in zip(*columns, strict=True):
        yield PageFacts(b"", (), b"", **dict(zip(_FACTS, row, strict=True)))
