"""Commit to a Redis store with optimistic locking.

Every commit gets a number, `seq`, and the server remembers what the last commits touched. A commit
sends the number of the last commit when it began to read. If that is still the last one, the server
writes everything in one script. Otherwise it writes nothing and returns the commits in between: if
none of them matters, the same commit is tried again with the new number, else everything is read
and judged again. So the result is as if commits ran one after the other (docs/redis.md).
"""

from __future__ import annotations

import secrets
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
import xxhash

from scrapy_simhash.errors import StoreError, StoreUnavailableError
from scrapy_simhash.stores.keyvalues import FINGERPRINTS
from scrapy_simhash.stores.redis.leases import Heartbeat
from scrapy_simhash.stores.redis.places import NEVER
from scrapy_simhash.stores.redis.scripts import (
    APPLIED,
    APPLY,
    COMMIT,
    LOCK,
    UNLOCK,
    even_when_full,
)
from scrapy_simhash.stores.redis.server import Server, is_out_of_memory, script

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from scrapy_simhash.stores.redis.places import Places
    from scrapy_simhash.stores.redis.values import RedisValues


_APPLY_EVEN_WHEN_FULL = even_when_full(APPLY)


class Commit(NamedTuple):
    """A commit in the log; each field packs its values side by side."""

    seq: bytes
    after: bytes  # the number of the commit before it
    written: bytes  # tokens of what it wrote
    fingerprints: bytes  # those of which it wrote rows
    slots: bytes  # in a cluster, its writes to each other slot


def _read_commit(entry: list[Any]) -> Commit:
    """Read an entry of the log."""
    name, fields = entry
    found = dict(zip(map(bytes.decode, fields[::2]), fields[1::2], strict=True))
    return Commit(name.partition(b"-")[0], **{key: found[key] for key in Commit._fields[1:]})


# No script can write to two slots at once. So the script that decides on a commit adds it to the
# log, with all its writes: from then on the commit is valid. Its process then applies the writes to
# their slots or, if it died, the next process does when it begins to read. No process reads before
# all commits in the log are in all slots. docs/redis.md explains why that is enough.
class Slots:
    """Applies commits to the slots of a cluster; on a single server, they are there at once."""

    def __init__(self, server: Server, places: Places) -> None:
        self._server = server
        self._places = places
        self._full = False

    def split(self, packed: dict[bytes, bytes]) -> tuple[bytes, bytes]:
        """Split the writes of a commit: its script does the first part, `apply` the second."""
        if not self._server.address.cluster:
            return b"".join(packed.values()), b""
        here = packed.pop(self._places.tag, b"")
        return here, msgspec.msgpack.encode(packed)

    def apply(self, commits: Sequence[Commit]) -> None:
        """Apply commits of the log that are not in all slots yet, in order."""
        for commit in commits:
            writes = _unpack(commit.slots)
            try:
                self._run(APPLY, commit.seq, writes)
            except StoreUnavailableError as error:
                if not is_out_of_memory(error):
                    raise
                # This commit is valid and must be applied; `require_memory` stops the next one.
                self._full = True
                self._run(_APPLY_EVEN_WHEN_FULL, commit.seq, writes)
        self._server.run_script(APPLIED, [self._places.applied], commits[-1].seq)

    def _run(self, text: str, seq: bytes, writes: Mapping[bytes, bytes]) -> None:
        self._server.run(
            [
                script(text, [tag + b":seq", tag + NEVER], seq, packed)
                for tag, packed in writes.items()
            ]
        )

    def require_memory(self, slots: bytes) -> None:
        """Refuse to commit while a node's memory is full: `apply` would write to it regardless."""
        if self._full:
            self._run(APPLY, b"0", dict.fromkeys(_unpack(slots), b""))  # changes nothing
            self._full = False

    def apply_committed(self, commits: Sequence[Commit]) -> bool:
        """Apply new commits to their slots; returns False if the next reader has to do it."""
        if self._server.address.cluster:
            try:
                self.apply(commits)
            except StoreUnavailableError:
                return False
        return True


def _unpack(slots: bytes) -> dict[bytes, bytes]:
    """Get a commit's writes to each other slot."""
    return msgspec.msgpack.decode(slots, type=dict[bytes, bytes])


# A commit starts over if more than this number of others were faster.
_COMMITS_REMEMBERED = 128
# The longest that a page waits while others rewrite the tables; then it passes unjudged.
WAIT_SECONDS = 10.0
_PAUSE_SECONDS = 0.01
_TOKEN_BYTES = 8
# The lock of a dead process expires after this time; a thread of a living one renews it earlier.
# redis-py's own lock cannot be taken or kept on a server without memory.
LOCK_SECONDS = 30.0
_BEATS_PER_LOCK = 6
_COMMIT_EVEN_WHEN_FULL = even_when_full(COMMIT)


