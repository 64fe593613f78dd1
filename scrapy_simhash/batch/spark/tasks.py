"""The tasks of `scrapy simhash spark`: Parquet in, Parquet out.

As a script for `spark-submit` it takes the arguments that would follow `scrapy simhash`::

    spark-submit --master yarn .../batch/spark/tasks.py spark pairs hdfs:///in -o hdfs:///pairs
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

# `pairs` first: its error names what to install if a library is missing.
from scrapy_simhash.batch.spark.pairs import (
    batch_query,
    find_clusters,
    find_pairs,
    open_file_system,
    require_columns,
)

# isort: split
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from scrapy.cmdline import execute

from scrapy_simhash.batch.spark.confirm import confirm_pairs
from scrapy_simhash.batch.spark.pages import (
    DAMAGED,
    explode_fingerprints,
    fingerprint_pages,
    list_data,
    read_pages,
    recipe_of,
)
from scrapy_simhash.errors import InspectionError, PartlyFailedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scrapy_simhash.batch.spark.pages import ReadWarc
    from scrapy_simhash.config import Config


_DAMAGED_SHOWN = 3
_MESSAGE_CHARACTERS = 600
# The last line of a traceback: what was raised.
_RAISED = re.compile(
    r"^Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)*(\S.*)", re.MULTILINE
)
_JAVA = (
    "Java 17 or 21 is needed to run Spark: install it (on Debian and Ubuntu: apt install "
    "openjdk-17-jre-headless), or name its folder in JAVA_HOME"
)


@dataclass(frozen=True)
class Job:
    """The inputs and options of a job; each method except `run` is a task."""

    config: Config
    inputs: Sequence[str]
    second_input: str | None  # the queries of `query` or the pairs of `confirm`
    distance: int
    blocks: int | None  # None for the fastest number
    seed: int  # of the token hash
    read_warc: ReadWarc  # such as `transfer.read_warc`

    def run(self, task: str, output: str, master: str | None) -> Iterator[dict[str, Any]]:
        """Run a task by its name, and describe what it wrote to the folder `output`."""
        with _naming_errors(), _session(master) as spark:
            target, *sources = (_locate(spark, path) for path in (output, *self.inputs))
            second = None if self.second_input is None else _locate(spark, self.second_input)
            _require_free(spark, target)
            for path in filter(None, (*sources, second)):
                _require_data(spark, path)
            started = time.perf_counter()
            made = getattr(replace(self, inputs=sources, second_input=second), task)(spark)
            _write(made, target)
            written = spark.read.parquet(target)
            answer = {"task": task, "output": output, "rows": written.count()}
            damaged: list[str] = []
            if task == "fingerprint":
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

    def fingerprint(self, spark: SparkSession) -> DataFrame:
        """Fingerprint pages."""
        pages = read_pages(spark, self.inputs, self.read_warc)
        return fingerprint_pages(pages, self.config, self.seed)

    def pairs(self, spark: SparkSession) -> DataFrame:
        """Find all pairs of fingerprints."""
        return find_pairs(_read_fingerprints(spark, self.inputs), self.distance, self.blocks)

    def query(self, spark: SparkSession) -> DataFrame:
        """Find the fingerprints near those of `--queries`."""
        paths = self._require_second("--queries")
        _require_one_recipe(spark, [*paths, *self.inputs])
        queries, stored = (_read_fingerprints(spark, each) for each in (paths, self.inputs))
        return batch_query(queries, stored, self.distance, self.blocks)

    def clusters(self, spark: SparkSession) -> DataFrame:
        """Cluster pairs."""
        return find_clusters(spark.read.parquet(*self.inputs))

    def confirm(self, spark: SparkSession) -> DataFrame:
        """Find which of `--pairs` are near-duplicate documents."""
        pairs = spark.read.parquet(*self._require_second("--pairs"))
        _require_one_recipe(spark, self.inputs)
        documents = spark.read.parquet(*self.inputs)
        return confirm_pairs(documents, pairs, self.config.chosen_rule)

    def _require_second(self, option: str) -> list[str]:
        if self.second_input is None:
            raise ValueError(f"this task needs {option} PATH")
        return [self.second_input]


def _read_fingerprints(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Read a column of fingerprints, or the fingerprints of documents."""
    _require_one_recipe(spark, paths)
    frame = spark.read.parquet(*paths)
    name = ", ".join(paths)
    if "fingerprints" not in frame.columns:
        require_columns(frame, name, fingerprint="bigint")
        return frame
    require_columns(
        frame, name, id="binary", fingerprints="array<bigint>", stub="boolean", reason="string"
    )
    return explode_fingerprints(frame)


