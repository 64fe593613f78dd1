"""Without PySpark or Java: one line says what to install. Where another Python is on the path."""

import json
import os
from pathlib import Path

import pytest

from tests.helpers.processes import PATIENCE_SECONDS, ROOT, run_python
from tests.helpers.sparking import require_pyspark, require_spark

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


def test_the_python_of_the_command_works_not_that_of_the_path(tmp_path: Path) -> None:
    """As `venv/bin/scrapy` does where the virtual environment is not activated."""
    require_spark()
    other = tmp_path / "bin/python3"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)
    (tmp_path / "pages.jsonl").write_text('{"url": "u", "text": "one two three"}\n')
    done = run_python(
        *("-m", "scrapy", "simhash", "spark", "--json", "--master", "local[1]"),
        *("fingerprint", "pages.jsonl", "-o", "documents"),
        cwd=tmp_path,
        extra={"PATH": f"{other.parent}:{os.environ['PATH']}", "SPARK_LOCAL_IP": "127.0.0.1"},
        seconds=4 * PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"] == 1
