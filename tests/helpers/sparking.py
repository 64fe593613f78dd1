"""Spark for tests: one session for all that need it, where there are PySpark and Java."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.needing import require_modules, require_program
from tests.helpers.processes import ROOT


def require_pyspark() -> None:
    """Skip the test, or fail, where the extra is not installed."""
    require_modules("spark", "pyspark", "pyarrow", "pandas")


def require_spark() -> None:
    """Skip the test, or fail, where there is no PySpark or no Java."""
    require_pyspark()
    if "JAVA_HOME" not in os.environ:
        require_program("java")


@contextmanager
def spark_session(folder: Path) -> Iterator[Any]:
    """Start Spark with two cores and without all that a test does not look at."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - an extra

    # Also of the Python processes that Spark starts, wherever the tests are run from.
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", paths)
        patched.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patched.setenv("PYSPARK_PYTHON", sys.executable)
        settings = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.default.parallelism": "2",
            "spark.sql.adaptive.enabled": "false",
            # To compile each query would take longer than to run it.
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            "spark.local.dir": str(folder),
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss4m",
        }
        builder = SparkSession.builder.master("local[2]").appName("tests")
        for name, value in settings.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        try:
            yield session
        finally:
            session.stop()
            # The JVM lives as long as its standard input.
            gateway = session.sparkContext._gateway
            gateway.shutdown()
            gateway.proc.stdin.close()
            gateway.proc.wait()
