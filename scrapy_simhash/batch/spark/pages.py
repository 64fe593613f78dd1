"""Read pages on Spark, and make their fingerprints and sketches. Each page becomes a row.

As in a crawl (`judge.client`), each task reads in a separate process: a page that hangs or takes
too much memory loses that process, and the next page gets another.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, get_type_hints

import pyarrow as pa
import xxhash
from msgspec import structs
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.pandas.types import from_arrow_schema
from w3lib.encoding import http_content_type_encoding

from scrapy_simhash._printable import describe_error
from scrapy_simhash.batch.spark.pairs import open_file_system, require_columns
from scrapy_simhash.errors import InspectionError, NotJudgedError
from scrapy_simhash.judge.client import Judges
from scrapy_simhash.judge.messages import Open
from scrapy_simhash.judging.documents import list_fingerprints, make_document
from scrapy_simhash.pages.addresses import host_of
from scrapy_simhash.pages.facts import MOST_BYTES, Facts, Fetched, Recipe
from scrapy_simhash.pages.fingerprint import fingerprint_text
from scrapy_simhash.pages.turbohtml_reader import PageText
from scrapy_simhash.stores.keys import name_keys
from scrapy_simhash.stores.opening import MEMORY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from scrapy_simhash.config import Config
    from scrapy_simhash.pages.facts import PageFingerprint


# Arrow's types for the facts of a document.
_KINDS: dict[object, pa.DataType] = {
    bytes: pa.binary(),
    str: pa.string(),
    bool: pa.bool_(),
    int: pa.int32(),
    float: pa.float64(),
    tuple[int, ...]: pa.list_(pa.int64()),
    tuple[bytes, ...]: pa.list_(pa.binary()),
}
# The facts of a document in a row of Parquet.
_FACT_COLUMNS: dict[str, Any] = {
    name: kind
    for name, kind in get_type_hints(Facts).items()
    if name not in {"identity", "fingerprint", "scope", "reader"}
} | {"fingerprints": tuple[int, ...], "wording": bytes}
# `host` and `called` are those of the page and of its names, for pages of one host.
_COLUMNS = {
    "id": bytes,
    **_FACT_COLUMNS,
    "host": str,
    "called": tuple[bytes, ...],
    "reason": str,
    "detail": str,
}
_SCHEMA = pa.schema({name: _KINDS[kind] for name, kind in _COLUMNS.items()})
DOCUMENTS = from_arrow_schema(_SCHEMA)
_INPUT = ("url", "html", "text", "encoding", "reason", "detail")
_TIMES = ("double", "timestamp")
# Rows of the result that are passed on together, 1 kB each.
_ROWS_PER_BATCH = 1_000
_RECIPE_KEY = "scrapy_simhash"


def fingerprint_pages(pages: DataFrame, config: Config, seed: int = 0) -> DataFrame:
    """Turn pages into documents, a row each; `id`, a digest of the URL, identifies a document."""
    # Input columns: `url` (string), and `html` (binary or string) or `text` (string); optionally
    # `encoding` (of `html`, declared by the response), `time` of the fetch (timestamp, or double:
    # seconds since 1970), and `reason` and `detail` for rows without a page. In the result, rows
    # without a fingerprint have `reason` and `detail`. The metadata of `fingerprints` name recipe
    # and seed. Cost: 60 ms of a core for a page of 100 kB, nearly all of it extraction; two seconds
    # to start each task. A task holds the pages of one Arrow batch: 64 MB, or a page if that is
    # larger.
    there = pages.columns
    if "url" not in there or not {"html", "text"} & set(there):
        raise InspectionError(
            f"the input has no column url, or neither html nor text; it has {', '.join(there)}"
        )
    chosen = [F.col(name) for name in _INPUT if name in there]
    if dict(pages.dtypes).get("time") in _TIMES:
        chosen.append(F.col("time").cast("double").alias("time"))
    documents = pages.select(*chosen).mapInArrow(
        lambda batches: _fingerprint(batches, config, seed), DOCUMENTS
    )
    metadata = {_RECIPE_KEY: {"recipe": structs.asdict(Recipe()), "seed": f"{seed:016x}"}}
    return documents.withMetadata("fingerprints", metadata)


def explode_fingerprints(documents: DataFrame) -> DataFrame:
    """List the fingerprints by which documents are found: columns `id` and `fingerprint`."""
    # Not those of pages too short for a simhash: they are half of a digest, and distances between
    # digests mean nothing.
    simhashed = documents.where("reason IS NULL AND NOT stub")
    return simhashed.select("id", F.explode("fingerprints").alias("fingerprint"))


def recipe_of(documents: DataFrame) -> dict[str, Any] | None:
    """Return the recipe and seed of documents, or None."""
    if "fingerprints" not in documents.columns:
        return None
    found: dict[str, Any] | None = documents.schema["fingerprints"].metadata.get(_RECIPE_KEY)
    return found


def _fingerprint(
    batches: Iterable[pa.RecordBatch], config: Config, seed: int
) -> Iterator[pa.RecordBatch]:
    # It only reads pages. A task has one core, so one process keeps it busy.
    config = replace(config, store=MEMORY, scope="global", readonly=False)
    reader = Judges(Open(config, seed=seed), 1)
    with asyncio.Runner() as runner:
        # One by one: converting a whole batch would take its memory a second time.
        pages = (
            {name: batch.column(name)[place].as_py() for name in batch.schema.names}
            for batch in batches
            for place in range(batch.num_rows)
        )
        rows = (runner.run(_make_row(page, reader, config, seed)) for page in pages)
        try:
            runner.run(reader.open())
            yield from _batch(rows, _SCHEMA, _ROWS_PER_BATCH, lambda _: 1)
        finally:
            runner.run(reader.close())


def _batch(
    rows: Iterable[dict[str, Any]], schema: pa.Schema, full: int, weigh: Callable[[Any], int]
) -> Iterator[pa.RecordBatch]:
    """Put rows together until they weigh enough."""
    gathered, weight = [], 0
    for row in rows:
        gathered.append(row)
        weight += weigh(row)
        if weight >= full:
            yield pa.RecordBatch.from_pylist(gathered, schema)
            gathered, weight = [], 0
    if gathered:
        yield pa.RecordBatch.from_pylist(gathered, schema)


async def _make_row(
    page: Mapping[str, Any], reader: Judges, config: Config, seed: int
) -> dict[str, Any]:
    url = page["url"] or ""
    row = {
        "id": xxhash.xxh3_128_digest(url.encode("utf-8", "replace")),
        "url": page["url"],
        "time": page.get("time"),
    }
    try:
        made = await _read_page(page, reader, seed)
    except NotJudgedError as error:
        return {**row, "reason": error.reason, "detail": error.detail}
    document = make_document(made, config.chosen_rule, Fetched(url, identity=b"-"))
    values = {"wording": document.wording, **structs.asdict(document.facts)}
    values = {name: values[name] for name in _FACT_COLUMNS if name in values}
    fingerprints = list_fingerprints(made, config.chosen_rule) or (document.facts.fingerprint,)
    # As bigint; see `pairs`.
    values["fingerprints"] = [bits - (bits >> 63 << 64) for bits in fingerprints]
    values["host"] = host_of(url)
    names = name_keys(document.facts, document.facts.group, seed)
    values["called"] = [key.to_bytes(8, "big") for key in names]
    return {**values, **row}


async def _read_page(page: Mapping[str, Any], reader: Judges, seed: int) -> PageFingerprint:
    url, html = page["url"], page.get("html")
    if page.get("reason"):
        raise NotJudgedError(page["reason"], page.get("detail") or "")
    if not url:
        raise NotJudgedError("no_url", "the row has none")
    body = page.get("text") if html is None else html
    if body is None:
        raise NotJudgedError("empty", "neither html nor text")
    octets = body.encode("utf-8", "replace") if isinstance(body, str) else body
    if len(octets) > MOST_BYTES:
        raise NotJudgedError("too_large", f"{len(octets)} bytes")
    if html is None:
        return _read_text(octets.decode(), seed, url)
    encoding = "utf-8" if isinstance(html, str) else page.get("encoding")
    said = await reader.ask(Fetched(url, encoding), octets, wanted="fingerprint")[1]
    assert said.fingerprint is not None  # noqa: S101 - it was wanted
    return said.fingerprint


def _read_text(text: str, seed: int, url: str) -> PageFingerprint:
    """Fingerprint a text; its length bounds the time, so this needs no separate process."""
    if not text.strip():
        raise NotJudgedError("no_text")
    page = PageText(text, text)
    try:
        return fingerprint_text(page, Recipe(), seed, url)
    except Exception as error:
        reason = "out_of_memory" if isinstance(error, MemoryError) else "failed"
        raise NotJudgedError(reason, describe_error(error)) from error


# Reads the responses of a WARC file: URL, body, status, content type, time.
ReadWarc: TypeAlias = "Callable[[Path], Iterator[tuple[str, bytes, int, str, float | None]]]"
SUFFIXES = (".warc", ".warc.gz", ".warc.zst")
# The reason in place of a page where a file could not be read further.
DAMAGED = "warc_damaged"
_SOURCE_SCHEMA = pa.schema(
    {"url": pa.string(), "html": pa.binary(), "time": pa.float64()}
    | dict.fromkeys(("encoding", "reason", "detail"), pa.string())
)
_BAD_LINE = "_bad_line"
_LINES = f"url string, html string, text string, encoding string, {_BAD_LINE} string"
_SUCCESS = range(200, 300)
_HTML = ("text/html", "application/xhtml+xml")
# Bytes of a batch: it has many small pages or a few large ones.
_BYTES_PER_BATCH = 16 << 20


def read_warcs(spark: SparkSession, paths: Sequence[str], read_warc: ReadWarc) -> DataFrame:
    """Read the pages of WARC files, or of folders with such files at any depth, a task a file."""
    # Every executor must be able to read these paths. Of longer bodies only `MOST_BYTES` and one
    # byte more are read. A response whose status or type rules out a page has a reason; records
    # that are not responses have no row. If a file cannot be read to the end, a row has its path as
    # `url` and the reason `warc_damaged`; `detail` has the place. Pages before that are included.
    folders = [Path(path.removeprefix("file://")) for path in paths]
    files = [str(file.absolute()) for folder in folders for file in _list_warcs(folder)]
    named = spark.createDataFrame(pa.table({"path": files})).repartition(len(files))
    return named.mapInArrow(
        lambda batches: _read_files(batches, read_warc),
        from_arrow_schema(_SOURCE_SCHEMA),
    )


def read_parquet(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Read pages from Parquet: columns `url`, and `html` or `text`; else InspectionError."""
    pages = spark.read.parquet(*paths)
    content = {"html": "binary|string"} if "html" in pages.columns else {"text": "string"}
    require_columns(pages, ", ".join(paths), url="string", **content)
    return pages


