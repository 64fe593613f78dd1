"""Where files are that settings name."""

from pathlib import Path

import pytest

from scrapy_simhash.config import Config
from scrapy_simhash.crawl.running import place_log
from scrapy_simhash.errors import SettingError

SERVER = "redis://localhost:6379/0"
IN_DATA_PATH = Path(".scrapy", "simhash", "log.jsonl")


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


def test_the_log_of_a_server_is_where_that_of_a_folder_would_be(project: Path) -> None:
    assert place_log(Config(store=SERVER)).log == str(project / IN_DATA_PATH)
    assert place_log(Config(store=SERVER, readonly=True)).log is None
    assert place_log(Config(store=SERVER, log=None)).log is None


def test_without_the_folder_of_the_project_the_log_of_a_server_has_no_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As under Scrapyd; Scrapy would crawl on without the plugin."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCRAPY_SETTINGS_MODULE", "json")
    with pytest.raises(SettingError, match=r"SIMHASH_LOG = .* must be an absolute path"):
        place_log(Config(store=SERVER))
