"""Several processes on one Redis store: one of each group of near-duplicates is new."""

import os

import pytest

from tests.stores.test_lmdb_store_processes import race_for_twins

pytestmark = pytest.mark.slow

STORE_KINDS = ("redis", "cluster")
PROCESSES = 8
# Pages of each process, each with a twin in every other one; 2000 is the long version.
GROUPS = int(os.environ.get("SIMHASH_TEST_PAGES_PER_PROCESS", "60"))


def test_of_each_group_of_twins_exactly_one_is_new(home: str) -> None:
    race_for_twins(home, PROCESSES, GROUPS)
