"""Commits to a Redis store: judged by what was read, written if that still holds.

Every commit gets a number, `seq`, and the server keeps what the last ones touched. A commit says
which number it began with. When that is still the last one, the server writes all of it in one
script. Otherwise it writes nothing and says what came in between: when none of that matters here,
the same commit is tried again with the new number, else everything is read and judged anew. So the
outcome is that of one commit after the other, in the order of their numbers (docs/redis.md).
"""

from __future__ import annotations

import secrets
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from scrapy_simhash.redis_scripts import COMMIT, LOCK, UNLOCK, even_when_full
from scrapy_simhash.redis_server import script
from scrapy_simhash.redis_slots import Commit, Slots, read_commit
from scrapy_simhash.redis_tables import MOST_IN_BUCKET
from scrapy_simhash.redis_writes import TOKEN_BYTES
from scrapy_simhash.stores import StoreError, StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_simhash.redis_documents import RedisDocuments
    from scrapy_simhash.redis_keys import Keys
    from scrapy_simhash.redis_server import Server

# Whoever was overtaken by more than that begins anew.
_COMMITS_REMEMBERED = 128
# How long others may rewrite the tables before a page passes unjudged instead of waiting.
WAIT_SECONDS = 10.0
_PAUSE_SECONDS = 0.01
# A holder that died is given up after that; one that works says so more often, by a thread.
LOCK_SECONDS = 30.0
_BEATS_PER_LOCK = 6
_COMMIT_EVEN_WHEN_FULL = even_when_full(COMMIT)


class Committer:
    """Commits, and keeps others from it where somebody has to be alone.

    Args:
        server: of the store.
        keys: of the store.
    """

    def __init__(self, server: Server, keys: Keys) -> None:
        self._server = server
        self._keys = keys
        self._slots = Slots(server, keys)
        self._turn = b""

    def commit(self, stored: RedisDocuments, seq: bytes) -> bool:
        """Write what was changed.

        Args:
            stored: what was read, and what is to be written.
            seq: number of the last commit when reading began.

        Returns:
            False when everything has to be read and judged anew; nothing was written.

        Raises:
            StoreUnavailableError: nothing was written; or the server did not answer, and it may
                have been.
        """
        writes = stored.snapshot.writes
        if not writes:
            return True
        fingerprints = np.array(sorted(writes.fingerprints), ">u8").tobytes()
        token, touched = secrets.token_bytes(16), b"".join(writes.touched)
        here, elsewhere = self._slots.split(writes.pack())
        if not writes.even_when_full:
            self._slots.require_memory(elsewhere)
        deadline = time.monotonic() + WAIT_SECONDS
        between: list[Commit] = []
        while True:
            answer, *details = self._server.call(
                *script(
                    _COMMIT_EVEN_WHEN_FULL if writes.even_when_full else COMMIT,
                    [self._keys.seq, self._keys.log, self._keys.lock, self._keys.applied],
                    *(seq, token, self._turn, _COMMITS_REMEMBERED, MOST_IN_BUCKET),
                    *(touched, fingerprints, here, elsewhere),
                )
            )
            if answer == b"done":
                own = Commit(details[0].partition(b"-")[0], b"", b"", b"", elsewhere)
                self._slots.apply_committed([*between, own])
                return True
            if answer == b"missed":
                seq_now, missed = details[0], list(map(read_commit, details[1]))
                if not missed or missed[0].after != seq:
                    return False
                if any(_matters(each, stored) for each in missed):
                    return False
                seq = seq_now
                between += missed
            else:
                self._wait(deadline)

    def complete(self, unapplied: list[list[Any]]) -> None:
        """Bring the commits of others into all slots, whatever became of them; see `Slots`."""
        self._slots.apply(list(map(read_commit, unapplied)))

    def _wait(self, deadline: float) -> None:
        if self._turn:
            raise StoreError("this took so long that another process may have begun the same")
        if time.monotonic() > deadline:
            raise StoreUnavailableError(
                f"the store at {self._server.address.shown} is being rewritten by another process "
                f"for more than {WAIT_SECONDS:g} seconds"
            )
        time.sleep(_PAUSE_SECONDS)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Let nobody else commit; what others began before begins anew after it.

        Raises:
            StoreUnavailableError: another process has been alone for too long.
        """
        if self._turn:
            yield
            return
        turn = secrets.token_bytes(16)
        deadline = time.monotonic() + WAIT_SECONDS
        while not self._hold(turn, "new"):
            self._wait(deadline)
        self._turn = turn
        ending = threading.Event()
        keeping = threading.Thread(target=self._keep, args=(turn, ending), daemon=True)
        keeping.start()
        try:
            yield
        finally:
            self._turn = b""
            ending.set()
            keeping.join()
            self._server.call(*script(UNLOCK, [self._keys.lock], turn))

    def _keep(self, turn: bytes, ending: threading.Event) -> None:
        """Say that whoever is alone still works; reading a large store takes minutes."""
        while not ending.wait(LOCK_SECONDS / _BEATS_PER_LOCK):
            with suppress(StoreError):
                self._hold(turn, "old")

    def require_alone(self) -> None:
        """Make sure that nobody else committed since this process is `alone`.

        Raises:
            StoreError: it stood still, and others may have.
        """
        if not self._hold(self._turn, "old"):
            raise StoreError("others may have written because this one stood still; try again")

    def commit_alone(self, stored: RedisDocuments, seq: bytes) -> None:
        """Do what `commit` does, for who is `alone`, and so is not overtaken.

        Raises:
            StoreError: it stood still, and others may have committed; nothing was written.
            StoreUnavailableError: as `commit`.
        """
        if not self.commit(stored, seq):
            raise StoreUnavailableError(
                f"the server at {self._server.address.shown} lost its last commits while this one "
                "was made"
            )

    def _hold(self, turn: bytes, kind: str) -> bool:
        milliseconds = round(1000 * LOCK_SECONDS)
        return bool(self._server.call(*script(LOCK, [self._keys.lock], turn, milliseconds, kind)))


def _matters(commit: Commit, stored: RedisDocuments) -> bool:
    """Say whether a judgement may be another one after this commit."""
    touched = commit.touched
    tokens = {touched[at : at + TOKEN_BYTES] for at in range(0, len(touched), TOKEN_BYTES)}
    if not tokens.isdisjoint(stored.snapshot.read):
        return True
    came = np.frombuffer(commit.fingerprints, ">u8").astype(np.uint64)
    asked = np.array(list(stored.asked), np.uint64)
    within = np.array(list(stored.asked.values()), np.uint8)
    return bool((np.bitwise_count(came[:, None] ^ asked) <= within).any())
