"""Pages for Spark to fingerprint, of WARC files, Parquet or JSON Lines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from w3lib.encoding import http_content_type_encoding

from scrapy_simhash.source_warc import open_warc
from scrapy_simhash.sources import START, SourceError
from scrapy_simhash.spark_engine import SparkError, open_file_system, require_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from scrapy_simhash.sources import SourcePage

# What stands in for a page where a file could not be read further.
DAMAGED = "warc_damaged"
_WARC_SUFFIXES = (".warc", ".warc.gz", ".warc.zst")
_PAGES = "url string, html binary, time double, encoding string, reason string, detail string"
_SCHEMA = pa.schema(
    {"url": pa.string(), "html": pa.binary(), "time": pa.float64()}
    | dict.fromkeys(("encoding", "reason", "detail"), pa.string())
)
_BAD_LINE = "_bad_line"
_LINES = f"url string, html string, text string, encoding string, {_BAD_LINE} string"
_SUCCESS = range(200, 300)
_HTML = ("text/html", "application/xhtml+xml")
# Of a batch, so that what has many small pages is sent in few and what has large ones in many.
_BYTES_PER_BATCH = 16 << 20


def read_warcs(spark: SparkSession, paths: Sequence[str], most_bytes: int) -> DataFrame:
    """Read the pages of WARC files, each file by one task.

    Args:
        spark: the session.
        paths: of files (.warc, .warc.gz, .warc.zst) or of folders with such files anywhere below;
            every executor must find them there.
        most_bytes: of longer bodies only so many are read, and one more.

    Returns:
        Columns `url`, `html`, `time`, `encoding`, `reason`, `detail`. What is no page by status or
        type has a reason; records without a page have no row. A file that cannot be read further
        has a row with its path as `url` and the reason `warc_damaged`; `detail` says where. The
        pages before that place are there.

    Raises:
        SparkError: there is no such path, or no WARC file in a folder.
        SourceError: FastWARC is missing.
    """
    files = [str(file.absolute()) for path in paths for file in _list_warcs(_to_path(path))]
    named = spark.createDataFrame(pa.table({"path": files})).repartition(len(files))
    return named.mapInArrow(lambda batches: _read_files(batches, most_bytes), _PAGES)


def read_parquet(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Read pages from Parquet: columns `url`, and `html` or `text`.

    Raises:
        SparkError: other columns, or other types.
    """
    pages = spark.read.parquet(*paths)
    content = {"html": "binary|string"} if "html" in pages.columns else {"text": "string"}
    require_columns(pages, ", ".join(paths), url="string", **content)
    return pages


def read_lines(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Read pages from JSON Lines with the strings `url`, and `html` or `text`.

    A line that is no such object is a row with the reason `bad_line`.
    """
    lines = spark.read.json(
        list(paths), schema=_LINES, columnNameOfCorruptRecord=_BAD_LINE, mode="PERMISSIVE"
    )
    return lines.selectExpr(
        *("url", "html", "text", "encoding"),
        f"if({_BAD_LINE} IS NULL, NULL, 'bad_line') AS reason",
        f"left({_BAD_LINE}, 200) AS detail",
    )


def read_pages(spark: SparkSession, paths: Sequence[str], most_bytes: int) -> DataFrame:
    """Read pages from files or folders of one kind, by the ending of the first file.

    Args:
        spark: the session.
        paths: all of WARC files, all of JSON Lines (.jsonl, .jl, also .gz), or all of Parquet.
        most_bytes: of longer bodies in WARC files only so many are read, and one more.

    Raises:
        SparkError: no such path, or not the columns that pages have.
        SourceError: FastWARC is missing.
    """
    kinds = {_tell_kind(spark, path) for path in paths}
    if len(kinds) != 1:
        raise SparkError(f"{', '.join(paths)}: inputs of several kinds; name one kind at a time")
    read: Callable[[], Any] = {
        "warc": lambda: read_warcs(spark, paths, most_bytes),
        "lines": lambda: read_lines(spark, paths),
        "parquet": lambda: read_parquet(spark, paths),
    }[kinds.pop()]
    return read()


def _to_path(path: str) -> Path:
    return Path(path.removeprefix("file://"))


def _tell_kind(spark: SparkSession, path: str) -> str:
    """Tell the kind of a file, or of the first file of a folder."""
    name = next(
        (name for name in _list_files(spark, path) if not name.startswith((".", "_"))), path
    )
    if name.endswith(_WARC_SUFFIXES):
        return "warc"
    return "lines" if name.removesuffix(".gz").endswith((".jsonl", ".jl")) else "parquet"


def _list_files(spark: SparkSession, path: str) -> Iterator[str]:
    """List the names of the files of a folder, on any file system that Spark can read."""
    system, folder = open_file_system(spark, path)
    files = system.listFiles(folder, True) if system.exists(folder) else None  # noqa: FBT003 - Java's
    while files and files.hasNext():
        yield files.next().getPath().getName()


def _list_warcs(path: Path) -> list[Path]:
    if not path.exists():
        raise SparkError(f"{path}: there is no such file or folder")
    if path.is_file():
        return [path]
    found = sorted(file for file in path.rglob("*") if file.name.endswith(_WARC_SUFFIXES))
    if not found:
        raise SparkError(f"{path} has no WARC file in it ({', '.join(_WARC_SUFFIXES)})")
    return found


def _read_files(batches: Iterable[pa.RecordBatch], most_bytes: int) -> Iterator[pa.RecordBatch]:
    rows: list[dict[str, Any]] = []
    size = 0
    for batch in batches:
        for path in batch.column("path").to_pylist():
            for row in _read_file(Path(path), most_bytes):
                rows.append(row)
                size += len(row.get("html", b""))
                if size > _BYTES_PER_BATCH:
                    yield pa.RecordBatch.from_pylist(rows, _SCHEMA)
                    rows, size = [], 0
    if rows:
        yield pa.RecordBatch.from_pylist(rows, _SCHEMA)


def _read_file(path: Path, most_bytes: int) -> Iterator[dict[str, Any]]:
    try:
        for entry in open_warc(path, most_bytes).read(START):
            if not isinstance(entry.page, str):
                yield _make_row(entry.page)
    except (SourceError, OSError) as error:
        yield {"url": str(path), "reason": DAMAGED, "detail": str(error)}


def _make_row(page: SourcePage) -> dict[str, Any]:
    if page.status not in _SUCCESS:
        return {"url": page.url, "reason": "status", "detail": str(page.status)}
    kind = next((value for name, value in page.headers if name.lower() == "content-type"), "")
    if kind and not kind.lower().startswith(_HTML):
        return {"url": page.url, "reason": "not_html", "detail": kind[:200]}
    encoding = http_content_type_encoding(kind)
    return {"url": page.url, "html": page.body, "time": page.time, "encoding": encoding}