class Committer:
    """Commits, and can prevent all other processes from committing (`alone`)."""

    def __init__(self, server: Server, places: Places) -> None:
        self._server = server
        self._places = places
        self._slots = Slots(server, places)
        self._turn = b""
        # In a cluster, the last commit that this process knows to be in all slots.
        self.applied = b""

    def commit(self, values: RedisValues) -> bool:
        """Write all changes; False if nothing was written and all must be read and judged again.

        After a StoreUnavailableError nothing was written, unless it says that the server did not
        answer.
        """
        writes, places, seq = values.writes, self._places, values.seq
        if not writes:
            return True
        token = secrets.token_bytes(16)
        fingerprints = b"".join(key for table, key in values.written if table == FINGERPRINTS)
        tables = {(table, b"") for table, _ in values.written}
        written = b"".join(_make_tokens(values.written | tables))
        here, elsewhere = self._slots.split(writes.pack())
        if not writes.even_when_full:
            self._slots.require_memory(elsewhere)
        deadline = time.monotonic() + WAIT_SECONDS
        between: list[Commit] = []
        while True:
            answer, *details = self._server.run_script(
                _COMMIT_EVEN_WHEN_FULL if writes.even_when_full else COMMIT,
                [places.seq, places.log, places.lock, places.applied, places.tag + NEVER],
                *(seq, token, self._turn, _COMMITS_REMEMBERED, here),
                *(written, fingerprints, elsewhere),
            )
            if answer == b"done":
                own = Commit(details[0].partition(b"-")[0], b"", b"", b"", elsewhere)
                if self._slots.apply_committed([*between, own]):
                    self.applied = own.seq
                return True
            if answer == b"missed":
                seq_now, missed = details[0], list(map(_read_commit, details[1]))
                forgotten = not missed or missed[0].after != seq
                if forgotten or any(_matters(commit, values) for commit in missed):
                    return False
                seq = seq_now
                between += missed
            else:
                self._wait(deadline)

    def complete(self, unapplied: list[list[Any]]) -> None:
        """Apply the commits of other processes, which may be dead, to all slots."""
        self._slots.apply(list(map(_read_commit, unapplied)))

    def _wait(self, deadline: float) -> None:
        if self._turn:
            raise StoreError(
                "this took so long that another process may have begun to write; try again"
            )
        if time.monotonic() > deadline:
            raise StoreUnavailableError(
                f"the store at {self._server.address.shown} has been rewritten by another process "
                f"for more than {WAIT_SECONDS:g} seconds; try again when that is done"
            )
        time.sleep(_PAUSE_SECONDS)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Prevent others from committing; commits that they began before start over afterwards."""
        if self._turn:
            yield
            return
        turn = secrets.token_bytes(16)
        deadline = time.monotonic() + WAIT_SECONDS
        while not self._hold(turn, "new"):
            self._wait(deadline)
        self._turn = turn
        # Renew the lock, because reading a large store takes minutes.
        keeping = Heartbeat(lambda: self._hold(turn, "old"), LOCK_SECONDS / _BEATS_PER_LOCK)
        try:
            yield
        finally:
            self._turn = b""
            keeping.stop()
            self._server.run_script(UNLOCK, [self._places.lock], turn)

    def require_alone(self) -> None:
        """Raise a StoreError if this process was stopped so long that others may have committed."""
        if not self._hold(self._turn, "old"):
            raise StoreError("this process paused, so others may have written; try again")

    def commit_alone(self, values: RedisValues) -> None:
        """Commit `alone`; a StoreError if others may have committed: then nothing was written."""
        if not self.commit(values):
            values.writer.abandon()
            raise StoreUnavailableError(
                f"the server at {self._server.address.shown} lost its last commits while this one "
                "was made; try again"
            )

    def _hold(self, turn: bytes, kind: str) -> bool:
        milliseconds = round(1000 * LOCK_SECONDS)
        return bool(self._server.run_script(LOCK, [self._places.lock], turn, milliseconds, kind))


def _make_tokens(keys: Iterable[tuple[str, bytes]]) -> Iterator[bytes]:
    """Make the tokens that stand for keys, or for their tables."""
    return (xxhash.xxh3_64_digest(b"%b %b" % (table.encode(), key)) for table, key in keys)


def _matters(commit: Commit, values: RedisValues) -> bool:
    """Whether a commit may have changed what a transaction read."""
    written = commit.written
    tokens = {written[at : at + _TOKEN_BYTES] for at in range(0, len(written), _TOKEN_BYTES)}
    if not tokens.isdisjoint(_make_tokens(values.read)):
        return True
    came = np.frombuffer(commit.fingerprints, ">u8").astype(np.uint64)
    probed = np.array(list(values.probed), np.uint64)
    within = np.array(list(values.probed.values()), np.uint8)
    return bool((np.bitwise_count(came[:, None] ^ probed) <= within).any())
