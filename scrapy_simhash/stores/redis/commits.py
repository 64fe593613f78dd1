"""Commit to a Redis store with optimistic locking.

Every commit gets a number, `seq`, and the server remembers what the last commits touched. A commit
sends the number of the last commit when it began to read. If that is still the last one, the server
writes everything in one script. Otherwise it writes nothing and returns the commits in between: if
none of them matters, the same commit is tried again with the new number, else everything is read
and judged again. So the result is as if commits ran one after the other (docs/redis-commits.md).

In a cluster no script can write to two slots at once. So the script that decides on a commit adds
it to the log, with all its writes: from then on the commit is valid. Its process then applies the
writes to their slots or, if it died, the next process does when it begins to read. No process reads
before all commits in the log are in all slots. docs/redis-commits.md explains why that is enough.
"""

from __future__ import annotations

import secrets
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
import xxhash

from scrapy_simhash.errors import StoreError, StoreUnavailableError
from scrapy_simhash.stores.header import HEADER_KEY
from scrapy_simhash.stores.keyvalues import FINGERPRINTS, HEADER, WAIT_SECONDS
from scrapy_simhash.stores.redis.leases import Held
from scrapy_simhash.stores.redis.places import NEVER
from scrapy_simhash.stores.redis.scripts import (
    APPLIED,
    APPLY_EVEN_WHEN_FULL,
    COMMIT,
    COMMIT_EVEN_WHEN_FULL,
    apply,
    only_deletes,
    pack,
)
from scrapy_simhash.stores.redis.server import Server, is_out_of_memory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from scrapy_simhash.stores.redis.places import Places
    from scrapy_simhash.stores.redis.values import RedisValues


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


# A commit starts over if more than this number of others were faster.
_COMMITS_REMEMBERED = 128
_PAUSE_SECONDS = 0.01
_TOKEN_BYTES = 8
# The lock of a dead process ends after this time; a thread of a living one renews it earlier.
LOCK_SECONDS = 30.0


class Committer:
    """Commits, and can prevent all other processes from committing (`alone`)."""

    def __init__(self, server: Server, places: Places) -> None:
        self._server = server
        self._places = places
        self._cluster = server.address.cluster
        self._lock: Held | None = None
        # Whether a node had no memory for a commit.
        self._full = False
        # In a cluster, the last commit that this process knows to be in all slots.
        self.applied = b""

    def commit(self, values: RedisValues, *, even_when_full: bool = False) -> bool:
        """Write all changes; False if nothing was written and all must be read and judged again.

        After a StoreUnavailableError nothing was written, unless it says that the server did not
        answer.
        """
        if not values.writes:
            return True
        places, seq = self._places, values.seq
        token = secrets.token_bytes(16)
        fingerprints = b"".join(key for table, key in values.written if table == FINGERPRINTS)
        tables = {(table, b"") for table, _ in values.written}
        written = b"".join(_make_tokens(values.written | tables))
        packed = pack(values.writes)
        here, elsewhere = b"".join(packed.values()), b""
        if self._cluster:
            here = packed.pop(places.tag, b"")
            elsewhere = msgspec.msgpack.encode(packed)
        even_when_full = even_when_full or only_deletes(values.writes)
        if self._full and not even_when_full:
            # What a full node gets is written regardless, once the commit is in the log.
            self._server.run(apply(dict.fromkeys(packed, b""), b"0"))  # changes nothing
            self._full = False
        deadline = time.monotonic() + WAIT_SECONDS
        between: list[Commit] = []
        while True:
            answer, *details = self._server.run_script(
                COMMIT_EVEN_WHEN_FULL if even_when_full else COMMIT,
                [places.seq, places.log, places.lock, places.applied, places.tag + NEVER],
                *(seq, token, self._lock.holder if self._lock else b"", _COMMITS_REMEMBERED),
                *(here, written, fingerprints, elsewhere),
            )
            if answer == b"done":
                own = Commit(details[0].partition(b"-")[0], b"", b"", b"", elsewhere)
                with suppress(StoreUnavailableError):  # then the next reader applies them
                    self.apply_committed([*between, own])
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

    def apply_committed(self, commits: Sequence[Commit]) -> None:
        """Apply new commits to their slots; on a single server, they are there already."""
        if self._cluster:
            self._apply(commits)
            self.applied = commits[-1].seq

    def complete(self, unapplied: list[list[Any]]) -> None:
        """Apply the commits of other processes, which may be dead, to all slots."""
        self._apply(list(map(_read_commit, unapplied)))

    def _apply(self, commits: Sequence[Commit]) -> None:
        """Apply commits of the log that are not in all slots yet, in order."""
        for commit in commits:
            writes = msgspec.msgpack.decode(commit.slots, type=dict[bytes, bytes])
            try:
                self._server.run(apply(writes, commit.seq))
            except StoreUnavailableError as error:
                if not is_out_of_memory(error):
                    raise
                # This commit is valid and must be applied; `commit` refuses the next one.
                self._full = True
                self._server.run(apply(writes, commit.seq, APPLY_EVEN_WHEN_FULL))
        self._server.run_script(APPLIED, [self._places.applied], commits[-1].seq)

    def _wait(self, deadline: float) -> None:
        if self._lock:
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
        # It is renewed, because reading a large store takes minutes.
        lock = Held(self._server, self._places.lock, "lock", LOCK_SECONDS, "hold")
        deadline = time.monotonic() + WAIT_SECONDS
        while not lock.take():
            self._wait(deadline)
        self._lock = lock
        try:
            yield
        finally:
            self._lock = None
            lock.end()

    def require_alone(self) -> None:
        """Raise a StoreError if this process was stopped so long that others may have committed."""
        if self._lock is None or not self._lock.renew():
            raise StoreError("this process paused, so others may have written; try again")

    def commit_alone(self, values: RedisValues) -> None:
        """Commit `alone`; a StoreError if others may have committed: then nothing was written."""
        replaces = values.writer.finish(values.writes)
        if replaces:
            values.written.add((HEADER, HEADER_KEY))  # which every transaction reads
        # Allowed on a server without memory, because deleting the old tables then frees some.
        if not self.commit(values, even_when_full=replaces):
            values.writer.abandon()
            raise StoreUnavailableError(
                f"the server at {self._server.address.shown} lost its last commits while this one "
                "was made; try again"
            )
        with suppress(StoreError):  # then the next writer deletes them
            values.writer.settle()


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
