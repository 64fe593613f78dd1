"""The project may not grow unseen: nothing is larger than benchmarks/structure.json holds."""

from pathlib import Path

import pytest

from tests.helpers.processes import ROOT, run_python

SCRIPT = ROOT / "benchmarks" / "structure.py"


@pytest.mark.skipif(not (ROOT / "scrapy_simhash").is_dir(), reason="holds a checkout, not a wheel")
def test_nothing_has_risen(tmp_path: Path) -> None:
    done = run_python(SCRIPT, "--check", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
