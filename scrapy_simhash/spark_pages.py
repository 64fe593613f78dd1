"""Fingerprints and sketches of pages on Spark: whatever a page does, it is a row of the answer.

Each task has a process of its own that extracts, as a crawl has (`workers`): a page that hangs or
takes too much memory loses that process, and the next page gets another.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import xxhash
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from scrapy_simhash.documents import make_document
from scrapy_simhash.fingerprint import fingerprint_text, load_features, make_recipe
from scrapy_simhash.spark_engine import SparkError
from scrapy_simhash.text import PageText, UnjudgedError
from scrapy_simhash.workers import Workers, naming_reasons

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame

    from scrapy_simhash.config import Config
    from scrapy_simhash.fingerprint import PageFingerprint
    from scrapy_simhash.recipe import Recipe

_SCHEMA = pa.schema(
    {
        "id": pa.binary(),
        "url": pa.string(),
        "fingerprints": pa.list_(pa.int64()),
        "stub": pa.bool_(),
        "text_digest": pa.binary(),
        "sketch": pa.binary(),
        "link_sketch": pa.binary(),
        **dict.fromkeys(("title", "heading", "canonical", "language"), pa.string()),
        **dict.fromkeys(("features", "words", "whole_words"), pa.int32()),
        "time": pa.float64(),
        "reason": pa.string(),
        "detail": pa.string(),
    }
)
DOCUMENTS = (
    "id binary, url string, fingerprints array<bigint>, stub boolean, text_digest binary, "
    "sketch binary, link_sketch binary, title string, heading string, canonical string, "
    "language string, features int, words int, whole_words int, time double, reason string, "
    "detail string"
)
_INPUT = ("url", "html", "text", "encoding", "reason", "detail")
_TIMES = ("double", "timestamp")
# Rows of the answer that are sent on at once, 1 kB each.
_ROWS_PER_BATCH = 1_000
_RECIPE_KEY = "scrapy_simhash"


def fingerprint_pages(pages: DataFrame, config: Config, seed: int = 0) -> DataFrame:
    """Make documents of pages.

    Args:
        pages: column `url` (string), and `html` (binary or string) or `text` (string); may have
            `encoding`, that of `html` as the response declared it, `time` (double, seconds since
            1970, or timestamp), when it was fetched, and `reason` and `detail` where there is no
            page (`spark_sources`). Other columns are left out.
        config: recipe, limits of a page, and whether whole texts propose candidates, too.
        seed: of the token hash, 0 to 2**64 - 1; that of a store to compare with it.

    Returns:
        A row for each page: what `stored.Document` has, with `id`, a digest of the URL, as its
        identity. Pages without a fingerprint have `reason` (docs/reference.md, reasons of unjudged
        pages) and `detail` instead. The metadata of `fingerprints` name recipe and seed.

    Raises:
        SparkError: a column is missing.
        ValueError: the recipe names an extractor or feature set that does not exist.

    Cost: 60 ms of a core for a page of 100 kB, nearly all of it extraction; two seconds for each
    task to start. A task holds the pages of one Arrow batch: 64 MB, or a page if that is larger.
    """
    there = pages.columns
    if "url" not in there or not {"html", "text"} & set(there):
        raise SparkError(
            f"the input has no column url, or neither html nor text; it has {', '.join(there)}"
        )
    recipe = make_recipe(config.extractor, config.features)
    chosen = [F.col(name) for name in _INPUT if name in there]
    if dict(pages.dtypes).get("time") in _TIMES:
        chosen.append(F.col("time").cast("double").alias("time"))
    documents = pages.select(*chosen).mapInArrow(
        lambda batches: _fingerprint(batches, config, recipe, seed), DOCUMENTS
    )
    metadata = {_RECIPE_KEY: {"recipe": asdict(recipe), "seed": f"{seed:016x}"}}
    return documents.withMetadata("fingerprints", metadata)


def explode_fingerprints(documents: DataFrame) -> DataFrame:
    """List the fingerprints that documents are found by: columns `id` and `fingerprint`.

    Pages without one are left out, and so are those too short for a simhash: what stands for their
    fingerprint is half of a digest, which is near to nothing.
    """
    simhashed = documents.where("reason IS NULL AND NOT stub")
    return simhashed.select("id", F.explode("fingerprints").alias("fingerprint"))


def recipe_of(documents: DataFrame) -> dict[str, Any] | None:
    """Read with which recipe and seed documents were made; None where nothing says so."""
    if "fingerprints" not in documents.columns:
        return None
    found: dict[str, Any] | None = documents.schema["fingerprints"].metadata.get(_RECIPE_KEY)
    return found


def _fingerprint(
    batches: Iterable[pa.RecordBatch], config: Config, recipe: Recipe, seed: int
) -> Iterator[pa.RecordBatch]:
    # In a task there is one core, and the extracting process is all that it may keep busy.
    workers = Workers(1, config.page_timeout, config.page_memory)
    with asyncio.Runner() as runner:
        started = False
        try:
            rows = []
            for page in _read_rows(batches):
                if not started and page.get("html") is not None:
                    workers.start()
                    started = True
                rows.append(runner.run(_make_row(page, workers, config, recipe, seed)))
                if len(rows) == _ROWS_PER_BATCH:
                    yield pa.RecordBatch.from_pylist(rows, _SCHEMA)
                    rows = []
            if rows:
                yield pa.RecordBatch.from_pylist(rows, _SCHEMA)
        finally:
            workers.stop()


def _read_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    for batch in batches:
        for place in range(batch.num_rows):
            # One by one: as Python's own, all of a batch would take its memory a second time.
            yield {name: batch.column(name)[place].as_py() for name in batch.schema.names}


async def _make_row(
    page: Mapping[str, Any], workers: Workers, config: Config, recipe: Recipe, seed: int
) -> dict[str, Any]:
    url = page["url"] or ""
    row = {
        "id": xxhash.xxh3_128_digest(url.encode("utf-8", "replace")),
        "url": page["url"],
        "time": page.get("time"),
    }
    try:
        with naming_reasons(config):
            made = await _read_page(page, workers, config, recipe, seed)
    except UnjudgedError as error:
        return {**row, "reason": error.reason, "detail": error.detail}
    document = make_document(made, config)
    names = (name for name in _SCHEMA.names if name not in {*row, "reason", "detail"})
    values = {name: getattr(document, name) for name in names}
    # As bigint; see spark_engine.
    values["fingerprints"] = [bits - (bits >> 63 << 64) for bits in document.fingerprints]
    return {**row, **values}


async def _read_page(
    page: Mapping[str, Any], workers: Workers, config: Config, recipe: Recipe, seed: int
) -> PageFingerprint:
    url, html = page["url"], page.get("html")
    if page.get("reason"):
        raise UnjudgedError(page["reason"], page.get("detail") or "")
    if not url:
        raise UnjudgedError("no_url", "the row has none")
    body = page.get("text") if html is None else html
    if body is None:
        raise UnjudgedError("empty", "neither html nor text")
    octets = body.encode("utf-8", "replace") if isinstance(body, str) else body
    if len(octets) > config.max_bytes:
        raise UnjudgedError("too_large", f"{len(octets)} bytes")
    if html is None:
        return _read_text(octets.decode(), recipe, seed, url)
    encoding = "utf-8" if isinstance(html, str) else page.get("encoding")
    return await workers.fingerprint(octets, encoding, recipe, seed, url, keep_text=False)


def _read_text(text: str, recipe: Recipe, seed: int, url: str) -> PageFingerprint:
    """Fingerprint what is text already. It takes time by its length only: no process is needed."""
    if not text.strip():
        raise UnjudgedError("no_text")
    page = PageText(text, text, "", "", "", "", "", (), "", fell_back=False)
    return fingerprint_text(page, load_features(recipe.features), seed, url)
