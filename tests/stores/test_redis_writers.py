"""Several writers on one server, without a lock: no set loses a member, and no value an update."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random, SystemRandom

import pytest

from scrapy_simhash import open_store
from scrapy_simhash.errors import StoreUnavailableError
from scrapy_simhash.judging.documents import Document
from scrapy_simhash.stores import redis as redis_kind
from scrapy_simhash.stores.documents import Documents
from scrapy_simhash.stores.keyvalues import IDENTITIES, KEYS, KeyValues, octets
from scrapy_simhash.stores.redis import RedisEngine
from scrapy_simhash.tables import Limits
from tests.helpers.children import running
from tests.helpers.documents import document
from tests.helpers.judging import judging
from tests.helpers.oracle import Rows
from tests.helpers.pages import page
from tests.helpers.redisservers import RedisServer, count_trips
from tests.stores.test_kinds import EVERY, make_calls

pytestmark = pytest.mark.slow
STORE_KINDS = ("redis", "valkey")
TURNS = 400


@pytest.mark.parametrize("most", [2, 1024])
def test_changes_are_those_of_dicts_and_sets(
    home: str, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """One writer commits while another one works; sets are large, or not, and so are commits."""
    for limit in ("MOST_IN_BUCKET", "_CHANGES_PER_CALL", "_FIELDS_PER_CALL"):
        monkeypatch.setattr(redis_kind, limit, most)
    open_store(home).close()
    seed, rows = SystemRandom().getrandbits(32), Rows()

    def write(engine: RedisEngine, turn: int, meanwhile: Callable[[], object]) -> None:
        """Make calls that may be made again, but what happens meanwhile happens once."""
        own, turns = f"{seed} {turn}", iter([meanwhile])

        def work(values: KeyValues) -> None:
            make_calls(Random(own), values, turn % 9)  # noqa: S311 - told when the test fails
            next(turns, int)()

        engine.run(work, writing=True)
        make_calls(Random(own), rows, turn % 9)  # noqa: S311

    both = RedisEngine(home), RedisEngine(home)
    for turn in range(TURNS):
        ours, theirs = both if turn % 2 else both[::-1]
        write(ours, turn, partial(write, theirs, turn + TURNS, int) if turn % 3 else int)
    found = both[0].run(lambda values: [sorted(values.scan(each)) for each in EVERY], writing=False)
    assert found == [*map(rows.scan, EVERY)], seed


ADDER = """
import sys
from scrapy_simhash.stores.keyvalues import KEYS, IDENTITIES, octets
from scrapy_simhash.stores.redis import RedisEngine

engine = RedisEngine(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()

def work(values, turn):
    for key in range(10):
        values.put(KEYS, octets(key), octets(turn))
    values.put(IDENTITIES, b"%d" % turn, b"")

for turn in range(300):
    engine.run(lambda values: work(values, turn), writing=True)
    print(turn, flush=True)
"""


def test_a_writer_that_is_killed(home: str) -> None:
    """What it had told is there, and nothing is there in part; nobody waits for anything."""
    open_store(home).close()
    with running(ADDER, home) as writer:
        writer.tell("go")
        told = [writer.read() for _ in range(50)]
        writer.kill()
        told += writer.read_whole_lines()
    with open_store(home) as store:
        turns = store.read(lambda stored: len(list(stored.values.scan(IDENTITIES))))
        assert turns in {len(told), len(told) + 1}
        for key in map(octets, range(10)):
            rows = partial(lambda key, stored: stored.values.read_sets(KEYS, [key])[0], key)
            assert store.read(rows) == b"".join(key + octets(turn) for turn in range(turns))


def test_what_others_always_change_is_given_up(home: str) -> None:
    with open_store(home) as store, open_store(home) as other:
        turns = iter(range(100))

        def put(stored: Documents) -> None:
            (before,) = stored.values.get(IDENTITIES, b"a")
            stored.values.put(IDENTITIES, b"a", (before or b"") + b"%d" % next(turns))

        def work(stored: Documents) -> None:
            put(stored)
            other.write(put)

        with pytest.raises(StoreUnavailableError, match="other processes keep changing the store"):
            store.write(work)


@pytest.mark.parametrize("rebuilt", [1, 9])
def test_what_is_read_beside_a_rebuild_is_whole_or_refused(
    redis_server: RedisServer, rebuilt: int
) -> None:
    """Tables of another design are written when the header was read: once, or each time."""
    url, designs = redis_server.url(), iter(["10", "4"] * 5)
    turns = iter(range(rebuilt))
    with open_store(url, 4) as store, open_store(url, 4) as other:
        store.find_and_add([document("a", 7), document("b", 7 << 40)])

        def read(stored: Documents) -> list[int]:
            if next(turns, None) is not None:
                other.rebuild(next(designs))
            return [int(found) for _, found in stored.near(7 ^ 1, Limits(3)).near]

        if rebuilt == 1:
            assert store.read(read) == [7]
        else:
            with pytest.raises(StoreUnavailableError, match="keep changing the store"):
                store.read(read)


def test_a_group_is_written_in_two_round_trips(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many documents it has: one to read what is there, one to write."""
    draw = Random(7)  # noqa: S311 - reproducible
    trips = count_trips(monkeypatch)
    with open_store(redis_server.url()) as store:
        for size in (1, 16, 64):
            bits = [draw.getrandbits(64) for _ in range(size)]
            pages = [document(f"{size} {n}", found) for n, found in enumerate(bits)]
            first = store.engine.take_numbers(size)

            def save(stored: Documents) -> None:
                numbered = enumerate(pages, first)  # noqa: B023
                written = [Document(each.facts, number=number) for number, each in numbered]
                stored.read_ahead_of(written)
                for each in written:
                    stored.save(each)

            trips[0] = 0
            store.write(save)
            assert trips[0] == 2
        assert store.check() == []


@pytest.mark.parametrize("plain", [True, False])
def test_a_page_is_judged_in_few_round_trips(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch, *, plain: bool
) -> None:
    """One more for the document of a near fingerprint, if nothing else leads to it."""
    url, draw = redis_server.url(), Random(7)  # noqa: S311 - reproducible
    bits = [draw.getrandbits(64) for _ in range(40)]
    with open_store(url, rule="plain" if plain else "words") as store:
        store.find_and_add([document(f"{n}", x, text=f"text {n}") for n, x in enumerate(bits)])
    with open_store(url, readonly=True) as store:
        trips = count_trips(monkeypatch)
        for found, most in ((bits[0] ^ 1, 3), (bits[0] ^ 2**32 - 1, 1)):
            trips[0] = 0
            store.find_and_add([document("page", found, text="text 0")])
            assert trips[0] <= most


def test_a_page_of_a_known_host_takes_two_round_trips(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One by what it is, and one by what that names; its site is read with the first copy."""
    url, trips, found = redis_server.url(), count_trips(monkeypatch), Counter[str]()
    for name in ("first", "second"):
        with judging(url, crawl=name) as crawl:
            for number in range(40):
                trips[0] = 0
                asked = crawl.ask(str(number), page(number % 20, menu=f"Menu {number}"))
                assert trips[0] <= 2 or number in {0, 20}
                found[crawl.find(asked)] += 1
                crawl.settle(asked)
    assert found == {"new": 20, "near_duplicate drop": 40, "revisit unchanged": 20}
