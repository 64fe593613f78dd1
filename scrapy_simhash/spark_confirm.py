"""Confirmation on Spark: which pairs of fingerprints are near-duplicate documents.

The rule is the store's (`judge`, `confirm`), for every pair on its own. The sketches of a batch are
compared at once; titles and headings are looked at where the texts are alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from scrapy_simhash.confirm import confirm_alike
from scrapy_simhash.matching import MOST_CANDIDATES
from scrapy_simhash.sketch import compare_pairs
from scrapy_simhash.spark_engine import require_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import Column, DataFrame

_WITNESSES = ("url", "sketch", "title", "heading", "canonical", "words", "whole_words")
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
        documents: as `spark_pages.fingerprint_pages` returns them; of several with one `id` any
            one stands for all.
        pairs: of their fingerprints, as `spark_pairs.find_pairs` returns them.
        least: similarity that one of the texts must reach (SIMHASH_CONFIRM), 0 to 1; None to let
            the distance alone decide.

    Returns:
        A row for each pair: `first` and `second`, the ids, in ascending order; `first_url`,
        `second_url`; `distance` of their nearest fingerprints, in bits; `similarity`, null where
        none was compared; `tests`, what decided, for people. Documents with one fingerprint are
        pairs of distance 0, and of those too short for a simhash the ones with equal digests. Of
        more than 1,024 documents with one fingerprint only the first 1,024 by id are compared with
        all of these, and with documents of other fingerprints.

    Raises:
        SparkError: a column is missing.

    Cost: four joins, two of which move 512 bytes and the names of both documents of each
    candidate pair; 3 us of a core to compare the sketches of a pair, and 30 us more for its names.
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
    judged = documents.where("reason IS NULL").dropDuplicates(["id"])
    candidates = _find_candidates(judged, pairs)
    for side in _SIDES:
        columns = [F.col(name).alias(f"{side}_{name}") for name in _WITNESSES]
        candidates = candidates.join(judged.select(F.col("id").alias(side), *columns), side)
    return candidates.mapInArrow(lambda batches: _confirm(batches, least), CONFIRMED)


def _find_candidates(judged: DataFrame, pairs: DataFrame) -> DataFrame:
    """List pairs of ids, each once: `first`, `second`, `distance`, and whether both are `stub`."""
    # Stubs are alike by all of their digest, not by the half that is their fingerprint.
    key = F.when(F.col("stub"), F.col("text_digest")).alias("digest")
    postings = judged.select("id", "stub", key, F.explode("fingerprints").alias("fingerprint"))
    group = Window.partitionBy("fingerprint", "digest").orderBy("id")
    postings = postings.withColumn("place", F.row_number().over(group))
    heads = postings.where(F.col("place") <= MOST_CANDIDATES)
    left, right = heads.alias("left"), postings.alias("right")
    same = left.join(
        right,
        (F.col("left.fingerprint") == F.col("right.fingerprint"))
        & F.col("left.digest").eqNullSafe(F.col("right.digest"))
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
        answers = _answer_plain(batch) if least is None else _answer(batch, least)
        yield pa.RecordBatch.from_pylist(list(answers), _SCHEMA)


def _answer_plain(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    for row in batch.drop_columns([f"{side}_sketch" for side in _SIDES]).to_pylist():
        yield _make_answer(row, None, ())


def _answer(batch: pa.RecordBatch, least: float) -> Iterator[dict[str, Any]]:
    similar = compare_pairs(*(batch.column(f"{side}_sketch").to_pylist() for side in _SIDES))
    stubs = batch.column("stub").to_numpy(zero_copy_only=False)
    possible = np.flatnonzero(stubs | (np.maximum(similar.main, similar.whole) >= least))
    rows = batch.take(pa.array(possible)).to_pylist()
    for place, row in zip(possible.tolist(), rows, strict=True):
        if row["stub"]:
            yield _make_answer(row, None, ())
            continue
        main, whole = float(similar.main[place]), float(similar.whole[place])
        found = confirm_alike(_Witness(row, "first"), _Witness(row, "second"), main, whole, least)
        if found.confirmed:
            yield _make_answer(row, found.similarity, found.tests)


def _make_answer(
    row: dict[str, Any], similarity: float | None, tests: tuple[str, ...]
) -> dict[str, Any]:
    kind = "same short page" if row["stub"] else f"distance {row['distance']} bits"
    names = (*_SIDES, "first_url", "second_url", "distance")
    return {
        **{name: row[name] for name in names},
        "similarity": similarity,
        "tests": [kind, *tests],
    }


class _Witness:
    """One document of a row, as `confirm.Witnesses`."""

    def __init__(self, row: dict[str, Any], side: str) -> None:
        self.sketch: bytes = row[f"{side}_sketch"]
        self.url: str = row[f"{side}_url"]
        self.title: str = row[f"{side}_title"]
        self.heading: str = row[f"{side}_heading"]
        self.canonical: str = row[f"{side}_canonical"]
        self.words: int = row[f"{side}_words"]
        self.whole_words: int = row[f"{side}_whole_words"]
