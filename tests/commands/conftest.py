"""A store to look at, one for all tests of commands that only read it."""

from pathlib import Path

import pytest

from tests.helpers.commanding import crawl_into


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With its log."""
    path = tmp_path_factory.mktemp("commands") / "store"
    crawl_into(path)
    return path
