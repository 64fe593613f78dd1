"""Documents that `scrapy simhash spark fingerprint` wrote: Parquet files (extra `parquet`).

A row is a page; one that could not be judged has a reason instead of fingerprints. Recipe and seed
stand in the metadata that Spark keeps of the column `fingerprints`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import xxhash

from scrapy_simhash.recipe import Recipe
from scrapy_simhash.sources import START, Position, SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Each with how PyArrow writes its type.
_TEXT, _NUMBER = ("string", "large_string"), ("int32", "int64")
_COLUMNS: dict[str, tuple[str, ...]] = {
    "url": _TEXT,
    "fingerprints": ("list<element: int64>", "list<item: int64>"),
    "stub": ("bool",),
    "text_digest": ("binary",),
    "sketch": ("binary",),
    "link_sketch": ("binary",),
    **dict.fromkeys(("title", "heading", "canonical", "language"), _TEXT),
    **dict.fromkeys(("features", "words", "whole_words"), _NUMBER),
    # Where nothing says when a page was fetched, there is none.
    "time": ("double", "none"),
    "reason": (*_TEXT, "null"),
}
_SPARK_KEY = b"org.apache.spark.sql.parquet.row.metadata"
_OUR_KEY = "scrapy_simhash"
_ROWS_PER_READ = 1_024


class DocumentEntry(NamedTuple):
    """A row.

    Attributes:
        fields: by their columns' names; or, as text, the reason why it was not judged.
        record: so many rows were read, this one included.
    """

    fields: dict[str, Any] | str
    record: int


class ParquetSource:
    """A Parquet file, or a folder of them as Spark writes it.

    Attributes:
        recipe: the fingerprints were made with.
        seed: of their token hash.

    Raises:
        SourceError: it is none, lacks a column, or does not say its recipe and seed; a folder has
            no such file, files that differ in these, or was not finished.
    """

    kind = "parquet"
    unit = "documents"

    def __init__(self, path: Path) -> None:
        try:
            import pyarrow as pa  # noqa: PLC0415 - an extra
            from pyarrow import parquet  # noqa: PLC0415
        except ImportError:
            raise SourceError("Parquet files need pip install 'scrapy-simhash[parquet]'") from None
        self.name = str(path)
        self._files = _list_files(path)
        self._open = parquet.ParquetFile
        self._errors = (pa.ArrowException, OSError)
        self.total = 0
        found: list[tuple[Recipe, int]] = []
        try:
            for file in self._files:
                with self._open(file) as opened:
                    _require_columns(file, opened.schema_arrow)
                    found.append(_read_recipe(file, opened.schema_arrow))
                    self.total += opened.metadata.num_rows
        except self._errors as error:
            raise SourceError(
                f"{file} is no Parquet file, or cut short: {error}. Get a whole copy; nothing was "
                "imported of it"
            ) from error
        for file, made in zip(self._files, found, strict=True):
            _require_alike(self._files[0], file, found[0], made)
        self.recipe, self.seed = found[0]
        self._digest = self._sum()

    def read(self, start: Position) -> Iterator[DocumentEntry]:
        """Read the rows after a position.

        Raises:
            SourceError: a file is damaged; what was yielded before is whole.
        """
        record = 0
        try:
            for path in self._files:
                with self._open(path) as file:
                    for batch in file.iter_batches(_ROWS_PER_READ, columns=list(_COLUMNS)):
                        if record + batch.num_rows <= start.record:
                            record += batch.num_rows
                            continue
                        for row in batch.to_pylist():
                            record += 1
                            if record > start.record:
                                yield DocumentEntry(row["reason"] or row, record)
        except self._errors as error:
            raise SourceError(
                f"{path} cannot be read from row {record + 1:,} of {self.name} on: {error}. Get a "
                "whole copy and run this again: it goes on there"
            ) from error

    def mark(self, record: int) -> Position:
        """Make the position after so many rows, see `sources.Source.mark`."""
        return Position(record, 0, 0, self._digest)

    def holds(self, position: Position) -> bool:
        """Say whether the files are still the same."""
        return position == START or self._digest == position.digest

    def _sum(self) -> str:
        """Sum up the files' names, sizes and times, once: there may be thousands."""
        summed = xxhash.xxh3_128()
        for path in self._files:
            found = path.stat()
            summed.update(f"{path.name}\0{found.st_size}\0{found.st_mtime_ns}\0".encode())
        return summed.hexdigest()


def _list_files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    if (path / "_temporary").exists():
        raise SourceError(
            f"{path} was not finished, its job was killed or is still running: make it again. "
            "Nothing was imported of it"
        )
    files = sorted(path.glob("*.parquet"))
    if not files:
        raise SourceError(
            f"{path} has no Parquet file (*.parquet); name a folder that `scrapy simhash spark "
            "fingerprint` wrote"
        )
    return files


def _require_alike(
    first: Path, path: Path, wanted: tuple[Recipe, int], made: tuple[Recipe, int]
) -> None:
    """Refuse files made in two ways; seeds are secret, and not named."""
    differences = wanted[0].differences(made[0])
    if wanted[1] != made[1]:
        differences.append("another seed")
    if differences:
        raise SourceError(
            f"{path} was made otherwise than {first.name} beside it ({'; '.join(differences)}), so "
            "their fingerprints cannot be compared: import each from a folder of its own, into a "
            "store of its own, or make one of them again. Nothing was imported"
        )


def _require_columns(path: Path, schema: Any) -> None:
    there = {field.name: str(field.type) for field in schema}
    for name, kinds in _COLUMNS.items():
        if there.get(name, "none") not in kinds:
            found = ", ".join(f"{key} ({kind})" for key, kind in there.items())
            raise SourceError(
                f"{path} is no output of `scrapy simhash spark fingerprint`: it has no column "
                f"{name} of type {' or '.join(kinds)}; it has {found}. Nothing was "
                "imported of it"
            )


def _read_recipe(path: Path, schema: Any) -> tuple[Recipe, int]:
    try:
        fields = json.loads(schema.metadata[_SPARK_KEY])["fields"]
        (found,) = [each["metadata"] for each in fields if each["name"] == "fingerprints"]
        return Recipe(**found[_OUR_KEY]["recipe"]), int(found[_OUR_KEY]["seed"], 16)
    except (KeyError, TypeError, ValueError) as error:
        raise SourceError(
            f"{path} does not say with which recipe and seed its fingerprints were made, so they "
            "cannot be compared with others; make it with `scrapy simhash spark fingerprint`"
        ) from error
