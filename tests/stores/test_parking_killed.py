"""`kill -9` forgets no parked request: each is parked, released, or was made and is unparked."""

import os
import random

import pytest

from scrapy_simhash.stores.opening import open_store
from tests.helpers.children import running
from tests.helpers.documents import begin_crawl
from tests.helpers.owing import list_owed, take_owed
from tests.helpers.parking import RULE, add_target, pin

A = 0x0123_4567_89AB_CDEF
KILLS = int(os.environ.get("SIMHASH_TEST_KILLS", "4"))

# Says what it is about to unpark, and what it has done.
PARKER = """
import random, sys
from itertools import count
from scrapy_simhash.stores.opening import open_store
from tests.helpers.owing import release, take_owed
from tests.helpers.parking import SITE, forget_requests, make_parking, park_requests

url, crawl, start = sys.argv[1], sys.argv[2], int(sys.argv[3])
draw = random.Random(crawl)
with open_store(url) as store:
    store.start_crawl(crawl, "spider")
    print("ready", flush=True)
    for number in count(start, 8):
        wanted = [make_parking("a", number + each, crawl=crawl) for each in range(8)]
        answers = park_requests(store, *wanted)
        assert not any(answer.reason for answer in answers), answers
        for each in range(8):
            print("parked", number + each, flush=True)
        for each in draw.sample(range(8), 2):
            release(store, f"{SITE}/a?sid={number + each}")
        for taken in take_owed(store, crawl):
            sid = taken.owed.url.rpartition("=")[2]
            print("unparking", sid, flush=True)
            forget_requests(store, taken.key)
            print("unparked", sid, flush=True)
"""


def test_no_parked_request_is_forgotten(home: str) -> None:
    with begin_crawl(home) as store:
        pin(store, RULE)
        add_target(store, "a", A)
        store.mark_done([1], "crawl-1")
    draw = random.Random(4)  # noqa: S311 - the same moments every time
    told: dict[str, set[str]] = {"parked": set(), "unparking": set(), "unparked": set()}
    for kill in range(KILLS):
        with running(PARKER, home, f"killed-{kill}", 10_000 * kill) as child:
            lines = [child.read() for _ in range(draw.randint(1, 60))]
            child.kill()
            lines += child.read_whole_lines()
        for line in lines:
            done, _, sid = line.partition(" ")
            told[done].add(sid)
        with open_store(home) as store:
            there = {owed.url.rpartition("=")[2] for owed in list_owed(store)}
            assert store.check() == []
        assert told["parked"] - told["unparking"] <= there
        assert not told["unparked"] & there


@pytest.mark.parametrize("home", ["lmdb"], indirect=True)
def test_the_next_crawl_gets_what_a_killed_one_parked(home: str) -> None:
    """As soon as the rule is retired; a lease on a server ends later."""
    with begin_crawl(home) as store:
        pin(store, RULE)
        add_target(store, "a", A)
        store.mark_done([1], "crawl-1")
    with running(PARKER, home, "killed", 0) as child:
        parked = {child.read().removeprefix("parked ") for _ in range(8)}
        child.kill()
    with begin_crawl(home, "crawl-2") as store:
        kept = {owed.url for owed in list_owed(store)}
        assert len(kept) >= len(parked) - 2  # two may have been made already
        store.change_url_rule(RULE.id, "retire")
        assert {owed.url for _, owed in take_owed(store, "crawl-2")} == kept
