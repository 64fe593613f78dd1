"""Several writers on one server, without a lock: no set loses a member, and no value an update."""

from collections.abc import Callable
from functools import partial
from random import Random, SystemRandom

import pytest

from scrapy_simhash import open_store
from scrapy_simhash.errors import StoreUnavailableError
from scrapy_simhash.judging.documents import Record, State
from scrapy_simhash.stores import redis as redis_kind
from scrapy_simhash.stores.documents import Documents
from scrapy_simhash.stores.keyvalues import IDENTITIES, KEYS, KeyValues, octets
from scrapy_simhash.stores.redis import RedisEngine
from tests.helpers.children import running
from tests.helpers.documents import document
from tests.helpers.oracle import Rows
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


def test_a_group_is_written_in_three_round_trips(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many documents it has: for the header, for what is there, and to write."""
    draw = Random(7)  # noqa: S311 - reproducible
    trips = count_trips(monkeypatch)
    with open_store(redis_server.url()) as store:
        for size in (1, 16, 64):
            bits = [draw.getrandbits(64) for _ in range(size)]
            pages = [document(f"{size} {n}", found) for n, found in enumerate(bits)]
            first = store.engine.take_numbers(size)

            def save(stored: Documents) -> None:
                records = [Record(page.facts, State.DONE, (), 0.0) for page in pages]  # noqa: B023
                numbered = list(enumerate(records, first))  # noqa: B023
                stored.read_ahead_of(numbered)
                for number, record in numbered:
                    stored.save(number, record)

            trips[0] = 0
            store.write(save)
            assert trips[0] == 3
        assert store.check() == []
