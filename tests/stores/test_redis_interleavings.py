"""Commits of several processes in any interleaving of what they ask: as if one came after another.

Each process is a thread here that waits before each round trip for its turn; hypothesis draws whose
turn it is. The outcome is compared with an oracle that is told the groups in the order of commits.
"""

import itertools
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scrapy_simhash.stores.opening import open_store
from scrapy_simhash.stores.redis.commits import Commit, Committer
from scrapy_simhash.stores.redis.scripts import BEGIN
from scrapy_simhash.stores.redis.server import Server
from tests.helpers.documents import document
from tests.helpers.oracle import Oracle
from tests.helpers.processes import PATIENCE_SECONDS
from tests.stores.test_redis_faults import engine_of

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from scrapy_simhash.judging.documents import Verdict

STORE_KINDS = ("redis", "cluster")
WRITERS = 3
# A chain: each is near to the one before it, and not to the one before that.
CHAIN = [0, 0b11, 0b1111, 0b11_1111]
Group = list[tuple[str, int]]
# Of stores, one for each example.
_numbers = itertools.count()


class Schedule:
    """Lets one thread at a time go on to its next round trip.

    Args:
        turns: whose turn it is, one after the other; then it is that of each in order.
    """

    def __init__(self, turns: Sequence[int]) -> None:
        self._turns = list(turns)
        self._waiting: dict[int, threading.Event] = {}
        self._running = set(range(WRITERS))
        self._lock = threading.Lock()
        self._own = threading.local()

    def begin(self, writer: int) -> None:
        """Say which writer this thread is."""
        self._own.writer = writer

    def wait(self) -> None:
        """Wait for the turn of this thread; those that are no writers need none."""
        writer = getattr(self._own, "writer", None)
        if writer is None:
            return
        event = threading.Event()
        with self._lock:
            self._waiting[writer] = event
            self._go_on()
        assert event.wait(PATIENCE_SECONDS)

    def end(self) -> None:
        """Say that this thread is done."""
        with self._lock:
            self._running.discard(self._own.writer)
            self._own.writer = None
            self._go_on()

    def _go_on(self) -> None:
        """Once all wait, let one of them go."""
        if set(self._waiting) != self._running or not self._waiting:
            return
        drawn = next((turn for turn in self._turns if turn in self._waiting), None)
        if drawn is not None:
            self._turns.remove(drawn)
        self._waiting.pop(min(self._waiting) if drawn is None else drawn).set()


def take_turns(schedule: Schedule, run: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """Let each round trip wait for its turn."""

    def run_in_turn(self: Server, commands: Sequence[Any], **options: Any) -> list[Any]:
        schedule.wait()
        if not (self.address.cluster and commands[0][1] == BEGIN and commands[1:]):
            return run(self, commands, **options)
        # The node with the log may be the last one of a cluster to answer.
        answers = run(self, commands[1:])
        schedule.wait()
        return [*run(self, commands[:1]), *answers]

    return run_in_turn


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    groups=st.lists(
        st.lists(
            st.tuples(st.sampled_from("abcde"), st.sampled_from(CHAIN)), min_size=1, max_size=3
        ),
        min_size=WRITERS,
        max_size=WRITERS,
    ),
    turns=st.lists(st.integers(0, WRITERS - 1), max_size=60),
)
def test_any_interleaving_is_one_commit_after_the_other(
    home: str, groups: list[Group], turns: list[int]
) -> None:
    schedule = Schedule(turns)
    commits: dict[int, int] = {}
    own = threading.local()
    apply = Committer.apply_committed

    def note_commit(self: Committer, committed: Sequence[Commit]) -> None:
        if hasattr(own, "writer"):
            commits[int(committed[-1].seq)] = own.writer
        apply(self, committed)

    url = f"{home}-{next(_numbers)}"
    verdicts: dict[int, list[Verdict]] = {}
    with pytest.MonkeyPatch.context() as patch:
        stores = [open_store(url) for _ in range(WRITERS)]
        for number, store in enumerate(stores):
            store.start_crawl(f"crawl-{number}", "spider")
            engine_of(store)._undisturbed = True  # as if they had been at it for a while
        patch.setattr(Server, "run", take_turns(schedule, Server.run))
        patch.setattr(Committer, "apply_committed", note_commit)

        def add(number: int) -> None:
            own.writer = number
            schedule.begin(number)
            pages = [
                document(name, bits, crawl=f"crawl-{number}", text_digest=b"%d" % bits)
                for name, bits in groups[number]
            ]
            try:
                verdicts[number] = stores[number].find_and_add(pages)
            finally:
                schedule.end()

        threads = [threading.Thread(target=add, args=(number,)) for number in range(WRITERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_SECONDS)
    oracle = Oracle(3, alive={f"crawl-{number}" for number in range(WRITERS)})
    assert sorted(commits.values()) == list(range(WRITERS))
    for _, number in sorted(commits.items()):
        expected = [
            oracle.add(name.encode(), (bits,), f"crawl-{number}") for name, bits in groups[number]
        ]
        assert [verdict.reason or verdict.status for verdict in verdicts[number]] == expected
    assert stores[0].check() == []
    for store in stores:
        store.close()