def _require_one_recipe(spark: SparkSession, paths: Sequence[str]) -> None:
    """Refuse to compare different recipes; the recipe of bare fingerprints is unknown."""
    recipes = {path: recipe_of(spark.read.parquet(path)) for path in paths}
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
    """Turn every error of Spark into a one-line error."""
    try:
        yield
    except PySparkException as error:
        raise InspectionError(f"Spark: {_shorten(str(error))}") from error
    except Py4JJavaError as error:
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        raise InspectionError(
            f"Spark: {_shorten(cause.getMessage() or cause.toString())}"
        ) from error


def _shorten(message: str) -> str:
    """Begin with what Python raised; leave out Java's stack trace, which is in Spark's log."""
    message = message.partition("JVM stacktrace:")[0]
    raised = _RAISED.findall(message)
    return " ".join(" ".join([*raised[-1:], message]).split())[:_MESSAGE_CHARACTERS]


@contextmanager
def _session(master: str | None) -> Iterator[SparkSession]:
    """Open a session, and close it afterwards; a session that existed before stays open."""
    before = SparkSession.getActiveSession()
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else shutil.which("java")
    if java is None or not Path(java).exists():
        raise InspectionError(f"there is no {java or 'java'}; {_JAVA}")
    # Spark would take the `python3` of the path, which is another one where the virtual environment
    # of this one is not activated.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("scrapy-simhash")
    try:
        session = (builder.master(master) if master else builder).getOrCreate()
    except (PySparkException, OSError) as error:
        raise InspectionError(f"Spark does not start with {java}: {error}. {_JAVA}") from error
    # An error that ends a job is raised, and so shown once.
    session.sparkContext.setLogLevel("FATAL")
    try:
        yield session
    finally:
        if before is None:
            session.stop()


def _locate(spark: SparkSession, path: str) -> str:
    """Make a relative path absolute if Spark uses the file system of this machine."""
    # Spark would resolve it against the folder in which its Java process was started.
    conf = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001 - no other way
    local = str(conf.get("fs.defaultFS")).startswith("file:")
    return str(Path(path).absolute()) if local and "://" not in path else path


def _require_free(spark: SparkSession, output: str) -> None:
    if not _exists(spark, output):
        return
    if _exists(spark, f"{output}/_SUCCESS"):
        raise ValueError(f"{output} exists already and is complete; name another folder")
    raise ValueError(
        f"{output} exists already, but no job finished it: do not use it; delete it, or name "
        "another folder"
    )


def _require_data(spark: SparkSession, path: str) -> None:
    """Refuse what a job left that did not come to its end."""
    if _exists(spark, f"{path}/_temporary"):
        raise ValueError(
            f"{path} is not complete: its job was killed or is still running; make it again"
        )
    # A pattern for several paths does not exist, and Spark resolves it.
    if _exists(spark, path) and not any(list_data(spark, path)):
        raise ValueError(f"no documents in {path}: the folder is empty; make it again")


def _write(frame: DataFrame, output: str) -> None:
    try:
        frame.write.parquet(output)
    except (PySparkException, Py4JJavaError):
        # Spark leaves an empty folder, which the next job would take for data.
        system, path = open_file_system(frame.sparkSession, output)
        if system.exists(path) and not system.listStatus(path):
            system.delete(path, False)  # noqa: FBT003 - Java's: only if it is empty
        raise


def _exists(spark: SparkSession, path: str) -> bool:
    """Return True if a path exists, by Hadoop, which knows the file systems of Spark."""
    system, wanted = open_file_system(spark, path)
    return bool(system.exists(wanted))


if __name__ == "__main__":
    execute(["scrapy", "simhash", *sys.argv[1:]])