def read_lines(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Read pages from JSON Lines with the strings `url`, and `html` or `text`."""
    # A line that is not such an object becomes a row with the reason `bad_line`.
    lines = spark.read.json(
        list(paths), schema=_LINES, columnNameOfCorruptRecord=_BAD_LINE, mode="PERMISSIVE"
    )
    return lines.selectExpr(
        *("url", "html", "text", "encoding"),
        f"if({_BAD_LINE} IS NULL, NULL, 'bad_line') AS reason",
        f"left({_BAD_LINE}, 200) AS detail",
    )


def read_pages(spark: SparkSession, paths: Sequence[str], read_warc: ReadWarc) -> DataFrame:
    """Read pages from files or folders of one kind, known by the suffix of the first file."""
    # All must be WARC files (see `read_warcs`), or all JSON Lines (.jsonl, .jl, also .gz), or all
    # Parquet.
    kinds = {_tell_kind(spark, path) for path in paths}
    if len(kinds) != 1:
        raise InspectionError(
            f"{', '.join(paths)}: inputs of several kinds; name one kind at a time"
        )
    kind = kinds.pop()
    if kind == "warc":
        return read_warcs(spark, paths, read_warc)
    return read_lines(spark, paths) if kind == "lines" else read_parquet(spark, paths)


def _tell_kind(spark: SparkSession, path: str) -> str:
    """Detect the kind of a file, or of the first file of a folder."""
    name = next(list_data(spark, path), path)
    if name.endswith(SUFFIXES):
        return "warc"
    return "lines" if name.removesuffix(".gz").endswith((".jsonl", ".jl")) else "parquet"


def list_data(spark: SparkSession, path: str) -> Iterator[str]:
    """List the names of the data files in a folder, on any file system that Spark can read."""
    system, folder = open_file_system(spark, path)
    files = system.listFiles(folder, True) if system.exists(folder) else None  # noqa: FBT003 - Java's
    while files and files.hasNext():
        name: str = files.next().getPath().getName()
        # Spark leaves out the others, too.
        if not name.startswith((".", "_")):
            yield name


def _list_warcs(path: Path) -> list[Path]:
    if not path.exists():
        raise InspectionError(f"{path}: there is no such file or folder")
    if path.is_file():
        return [path]
    found = sorted(file for file in path.rglob("*") if file.name.endswith(SUFFIXES))
    if not found:
        raise InspectionError(f"{path} has no WARC file in it ({', '.join(SUFFIXES)})")
    return found


def _read_files(batches: Iterable[pa.RecordBatch], read_warc: ReadWarc) -> Iterator[pa.RecordBatch]:
    paths = (path for batch in batches for path in batch.column("path").to_pylist())
    rows = (row for path in paths for row in _read_file(Path(path), read_warc))
    yield from _batch(rows, _SOURCE_SCHEMA, _BYTES_PER_BATCH, lambda row: len(row.get("html", b"")))


def _read_file(path: Path, read_warc: ReadWarc) -> Iterator[dict[str, Any]]:
    try:
        for page in read_warc(path):
            yield _make_source_row(*page)
    except (InspectionError, OSError) as error:
        yield {"url": str(path), "reason": DAMAGED, "detail": str(error)}


def _make_source_row(
    url: str, body: bytes, status: int, kind: str, time: float | None
) -> dict[str, Any]:
    if status not in _SUCCESS:
        return {"url": url, "reason": "status", "detail": str(status)}
    if kind and not kind.lower().startswith(_HTML):
        return {"url": url, "reason": "not_html", "detail": kind[:200]}
    return {"url": url, "html": body, "time": time, "encoding": http_content_type_encoding(kind)}
