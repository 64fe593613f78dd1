"""Several processes on one Redis store: one of each group of near-duplicates is new."""

import json
import os
from contextlib import ExitStack

from scrapy_simhash.stores import open_store
from tests.children import running
from tests.test_lmdb_store_processes import ADDER

STORE_KINDS = ("redis", "cluster")
PROCESSES = 8
# Pages of each process, each with a twin in every other one; 2000 is the long version.
GROUPS = int(os.environ.get("SIMHASH_TEST_PAGES_PER_PROCESS", "60"))


def test_of_each_group_of_twins_exactly_one_is_new(home: str) -> None:
    """Eight processes at once, each with a crawl that is alive until all have finished."""
    with ExitStack() as stack:
        adders = [
            stack.enter_context(running(ADDER, home, process, GROUPS))
            for process in range(PROCESSES)
        ]
        for adder in adders:
            adder.tell("go")
        by_process = [json.loads(adder.read()) for adder in adders]
    told = [verdict for verdicts in by_process for verdict in verdicts]
    assert len(told) == PROCESSES * GROUPS
    # They did run at once: none came first in all groups.
    assert all(any(status != "new" for _, status, *_ in verdicts) for verdicts in by_process)
    new = {group: number for group, status, number, _ in told if status == "new"}
    assert sorted(group for group, status, *_ in told if status == "new") == list(range(GROUPS))
    for group, status, _, match in told:
        assert status == "new" or (status, match) == ("near_duplicate", new[group])
    with open_store(home) as store:
        assert store.check() == []
        assert store.stats()["near_duplicates"] == (PROCESSES - 1) * GROUPS
