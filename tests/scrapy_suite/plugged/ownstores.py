"""A pytest plugin: crawls of one test share a store, those of two tests do not."""

import os
import tempfile

import pytest
from scrapy.settings import default_settings


@pytest.fixture(autouse=True)
def own_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a test a store that no other test has."""
    folder = tempfile.mkdtemp(prefix="test-", dir=os.environ["SIMHASH_SUITE"])
    monkeypatch.setattr(default_settings, "SIMHASH_STORE", f"{folder}/store")
