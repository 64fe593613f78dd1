"""What a commit writes to a Redis store, packed for the script that does it.

Every write says what is to be the case, not what to do ("this row is in the bucket"), so doing it
twice changes nothing.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct

import xxhash

TOKEN_BYTES = 8
_CODE_AND_KEY, _FIELD, _VALUE = Struct(">BH"), Struct(">H"), Struct(">I")


class Code(IntEnum):
    """What is to be the case; the numbers are those of `redis_scripts`."""

    FIELD = 1
    """The field of a hash has this value."""
    NO_FIELD = 2
    MEMBER = 3
    """The set has this member."""
    NO_MEMBER = 4
    ROW = 5
    """The field of a hash has this row among others of the same width."""
    NO_ROW = 6
    BUCKET_ROW = 7
    """The same, for a bucket of a table, which may become too full."""
    NO_BUCKET_ROW = 8
    NO_KEY = 9
    VALUE = 10
    """The key has this value."""


_REMOVING = {Code.NO_FIELD, Code.NO_MEMBER, Code.NO_ROW, Code.NO_BUCKET_ROW, Code.NO_KEY}


class Writes:
    """What a commit writes, and what others must look at who read the same.

    Attributes:
        touched: tokens of what was written, see `token_of`.
        fingerprints: that documents got or lost.
        even_when_full: whether it is done by a server without memory, too: while things are only
            removed, or since this was set.
    """

    def __init__(self) -> None:
        self.touched: set[bytes] = set()
        self.fingerprints: set[int] = set()
        self.even_when_full = True
        self._packed: dict[bytes, list[bytes]] = {}

    def __bool__(self) -> bool:
        return bool(self._packed)

    def add(self, code: Code, key: bytes, field: bytes = b"", value: bytes = b"") -> None:
        """Add a write."""
        self.even_when_full = self.even_when_full and code in _REMOVING
        self._packed.setdefault(tag_of(key), []).extend(
            (
                _CODE_AND_KEY.pack(code, len(key)),
                key,
                _FIELD.pack(len(field)),
                field,
                _VALUE.pack(len(value)),
                value,
            )
        )

    def pack(self) -> dict[bytes, bytes]:
        """Pack the writes of each hash tag, that is of each slot of a cluster, in order."""
        return {tag: b"".join(packed) for tag, packed in self._packed.items()}


def tag_of(key: bytes) -> bytes:
    """Get what decides in which slot a key is, see `redis_keys`."""
    return key[: key.index(b"}") + 1]


def token_of(key: bytes, field: bytes = b"") -> bytes:
    """Make the token of a field, or of all of a key."""
    return xxhash.xxh3_64_digest(b"%b %b" % (key, field))
