"""Several processes on one store: one of each group is new, and `kill -9` loses nothing."""

import json
import os
import random
from contextlib import ExitStack
from pathlib import Path

import pytest

from scrapy_simhash.pages.facts import Wording
from scrapy_simhash.stores.opening import open_store
from scrapy_simhash.stores.store import Store
from tests.helpers.children import Child, running
from tests.helpers.documents import open_lmdb
from tests.helpers.needing import slow_but

PROCESSES = 4
# Pages of each process, each with a twin in every other one; 2000 is the long version.
GROUPS = int(os.environ.get("SIMHASH_TEST_PAGES_PER_PROCESS", "200"))
# They start each together: one that gets more of a core could be through with all before others.
_ROUNDS = 10
ADDER = """
import json, random, sys
from scrapy_simhash.judging.documents import Document
from scrapy_simhash.pages.facts import Facts
from scrapy_simhash.stores.opening import open_store

folder, process = sys.argv[1], int(sys.argv[2])
same_for_all, own = random.Random(1), random.Random(f"process {process}")
pages = [
    Document(Facts(b"%d of %d" % (process, group), base ^ 1 << own.randrange(64), b""))
    for group, base in enumerate(same_for_all.getrandbits(64) for _ in range(int(sys.argv[3])))
]
rounds = int(sys.argv[4])
with open_store(folder) as store:
    print("ready", flush=True)
    for number in range(rounds):
        numbered = list(enumerate(pages))[number::rounds]
        own.shuffle(numbered)
        sys.stdin.readline()
        told = []
        while numbered:
            batch = [numbered.pop() for _ in range(min(len(numbered), own.randint(1, 12)))]
            verdicts = store.find_and_add([page for _, page in batch])
            for (group, _), verdict in zip(batch, verdicts):
                match = verdict.match_document or None
                told.append((group, verdict.status, verdict.document, match))
        print(json.dumps(told), flush=True)
"""


def test_of_each_group_of_twins_exactly_one_is_new(tmp_path: Path) -> None:
    with ExitStack() as stack:
        adders = [
            stack.enter_context(running(ADDER, tmp_path, process, GROUPS, _ROUNDS))
            for process in range(PROCESSES)
        ]
        told = []
        for _ in range(_ROUNDS):
            for adder in adders:
                adder.tell("go")
            read = [json.loads(adder.read()) for adder in adders]
            told += [(process, *one) for process, lines in enumerate(read) for one in lines]
    assert len(told) == PROCESSES * GROUPS
    news = [(process, group, number) for process, group, how, number, _ in told if how == "new"]
    assert len({process for process, *_ in news}) > 1, "they did not run at once"
    assert sorted(group for _, group, _ in news) == list(range(GROUPS))
    new = {group: number for _, group, number in news}
    for _, group, status, _, match in told:
        assert status == "new" or (status, match) == ("near_duplicate", new[group])
    with open_store(str(tmp_path)) as store:
        assert (store.check(), store.stats()["done"]) == ([], GROUPS)
        assert store.stats()["near_duplicates"] == (PROCESSES - 1) * GROUPS


WRITER = """
import random, sys
from scrapy_simhash.judging.documents import Document
from scrapy_simhash.pages.facts import Facts
from scrapy_simhash.pages.facts import Wording, pack
from scrapy_simhash.stores.opening import open_store

folder, crawl = sys.argv[1:]
draw, pages = random.Random(crawl), 0
with open_store(folder) as store:
    print("ready", flush=True)
    sys.stdin.readline()
    while True:
        names = [f"{crawl} {pages + n}" for n in range(draw.randint(1, 4))]
        pages += len(names)
        verdicts = store.find_and_add(
            [Document(Facts(name.encode(), random.Random(name).getrandbits(64), b"", url=name),
                      wording=pack(Wording(name * 9))) for name in names],
            crawl=crawl,
        )
        for name, verdict in zip(names, verdicts):
            print(verdict.document, name, flush=True)
"""


def fingerprint_of(name: str) -> int:
    return random.Random(name).getrandbits(64)  # noqa: S311 - the same as in the script


def kill_at_a_random_moment(writer: Child, draw: random.Random) -> list[list[str]]:
    """Let it write a while, kill it, and return what it had acknowledged."""
    told = [writer.read() for _ in range(draw.randint(20, 150))]
    for _ in range(draw.randrange(20_000)):  # up to a millisecond, anywhere in a transaction
        pass
    writer.kill()
    return [line.split(" ", 1) for line in (*told, *writer.read_whole_lines())]


def compare(store: Store, told: list[list[str]], seed: int) -> None:
    """Everything acknowledged is there."""
    for number, name in told:
        stored = store.get_documents([int(number)]).get(int(number))
        assert stored, (seed, number)
        assert (stored.facts.url, stored.unpack()) == (name, Wording(name * 9)), (seed, number)
        assert stored.facts.fingerprint == fingerprint_of(name), (seed, number)


@pytest.mark.parametrize("pairs", slow_but([1], [1, 4]))
def test_kill_9_loses_nothing(tmp_path: Path, pairs: int) -> None:
    """Two at a time, so that one is killed while another one writes; ten in both tiers."""
    seed = random.SystemRandom().getrandbits(32)
    draw = random.Random(seed)  # noqa: S311 - told when the test fails
    everything: list[list[str]] = []
    with open_lmdb(tmp_path) as store:
        for pair in range(pairs):
            with (
                running(WRITER, tmp_path, f"crawl-{seed}-{pair}-a") as first,
                running(WRITER, tmp_path, f"crawl-{seed}-{pair}-b") as second,
            ):
                first.tell("go")
                second.tell("go")
                for writer in (first, second):
                    told = kill_at_a_random_moment(writer, draw)
                    compare(store, told, seed)
                    assert store.check() == [], seed
                    everything += told
    with open_lmdb(tmp_path) as store:
        compare(store, everything, seed)
        assert store.check() == [], seed
