"""Confirm on Spark which pairs of documents, near or called alike, are near-duplicates.

The rule judges each pair by its words, as those of hosts of which a store knows nothing yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.pandas.types import from_arrow_schema

from scrapy_simhash.batch.spark.pairs import cut_lineage, require_columns
from scrapy_simhash.judging.matching import MOST_CALLED, compare_by_words, name_proposal
from scrapy_simhash.pages.facts import FINGERPRINT_BITS, Facts, unpack
from scrapy_simhash.stores.documents import MOST_CANDIDATES
from scrapy_simhash.stores.keys import list_parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import Column, DataFrame

    from scrapy_simhash.judging.documents import Rule

# What the rule needs of a document.
_FACTS = (
    *("fingerprints", "text_digest", "url", "title", "heading", "language", "wording"),
    *("canonical", "views", "data_fingerprint", "hidden", "stub"),
)
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


def confirm_pairs(documents: DataFrame, pairs: DataFrame, rule: Rule) -> DataFrame:
    """Find the near-duplicates among documents (see `pages`), given pairs of near fingerprints."""
    # Columns of _SCHEMA: the ids in ascending order, `distance` of their nearest fingerprints,
    # `similarity` (null if not compared) and `tests`, a readable reason. In plain simhash the
    # distance alone decides. Documents with the same fingerprint are pairs with distance 0; if
    # there are more than 512, only the first 512 by id are compared with all of them, and with
    # documents of other fingerprints. A document too short for a simhash is paired only with the
    # first one by id with the same digest; other pairs follow from these. Cost: candidates are
    # kept, 40 bytes each; two joins move the words of both documents of each pair, 3 kB each; two
    # milliseconds of a core to compare a pair. One task numbers all documents of a fingerprint,
    # and sorts their ids.
    require_columns(pairs, "the table of pairs", first="bigint", second="bigint", distance="int")
    require_columns(
        documents,
        "the table of documents",
        id="binary",
        fingerprints="array<bigint>",
        stub="boolean",
        wording="binary",
        text_digest="binary",
        host="string",
        called="array<binary>",
    )
    judged = _choose_versions(documents.where("reason IS NULL"))
    candidates = cut_lineage(_find_candidates(judged, pairs, named=rule.by_words))
    for side in _SIDES:
        columns = [F.col(name).alias(f"{side}_{name}") for name in _FACTS]
        candidates = candidates.join(judged.select(F.col("id").alias(side), *columns), side)
    return candidates.mapInArrow(
        lambda batches: _confirm(batches, rule), from_arrow_schema(_SCHEMA)
    )


def _choose_versions(documents: DataFrame) -> DataFrame:
    """Choose one document for each id, by content: Spark may compute this several times."""
    versions = Window.partitionBy("id").orderBy(*_FACTS)
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


def _find_candidates(judged: DataFrame, pairs: DataFrame, *, named: bool) -> DataFrame:
    """List each pair of ids once: `first`, `second`, `distance`, `alone` (both are stubs)."""
    # The distance of those that are only called alike is null.
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
        ids = simhashed.select("fingerprint", "id").toDF(side, f"{side}_id")
        near = near.join(ids, side)
    near = near.selectExpr("first_id", "second_id", "distance", "false")
    found = same.union(near)
    if named:
        found = found.union(_find_called_alike(judged))
    both = found.toDF("one", "other", "distance", "alone").where("one != other")
    ordered: tuple[Column, ...] = (
        F.least("one", "other").alias("first"),
        F.greatest("one", "other").alias("second"),
    )
    # A pair may be near by main text and by whole text, and called alike.
    return both.groupBy(*ordered, "alone").agg(F.min("distance").alias("distance"))


def _find_called_alike(judged: DataFrame) -> DataFrame:
    """Pair the documents of a host that have a part of a name in common, if they are few."""
    names = judged.where("NOT stub").select("id", F.explode("called").alias("name"))
    few = names.groupBy("name").count().where(F.col("count").between(2, MOST_CALLED + 1))
    called = names.join(few, "name").groupBy("name").agg(F.collect_set("id").alias("ids"))
    pairs = called.select(F.explode("ids").alias("one"), "ids").select(
        "one", F.explode("ids").alias("other")
    )
    return pairs.where("one < other").selectExpr("*", "cast(null AS int)", "false")


def _confirm(batches: Iterable[pa.RecordBatch], rule: Rule) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        alone = batch.column("alone") if rule.by_words else pa.array([True] * batch.num_rows)
        yield _answer_plain(batch.filter(alone))
        yield _answer_by_words(batch.filter(pc.invert(alone)))


def _answer_plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Let the distance, or equality, alone decide: all of these pairs are near or equal."""
    kinds = [
        [name_proposal(distance, stub=stub)]
        for distance, stub in zip(
            *(batch.column(name).to_pylist() for name in ("distance", "alone")), strict=True
        )
    ]
    return _complete(batch, [None] * batch.num_rows, kinds)


def _complete(
    batch: pa.RecordBatch, similarity: list[float | None], tests: list[list[str]]
) -> pa.RecordBatch:
    answer = {name: batch.column(name) for name in _SCHEMA.names if name in batch.schema.names}
    return pa.RecordBatch.from_pydict(answer | {"similarity": similarity, "tests": tests}, _SCHEMA)


def _answer_by_words(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Let words and names decide."""
    found = [
        compare_by_words(first, second, (unpack(mine), unpack(theirs)), name=name)
        for (first, mine), (second, theirs) in zip(
            *(_read(batch, side) for side in _SIDES), strict=True
        )
        for name in [_name_alike(first, second)]
    ]
    near = pa.array([answer.distance for answer in found], pa.int32())
    named = batch.set_column(batch.schema.get_field_index("distance"), "distance", near)
    confirmed = pa.array([answer.status == "near_duplicate" for answer in found], pa.bool_())
    similarity, tests = [each.similarity for each in found], [each.tests for each in found]
    return _complete(named, similarity, tests).filter(confirmed)


def _read(batch: pa.RecordBatch, side: str) -> Iterator[tuple[Facts, bytes]]:
    columns = (batch.column(f"{side}_{name}").to_pylist() for name in _FACTS)
    for row in zip(*columns, strict=True):
        facts = dict(zip(_FACTS, row, strict=True))
        signed, wording = facts.pop("fingerprints"), facts.pop("wording")
        yield Facts(b"", signed[-1] % 2**FINGERPRINT_BITS, **facts), wording


def _name_alike(first: Facts, second: Facts) -> str:
    """Find a part that the names of two pages have in common; "" if there is none."""
    mine, theirs = (list_parts(page.title, page.heading) for page in (first, second))
    return next((name for part, name in mine.items() if part in theirs), "")
