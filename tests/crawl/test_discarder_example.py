"""The example beside duplicate-url-discarder, with the rules that its first crawl proved."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "bench_urls.py"


@pytest.mark.slow
def test_the_list_saves_requests_and_loses_no_document(tmp_path: Path) -> None:
    """It ends with 1 if a document is lost, or if much less is saved than by parking requests."""
    path = tmp_path / "urls.json"
    command = [sys.executable, str(SCRIPT), "--runs", "1", "--output", str(path)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    (crawls,) = json.loads(path.read_text())["crawls"]
    assert {found["found"] for found in crawls.values()} == {crawls["off"]["found"]}
    assert crawls["discarder"]["requests"] < crawls["first"]["requests"]
