"""Confirm on Spark which pairs of documents, near or called alike, are near-duplicates.

A first pass samples the documents of each host; then the store's rule judges each pair, by the
samples of both sites.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.pandas.types import from_arrow_schema

from scrapy_simhash._fingerprints import FINGERPRINT_BITS
from scrapy_simhash.batch.spark.pairs import cut_lineage, require_columns
from scrapy_simhash.judging.comparison import Context, compare, compare_contents, name_proposal
from scrapy_simhash.judging.judge import MOST_CALLED, MOST_CANDIDATES
from scrapy_simhash.judging.names import list_parts
from scrapy_simhash.judging.rule import Rule
from scrapy_simhash.judging.sites import SAMPLE, Site
from scrapy_simhash.pages.facts import Facts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import Column, DataFrame


# The facts that the rule needs if texts and names decide.
_FACTS = (
    *("fingerprints", "text_digest", "url", "sketch"),
    *("title", "heading", "data_fingerprint", "words", "whole_words"),
)
# Those that describe a site.
_SITE = ("sketch", "title", "heading")
# Pairs whose bins are in memory at once, 20 kB each; sites that a task remembers, 10 kB each.
_PAIRS_AT_ONCE = 1_024
_SITES_REMEMBERED = 1_024
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
    # there are more than 512, only the first 512 by id are compared with all of them, and with
    # documents of other fingerprints. A document too short for a simhash is paired only with the
    # first one by id with the same digest; other pairs follow from these. Cost: candidates are
    # kept, 40 bytes each; two joins move 1.3 kB and the names of both documents of each pair,
    # and two bring it the samples of both hosts, 13 kB each; 100 us of a core to compare a pair.
    # One task numbers all documents of a fingerprint, and sorts their ids.
    require_columns(pairs, "the table of pairs", first="bigint", second="bigint", distance="int")
    require_columns(
        documents,
        "the table of documents",
        id="binary",
        fingerprints="array<bigint>",
        stub="boolean",
        sketch="binary",
        text_digest="binary",
        host="string",
        called="array<binary>",
    )
    judged = _choose_versions(documents.where("reason IS NULL"))
    candidates = cut_lineage(_find_candidates(judged, pairs, named=least is not None))
    samples = _sample_hosts(judged, candidates)
    for side in _SIDES:
        columns = [F.col(name).alias(f"{side}_{name}") for name in (*_FACTS, "host")]
        candidates = candidates.join(judged.select(F.col("id").alias(side), *columns), side)
        if least is not None:
            sample = samples.toDF(f"{side}_host", f"{side}_sample")
            candidates = candidates.join(sample, f"{side}_host", "left")
    return candidates.mapInArrow(
        lambda batches: _confirm(batches, least), from_arrow_schema(_SCHEMA)
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
    postings = judged.select(
        "id", "host", "stub", key, F.explode("fingerprints").alias("fingerprint")
    )
    group = Window.partitionBy("fingerprint", "digest")
    return (
        postings.withColumn("place", F.row_number().over(group.orderBy("id")))
        .withColumn("parts", F.ceil(F.count("*").over(group) / MOST_CANDIDATES).cast("int"))
        .withColumn("part", F.col("place") % F.col("parts"))
    )


def _find_candidates(judged: DataFrame, pairs: DataFrame, *, named: bool) -> DataFrame:
    """List each pair of ids once: `first`, `second`, `distance`, `stub` (both are stubs)."""
    # The distance of those that are only called alike is null; `one_host` is whether both have one.
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
    ).select("left.id", "right.id", F.lit(0), "left.stub", F.expr("left.host = right.host"))
    simhashed = heads.where("NOT stub")
    near = pairs.select("first", "second", "distance")
    for side in _SIDES:
        ids = simhashed.select("fingerprint", "id", "host").toDF(side, f"{side}_id", f"{side}_host")
        near = near.join(ids, side)
    near = near.selectExpr("first_id", "second_id", "distance", "false", "first_host = second_host")
    found = same.union(near)
    if named:
        found = found.union(_find_called_alike(judged))
    both = found.toDF("one", "other", "distance", "stub", "one_host").where("one != other")
    ordered: tuple[Column, ...] = (
        F.least("one", "other").alias("first"),
        F.greatest("one", "other").alias("second"),
    )
    # A pair may be near by main text and by whole text, and called alike.
    return both.groupBy(*ordered, "stub", "one_host").agg(F.min("distance").alias("distance"))


def _find_called_alike(judged: DataFrame) -> DataFrame:
    """Pair the documents of a host that have a part of a name in common, if they are few."""
    names = judged.where("NOT stub").select("id", F.explode("called").alias("name"))
    few = names.groupBy("name").count().where(F.col("count").between(2, MOST_CALLED + 1))
    called = names.join(few, "name").groupBy("name").agg(F.collect_set("id").alias("ids"))
    pairs = called.select(F.explode("ids").alias("one"), "ids").select(
        "one", F.explode("ids").alias("other")
    )
    return pairs.where("one < other").selectExpr("*", "cast(null AS int)", "false", "true")


def _sample_hosts(judged: DataFrame, candidates: DataFrame) -> DataFrame:
    """Sample each host: `host`, and `sample` with the facts of some documents about their site."""
    # Of documents near to each other only the first by id is drawn: a store leaves near-duplicates
    # out. Two more than a store draws: the two that are compared tell nothing.
    near = candidates.where("one_host AND distance IS NOT NULL").selectExpr("second AS id")
    alone = (
        judged.where("host != '' AND NOT stub")
        .select("id", "host", *_SITE)
        .join(near, "id", "left_anti")
    )
    order = Window.partitionBy("host").orderBy(F.xxhash64("id"), "id")
    drawn = alone.withColumn("place", F.row_number().over(order)).where(
        F.col("place") <= SAMPLE + len(_SIDES)
    )
    sample = F.sort_array(F.collect_list(F.struct("place", "id", *_SITE)))
    return drawn.groupBy("host").agg(sample.alias("sample"))


def _confirm(batches: Iterable[pa.RecordBatch], least: float | None) -> Iterator[pa.RecordBatch]:
    sites = _Sites()
    for batch in batches:
        plain = batch.column("stub")
        if least is not None:
            texts = batch.filter(pc.invert(plain))
            for start in range(0, texts.num_rows, _PAIRS_AT_ONCE):
                yield _answer_alike(texts.slice(start, _PAIRS_AT_ONCE), least, sites)
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


def _answer_alike(batch: pa.RecordBatch, least: float, sites: _Sites) -> pa.RecordBatch:
    """Let texts and names decide, as the samples of their hosts tell both sites."""
    pairs = list(zip(*(_facts(batch, side) for side in _SIDES), strict=True))
    contexts = [sites.find(batch, row, _name_alike(*pair)) for row, pair in enumerate(pairs)]
    contents = compare_contents(pairs, [context.sites for context in contexts])
    found = [
        # Those of `pairs` are near, whatever its distance.
        compare(
            first,
            second,
            Rule(0 if distance is None else FINGERPRINT_BITS, least),
            context=context,
            content=content,
        )
        for (first, second), distance, context, content in zip(
            pairs, batch.column("distance").to_pylist(), contexts, contents, strict=True
        )
    ]
    near = pa.array([result.evidence.distance for result in found], pa.int32())
    named = batch.set_column(batch.schema.get_field_index("distance"), "distance", near)
    tests = [[result.proposal, *result.tests] for result in found]
    confirmed = pa.array([result.duplicate for result in found], pa.bool_())
    return _complete(named, [result.similarity for result in found], tests).filter(confirmed)


def _facts(batch: pa.RecordBatch, side: str) -> Iterator[Facts]:
    columns = (batch.column(f"{side}_{name}").to_pylist() for name in _FACTS)
    for row in zip(*columns, strict=True):
        facts = dict(zip(_FACTS, row, strict=True))
        signed = facts.pop("fingerprints")
        yield Facts(b"", signed[-1] % 2**FINGERPRINT_BITS, **facts)


def _name_alike(first: Facts, second: Facts) -> str:
    """Find a part that the names of two pages have in common; "" if there is none."""
    mine, theirs = (list_parts(page.title, page.heading) for page in (first, second))
    return next((name for part, name in mine.items() if part in theirs), "")


class _Sites:
    """Makes the sites of pairs, as all but these two documents tell them, and remembers some."""

    def __init__(self) -> None:
        self._samples: dict[str, list[dict[str, Any]]] = {}
        self._made: dict[tuple[str, frozenset[bytes]], Site] = {}

    def find(self, batch: pa.RecordBatch, row: int, name: str) -> Context:
        """Find what is known of the two documents of a row, which have a part `name`."""
        two = {batch.column(side)[row].as_py() for side in _SIDES}
        first, second = (self._find(batch, row, side, two) for side in _SIDES)
        return Context.of(first, second, name=name)

    def _find(self, batch: pa.RecordBatch, row: int, side: str, two: set[bytes]) -> Site:
        host = batch.column(f"{side}_host")[row].as_py()
        if host not in self._samples:
            if len(self._made) > _SITES_REMEMBERED:
                self._samples.clear()
                self._made.clear()
            self._samples[host] = batch.column(f"{side}_sample")[row].as_py() or []
        drawn = self._samples[host]
        key = host, frozenset(two.intersection(page["id"] for page in drawn))
        if key not in self._made:
            others = [page for page in drawn if page["id"] not in two][:SAMPLE]
            self._made[key] = Site(
                {
                    page["place"]: Facts(b"", 0, b"", **{name: page[name] for name in _SITE})
                    for page in others
                }
            )
        return self._made[key]
