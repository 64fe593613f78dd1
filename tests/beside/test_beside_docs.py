"""The blocks of docs/beside.md run where the plugins are that they name."""

from pathlib import Path

import pytest

from tests.helpers.needing import require_modules
from tests.project.test_docs_blocks import run_page

pytestmark = pytest.mark.slow


def test_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_modules("beside", "scrapy_poet", "scrapy_playwright")
    run_page("docs/beside.md", tmp_path, monkeypatch)
