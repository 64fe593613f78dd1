"""Documents that `scrapy simhash spark fingerprint` wrote, for `import` (extra `parquet`).

A row is a page; if it could not be judged, it has a reason instead of fingerprints. Recipe and seed
are in Spark's metadata of the column `fingerprints`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from scrapy_simhash.errors import SourceError
from scrapy_simhash.judging.documents import FACT_COLUMNS
from scrapy_simhash.pages.recipe import Recipe

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# How PyArrow writes their types.
_KINDS: dict[object, tuple[str, ...]] = {
    bytes: ("binary",),
    str: ("string", "large_string"),
    bool: ("bool",),
    int: ("int32", "int64"),
    # The column is missing if it is unknown when pages were fetched.
    float: ("double", "none"),
    tuple[int, ...]: ("list<element: int64>", "list<item: int64>"),
}
_COLUMNS = {
    **{name: _KINDS[kind] for name, kind in FACT_COLUMNS.items()},
    "reason": (*_KINDS[str], "null"),
}
_SPARK_KEY = b"org.apache.spark.sql.parquet.row.metadata"
_OUR_KEY = "scrapy_simhash"
_ROWS_PER_READ = 64  # one transaction writes them


class ParquetSource:
    """A Parquet file, or a folder of them as Spark writes it; all rows share recipe and seed."""

    kind = "parquet"

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
                f"{file} is not a Parquet file, or cut short: {error}. Get a whole copy; nothing "
                "was imported from it"
            ) from error
        for file, made in zip(self._files, found, strict=True):
            _require_alike(self._files[0], file, found[0], made)
        self.recipe, self.seed = found[0]

    def read(self) -> Iterator[list[dict[str, Any] | str]]:
        """Read the facts of documents, or why one has none; raises SourceError at damage."""
        record = 0
        try:
            for path in self._files:
                with self._open(path) as file:
                    for batch in file.iter_batches(_ROWS_PER_READ, columns=list(_COLUMNS)):
                        yield [row["reason"] or row for row in batch.to_pylist()]
                        record += batch.num_rows
        except self._errors as error:
            raise SourceError(
                f"{self.name} cannot be read from row {record + 1:,} ({path.name}) on: {error}. "
                "Get a complete copy, and run this again"
            ) from error


def _list_files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    if (path / "_temporary").exists():
        raise SourceError(
            f"{path} is not complete: its job was killed or is still running; make it again. "
            "Nothing was imported from it"
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
    """Refuse files of different recipes or seeds; seeds are secret, so they are not named."""
    differences = wanted[0].differences(made[0])
    if wanted[1] != made[1]:
        differences.append("another seed")
    if differences:
        raise SourceError(
            f"{path} was not made in the same way as {first.name} beside it "
            f"({'; '.join(differences)}), so their fingerprints cannot be compared: import each "
            "from a separate folder, into a separate store, or make one of them again. "
            "Nothing was imported"
        )


def _require_columns(path: Path, schema: Any) -> None:
    there = {field.name: str(field.type) for field in schema}
    for name, kinds in _COLUMNS.items():
        if there.get(name, "none") not in kinds:
            found = ", ".join(f"{key} ({kind})" for key, kind in there.items())
            raise SourceError(
                f"{path} is not an output of `scrapy simhash spark fingerprint`: it has no column "
                f"{name} of type {' or '.join(kinds)}; it has {found}. Nothing was "
                "imported from it"
            )


def _read_recipe(path: Path, schema: Any) -> tuple[Recipe, int]:
    try:
        fields = json.loads(schema.metadata[_SPARK_KEY])["fields"]
        (found,) = [field["metadata"] for field in fields if field["name"] == "fingerprints"]
        return Recipe(**found[_OUR_KEY]["recipe"]), int(found[_OUR_KEY]["seed"], 16)
    except (KeyError, TypeError, ValueError) as error:
        raise SourceError(
            f"{path} does not name the recipe and seed of its fingerprints, so they cannot be "
            "compared with others; make it with `scrapy simhash spark fingerprint`"
        ) from error
