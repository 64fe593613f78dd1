"""Spark itself: whether it is there, a session, and what all jobs on it share.

Fingerprints are `bigint` columns: Spark has no unsigned numbers, so those from 2**63 on are
negative there, with the same 64 bits. Whatever compares them takes them as unsigned.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

try:
    import pandas as pd  # noqa: F401 - PySpark asks for it before it calls Arrow functions
    import pyarrow as pa
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession
except ImportError as error:
    raise ImportError(f"Spark needs pip install 'scrapy-simhash[spark]' ({error})") from error

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

_JAVA = (
    "Java 17 or 21 is needed to run Spark: install it (on Debian and Ubuntu: apt install "
    "openjdk-17-jre-headless), or name its folder in JAVA_HOME"
)


class SparkError(Exception):
    """A job cannot run, or not with this input; the message says why, and what to do."""


def start_session(master: str | None = None) -> SparkSession:
    """Get the session there is, or start one.

    Args:
        master: of the cluster, such as `local[2]` or `yarn`; None for what `spark-submit` or
            spark-defaults.conf say, or else all cores of this machine.

    Raises:
        SparkError: there is no Java, or Spark does not start with it.
    """
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else shutil.which("java")
    if java is None or not Path(java).exists():
        raise SparkError(f"there is no {java or 'java'}; {_JAVA}")
    builder = SparkSession.builder.appName("scrapy-simhash")
    try:
        session = (builder.master(master) if master else builder).getOrCreate()
    except (PySparkException, OSError) as error:
        raise SparkError(f"Spark does not start with {java}: {error}. {_JAVA}") from error
    # What ends a job is raised, and said once.
    session.sparkContext.setLogLevel("FATAL")
    return session


def require_columns(frame: DataFrame, name: str, **wanted: str) -> None:
    """Refuse a DataFrame that has not the columns it should have.

    Args:
        frame: whatever was read.
        name: where from, for the message.
        wanted: type of each column as Spark writes it, such as `bigint`; several with `|`.

    Raises:
        SparkError: names the columns that are missing or of another type, and those there are.
    """
    there = dict(frame.dtypes)
    wrong = [
        f"{column} ({kinds.replace('|', ' or ')})"
        for column, kinds in wanted.items()
        if there.get(column) not in kinds.split("|")
    ]
    if wrong:
        have = ", ".join(f"{column} ({kind})" for column, kind in there.items())
        raise SparkError(f"{name} has no column {', '.join(wrong)}; it has {have or 'none'}")


def cut_lineage(frame: DataFrame) -> DataFrame:
    """Compute a DataFrame once and keep it until nobody refers to it any more.

    In the checkpoint folder where the session has one: it outlives executors. Otherwise with the
    executors; when one of them is lost, the job fails and has to be run again.
    """
    context = frame.sparkSession.sparkContext
    if context.getCheckpointDir() is not None:
        return frame.checkpoint()
    return frame.localCheckpoint()


def open_file_system(spark: SparkSession, path: str) -> tuple[Any, Any]:
    """Get Hadoop's file system of a path, whatever Spark can read, and the path as that has it."""
    context = spark.sparkContext
    wanted = context._jvm.org.apache.hadoop.fs.Path(path)  # noqa: SLF001 - PySpark has no other way
    return wanted.getFileSystem(context._jsc.hadoopConfiguration()), wanted  # noqa: SLF001


def collect(frame: DataFrame) -> dict[str, list[Any]]:
    """Bring a small DataFrame to the driver; the values of each column."""
    columns: dict[str, list[Any]] = frame.toArrow().to_pydict()
    return columns


def to_unsigned(column: pa.Array) -> NDArray[np.uint64]:
    """Take a `bigint` column for fingerprints; those that are null are left out."""
    values: NDArray[np.int64] = column.drop_null().to_numpy(zero_copy_only=False)
    return values.view(np.uint64)


def to_bigint(fingerprints: NDArray[np.uint64]) -> pa.Array:
    """Make a `bigint` column of fingerprints."""
    return pa.array(np.ascontiguousarray(fingerprints).view(np.int64))


def pack(values: NDArray[np.uint64]) -> bytes:
    """Make one `binary` value of many fingerprints: a row of each would cost the shuffle more."""
    return values.astype("<u8").tobytes()


def unpack(packed: Iterable[bytes]) -> NDArray[np.uint64]:
    """Undo `pack`, for several values."""
    return np.frombuffer(b"".join(packed), "<u8").astype(np.uint64)
