"""Where files are that settings name."""

from pathlib import Path

import pytest

from scrapy_simhash.config import Config
from scrapy_simhash.crawl.running import place_log


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project, from a folder inside of it."""
    (tmp_path / "scrapy.cfg").touch()
    (tmp_path / "inside").mkdir()
    monkeypatch.chdir(tmp_path / "inside")
    return tmp_path


def test_a_relative_log_is_in_the_folder_of_the_project(project: Path) -> None:
    assert place_log(Config(log="logs/own.jsonl")).log == str(project / "logs" / "own.jsonl")
    absolute = str(project / "inside" / "own.jsonl")
    assert place_log(Config(log=absolute)).log == absolute


def test_a_relative_log_without_a_project_is_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert place_log(Config(log="own.jsonl")).log == "own.jsonl"
