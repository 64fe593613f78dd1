"""Without PySpark or Java: one line says what to install. Where another Python is on the path."""

from pathlib import Path

import pytest

from tests.helpers.processes import ROOT, run_python
from tests.helpers.sparking import require_pyspark

pytestmark = pytest.mark.slow

COMMAND = """
import sys
for name in {hidden!r}:
    sys.modules[name] = None
from scrapy.cmdline import execute
execute(["scrapy", "simhash", "spark", "pairs", "documents", "-o", "pairs"])
"""


def test_without_the_extra(tmp_path: Path) -> None:
    done = run_python("-c", COMMAND.format(hidden=["pyarrow"]), cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "Spark needs pip install 'scrapy-simhash[spark]'" in done.stderr


def test_without_java(tmp_path: Path) -> None:
    require_pyspark()
    nowhere = str(tmp_path / "nowhere")
    command = COMMAND.format(hidden=[])
    done = run_python("-c", command, cwd=tmp_path, extra={"JAVA_HOME": nowhere})
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert f"there is no {nowhere}/bin/java; Java 17 or 21 is needed" in done.stderr
    done = run_python("-c", command, cwd=tmp_path, extra={"PATH": nowhere, "JAVA_HOME": ""})
    assert "there is no java; Java 17 or 21 is needed" in done.stderr


def test_the_script_for_spark_submit_is_the_command(tmp_path: Path) -> None:
    """Run as a script, whose folder Python puts first, and as a module."""
    require_pyspark()
    arguments = ("spark", "pairs", "documents", "-o", "pairs")
    nowhere = {"JAVA_HOME": str(tmp_path / "nowhere")}
    for script in (
        (str(ROOT / "scrapy_simhash/batch/spark/job.py"),),
        ("-m", "scrapy_simhash.batch.spark.job"),
    ):
        done = run_python(*script, *arguments, cwd=tmp_path, extra=nowhere)
        assert done.returncode == 2, done.stderr
        assert "scrapy simhash spark: there is no" in done.stderr
