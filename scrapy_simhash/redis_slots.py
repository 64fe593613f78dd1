"""Commits in a cluster: decided in one slot, then brought into all others.

No script can write to two slots at once. So a commit is first put into the log, all it writes
included, by the script that decides whether it may be: from then on it counts. Then its writes are
brought to their slots, by whoever made it, or if that one died, by the next one who begins. Nobody
reads anything before all commits that the log has are in all slots. See docs/redis.md for why that
is enough.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from scrapy_simhash.redis_scripts import APPLIED, APPLY, even_when_full
from scrapy_simhash.redis_server import is_out_of_memory, script
from scrapy_simhash.redis_tables import MOST_IN_BUCKET
from scrapy_simhash.stores import StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scrapy_simhash.redis_keys import Keys
    from scrapy_simhash.redis_server import Server


_APPLY_EVEN_WHEN_FULL = even_when_full(APPLY)


class Commit(NamedTuple):
    """A commit in the log.

    Attributes:
        seq: its number.
        after: number of the one before it.
        touched: tokens of what it wrote, side by side.
        fingerprints: that documents got or lost in it, side by side.
        slots: in a cluster, what it writes to which other slot, packed.
    """

    seq: bytes
    after: bytes
    touched: bytes
    fingerprints: bytes
    slots: bytes


def read_commit(entry: list[Any]) -> Commit:
    """Read an entry of the log."""
    name, fields = entry
    found = dict(zip(fields[::2], fields[1::2], strict=True))
    return Commit(
        name.partition(b"-")[0],
        found[b"after"],
        found[b"touched"],
        found[b"fingerprints"],
        found[b"slots"],
    )


class Slots:
    """Brings commits into the slots of a cluster; a single server has them there at once.

    Args:
        server: of the store.
        keys: of the store.
    """

    def __init__(self, server: Server, keys: Keys) -> None:
        self._server = server
        self._keys = keys
        self._full = False

    def split(self, packed: dict[bytes, bytes]) -> tuple[bytes, bytes]:
        """Split what a commit writes into what its script does, and what is brought elsewhere."""
        if not self._server.address.cluster:
            return b"".join(packed.values()), b""
        here = packed.pop(self._keys.tag, b"")
        return here, msgspec.msgpack.encode(packed)

    def apply(self, commits: Sequence[Commit]) -> None:
        """Bring commits to their slots, one after the other.

        Args:
            commits: all that are in the log and not everywhere, in their order.
        """
        for commit in commits:
            writes = _unpack(commit.slots)
            try:
                self._run(APPLY, commit.seq, writes)
            except StoreUnavailableError as error:
                if not is_out_of_memory(error):
                    raise
                # It counts, so nobody goes on before it is there; but no other one after it.
                self._full = True
                self._run(_APPLY_EVEN_WHEN_FULL, commit.seq, writes)
        self._server.call(*script(APPLIED, [self._keys.applied], commits[-1].seq))

    def _run(self, text: str, seq: bytes, writes: Mapping[bytes, bytes]) -> None:
        self._server.run(
            [
                script(text, [tag + b":seq"], seq, MOST_IN_BUCKET, packed)
                for tag, packed in writes.items()
            ]
        )

    def require_memory(self, slots: bytes) -> None:
        """Make sure that no node that was full is asked for more: it would take it, see `apply`.

        Args:
            slots: what is to be committed, packed.

        Raises:
            StoreUnavailableError: one is full still.
        """
        if self._full:
            self._run(APPLY, b"0", dict.fromkeys(_unpack(slots), b""))  # changes nothing
            self._full = False

    def apply_committed(self, commits: Sequence[Commit]) -> None:
        """Do the same for what was committed just now.

        Where that fails, the commit is made all the same: it is in the log, and who reads next has
        to bring it to its slots first.
        """
        if self._server.address.cluster:
            with suppress(StoreUnavailableError):
                self.apply(commits)


def _unpack(slots: bytes) -> dict[bytes, bytes]:
    """Get what a commit writes to each other slot."""
    return msgspec.msgpack.decode(slots, type=dict[bytes, bytes])
