"""Verdicts are those of the golden files, from every kind of store.

What differs shows in `python -m tests.golden compare`, with the documents that led to it.
"""

import pytest

from tests.golden.__main__ import main
from tests.golden.documents import STORES
from tests.helpers.redisservers import RedisServer

DOCUMENTS_OF_THE_FIRST_TIER = 3_000


def compare(*arguments: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *arguments]) == 0, capsys.readouterr().out


@pytest.mark.parametrize("part", ["labelled", "docsite"])
def test_pages_of_the_repository(part: str, capsys: pytest.CaptureFixture[str]) -> None:
    compare(part, capsys=capsys)


@pytest.mark.parametrize("store", ["lmdb", "memory:"])
def test_random_documents(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    documents = f"--documents={DOCUMENTS_OF_THE_FIRST_TIER}"
    compare("random", documents, f"--store={store}", capsys=capsys)


@pytest.mark.slow
def test_every_way_to_make_a_store(capsys: pytest.CaptureFixture[str]) -> None:
    """With the first tier."""
    compare("random", "--first=3", f"--documents={1_000 * len(STORES) - 3_000}", capsys=capsys)


def test_random_documents_on_a_server(
    redis_server: RedisServer, capsys: pytest.CaptureFixture[str]
) -> None:
    url = redis_server.url()
    compare("random", "labelled", "--documents=2000", f"--store={url}", capsys=capsys)
