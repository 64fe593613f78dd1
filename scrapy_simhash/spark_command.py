"""The command `spark`: the batch side on many machines, Parquet in and Parquet out."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy_simhash.inspection import InspectionError, PartlyFailedError
from scrapy_simhash.jointables import check_join
from scrapy_simhash.sources import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from scrapy_simhash.config import Config

_DAMAGED_SHOWN = 3
_MESSAGE_CHARACTERS = 600


def run_spark(  # noqa: PLR0913  # each by its name
    config: Config,
    task: str,
    inputs: Sequence[str],
    output: str,
    *,
    master: str | None,
    checkpoints: str | None,
    distance: int,
    blocks: int | None,
    second_input: str | None,
    seed: int,
) -> Iterator[dict[str, Any]]:
    """Run one task and describe what it wrote.

    Args:
        config: recipe, limits of a page, least similarity.
        task: `fingerprint`, `pairs`, `query`, `clusters` or `confirm`.
        inputs: files or folders.
        output: folder that is not there yet.
        master: of the cluster; None for what spark-submit or Spark's configuration say.
        checkpoints: folder for what has to outlive executors; deleted at the end.
        distance: bits.
        blocks: more than `distance`; None for what is quickest.
        second_input: the queries of `query`, the pairs of `confirm`.
        seed: of the token hash.

    Raises:
        InspectionError: Spark or Java is missing, an input is not what it should be, the output
            is there, or the job failed.
        PartlyFailedError: some WARC files were cut or damaged; the rest was done.
        ValueError: a distance or number of blocks that is out of range.
    """
    check_join(distance, blocks)  # before Java is started
    with _naming_errors(), _session(master) as spark, _checkpoints(spark, checkpoints):
        target, *sources = (_locate(spark, path) for path in (output, *inputs))
        second = None if second_input is None else _locate(spark, second_input)
        _require_free(spark, target)
        for path in filter(None, (*sources, second)):
            _require_finished(spark, path)
        started = time.perf_counter()
        job = _Job(spark, config, sources, second, distance, blocks, seed)
        made: Callable[[], DataFrame] = getattr(job, task)
        made().write.parquet(target)
        written = spark.read.parquet(target)
        answer = {"task": task, "output": output, "rows": written.count()}
        damaged: list[str] = []
        if task == "fingerprint":
            from scrapy_simhash.spark_sources import DAMAGED  # noqa: PLC0415 - loads PySpark

            reasons = written.where("reason IS NOT NULL").groupBy("reason").count()
            answer["without_fingerprint"] = dict(sorted(map(tuple, reasons.collect())))
            lost = written.where(f"reason = '{DAMAGED}'").select("detail")
            damaged = [row.detail for row in lost.collect()]
        yield {**answer, "seconds": round(time.perf_counter() - started, 1)}
    if damaged:
        more = len(damaged) - _DAMAGED_SHOWN
        raise PartlyFailedError(
            "; ".join(sorted(damaged)[:_DAMAGED_SHOWN])
            + (f"; and {more} more, see reason and detail in {output}" if more > 0 else "")
        )


@dataclass(frozen=True)
class _Job:
    """The tasks: what is read, and what is made of it. Attributes: see `run_spark`."""

    spark: SparkSession
    config: Config
    inputs: Sequence[str]
    second_input: str | None
    distance: int
    blocks: int | None
    seed: int

    def fingerprint(self) -> DataFrame:
        from scrapy_simhash.spark_pages import fingerprint_pages  # noqa: PLC0415 - loads PySpark
        from scrapy_simhash.spark_sources import read_pages  # noqa: PLC0415

        pages = read_pages(self.spark, self.inputs, self.config.max_bytes)
        return fingerprint_pages(pages, self.config, self.seed)

    def pairs(self) -> DataFrame:
        from scrapy_simhash.spark_pairs import find_pairs  # noqa: PLC0415

        return find_pairs(self._read_fingerprints(self.inputs), self.distance, self.blocks)

    def query(self) -> DataFrame:
        from scrapy_simhash.spark_batch import batch_query  # noqa: PLC0415

        paths = self._require_second("--queries")
        self._require_one_recipe([*paths, *self.inputs])
        queries, stored = map(self._read_fingerprints, (paths, self.inputs))
        return batch_query(queries, stored, self.distance, self.blocks)

    def clusters(self) -> DataFrame:
        from scrapy_simhash.spark_clusters import find_clusters  # noqa: PLC0415

        return find_clusters(self.spark.read.parquet(*self.inputs))

    def confirm(self) -> DataFrame:
        from scrapy_simhash.spark_confirm import confirm_pairs  # noqa: PLC0415

        pairs = self.spark.read.parquet(*self._require_second("--pairs"))
        self._require_one_recipe(self.inputs)
        documents = self.spark.read.parquet(*self.inputs)
        return confirm_pairs(documents, pairs, self.config.confirm)

    def _require_second(self, option: str) -> list[str]:
        if self.second_input is None:
            raise ValueError(f"this task needs {option} PATH")
        return [self.second_input]

    def _read_fingerprints(self, paths: Sequence[str]) -> DataFrame:
        """Read a column of fingerprints, or those of documents."""
        from scrapy_simhash.spark_engine import require_columns  # noqa: PLC0415
        from scrapy_simhash.spark_pages import explode_fingerprints  # noqa: PLC0415

        self._require_one_recipe(paths)
        frame = self.spark.read.parquet(*paths)
        name = ", ".join(paths)
        if "fingerprints" not in frame.columns:
            require_columns(frame, name, fingerprint="bigint")
            return frame
        require_columns(
            frame, name, id="binary", fingerprints="array<bigint>", stub="boolean", reason="string"
        )
        return explode_fingerprints(frame)

    def _require_one_recipe(self, paths: Sequence[str]) -> None:
        """Refuse to compare what was made in two ways; of mere fingerprints nobody knows."""
        from scrapy_simhash.spark_pages import recipe_of  # noqa: PLC0415

        recipes = {path: recipe_of(self.spark.read.parquet(path)) for path in paths}
        known = {path: recipe for path, recipe in recipes.items() if recipe}
        first = next(iter(known), "")
        for path, recipe in known.items():
            if recipe != known[first]:
                raise ValueError(
                    f"{first} and {path} have fingerprints of different recipes or seeds, which "
                    "cannot be compared; make one of them again"
                )


@contextmanager
def _naming_errors() -> Iterator[None]:
    """Make of whatever Spark raises an error of one line."""
    try:
        from scrapy_simhash.spark_engine import SparkError  # noqa: PLC0415 - loads PySpark
    except ImportError as error:
        raise InspectionError(str(error)) from None
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415
    from pyspark.errors import PySparkException  # noqa: PLC0415

    try:
        yield
    except (SparkError, SourceError) as error:
        raise InspectionError(str(error)) from error
    except PySparkException as error:
        raise InspectionError(f"Spark: {_shorten(str(error))}") from error
    except Py4JJavaError as error:
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        raise InspectionError(f"Spark: {_shorten(cause.getMessage())}") from error


def _shorten(message: str) -> str:
    """Leave Java's stack out; it stands in Spark's own log."""
    return " ".join(message.partition("JVM stacktrace:")[0].split())[:_MESSAGE_CHARACTERS]


@contextmanager
def _session(master: str | None) -> Iterator[SparkSession]:
    """Get the session; one that was there before goes on."""
    from pyspark.sql import SparkSession as Sessions  # noqa: PLC0415 - the type's name is taken

    from scrapy_simhash.spark_engine import start_session  # noqa: PLC0415

    before = Sessions.getActiveSession()
    session = start_session(master)
    try:
        yield session
    finally:
        if before is None:
            session.stop()


def _locate(spark: SparkSession, path: str) -> str:
    """Make a relative path absolute, where Spark's own file system is that of this machine.

    Spark would take it from where its Java process was started.
    """
    conf = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001 - as in _exists
    local = str(conf.get("fs.defaultFS")).startswith("file:")
    return str(Path(path).absolute()) if local and "://" not in path else path


def _require_free(spark: SparkSession, output: str) -> None:
    if not _exists(spark, output):
        return
    if _exists(spark, f"{output}/_SUCCESS"):
        raise ValueError(f"{output} is there already, and whole; name another folder")
    raise ValueError(
        f"{output} is there already, and no job finished it: use nothing of it; delete it, or "
        "name another folder"
    )


def _require_finished(spark: SparkSession, path: str) -> None:
    if _exists(spark, f"{path}/_temporary"):
        raise ValueError(
            f"{path} was not finished, its job was killed or is still running: make it again"
        )


def _exists(spark: SparkSession, path: str) -> bool:
    """Ask Hadoop, which knows the file systems that Spark writes to."""
    from scrapy_simhash.spark_engine import open_file_system  # noqa: PLC0415 - loads PySpark

    system, wanted = open_file_system(spark, path)
    return bool(system.exists(wanted))


@contextmanager
def _checkpoints(spark: SparkSession, folder: str | None) -> Iterator[None]:
    """Keep checkpoints in a folder; Spark, which makes one in it for them, leaves that behind."""
    from scrapy_simhash.spark_engine import open_file_system  # noqa: PLC0415 - loads PySpark

    if folder is None:
        yield
        return
    spark.sparkContext.setCheckpointDir(_locate(spark, folder))
    made = str(spark.sparkContext.getCheckpointDir())
    try:
        yield
    finally:
        system, path = open_file_system(spark, made)
        system.delete(path, True)  # noqa: FBT003 - Java's: with all in it
