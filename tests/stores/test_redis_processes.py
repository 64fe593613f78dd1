"""Several processes on one server, at few round trips: one of each group is new."""

import os
import random

import pytest

from scrapy_simhash.pages.wording import Wording
from tests.helpers.documents import CRAWL, begin_crawl, document
from tests.helpers.redisservers import count_trips
from tests.stores.test_lmdb_store_processes import race_for_twins

pytestmark = pytest.mark.slow

STORE_KINDS = ("redis", "valkey")
PROCESSES = 8
# Pages of each process, each with a twin in every other one; 2000 is the long version.
GROUPS = int(os.environ.get("SIMHASH_TEST_PAGES_PER_PROCESS", "60"))


def test_of_each_group_of_twins_exactly_one_is_new(home: str) -> None:
    race_for_twins(home, PROCESSES, GROUPS)


def test_texts_of_many_documents_take_one_round_trip(
    home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a page that is to be dropped waits for one more, whatever it is compared with."""
    with begin_crawl(home) as store:
        pages = [document(f"{n}", n << 20, text=f"text {n}") for n in range(24)]
        numbers = [verdict.document for verdict in store.find_and_add(pages)]
        trips = count_trips(monkeypatch)
        store.read(lambda _: None)
        without, trips[0] = trips[0], 0
        found = store.read(lambda stored: stored.get_wordings(numbers))
        assert trips[0] == without + 1
    assert found == {number: Wording(f"text {at}") for at, number in enumerate(numbers)}


def test_a_group_takes_few_round_trips(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many pages it has: the lock, three times what is read, the commit."""
    draw = random.Random(7)  # noqa: S311 - reproducible
    trips, most = count_trips(monkeypatch), 5
    with begin_crawl(home, distance=7) as store:
        for size in (1, 16, 64):
            bits = [draw.getrandbits(64) for _ in range(size)]
            pages = [document(f"{size} {n}", found) for n, found in enumerate(bits)]
            twins = [document(f"{size} twin {n}", found ^ 1) for n, found in enumerate(bits)]
            changed = [document(f"{size} {n}", ~found & 2**64 - 1) for n, found in enumerate(bits)]
            numbers: list[int] = []
            for group, more in ((pages, 0), (twins, 0), (pages, 0), (changed, 1)):
                trips[0] = 0
                verdicts = store.find_and_add(group, crawl=CRAWL, done=numbers)
                assert trips[0] <= most + more
                numbers = [verdict.document for verdict in verdicts]
