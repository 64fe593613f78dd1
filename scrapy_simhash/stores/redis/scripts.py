"""Lua scripts that the server runs: they begin to read, commit, lock and renew leases atomically.

Scripts are called by their hash, so each version of this package runs its own. Redis runs a script
completely or not at all, in memory and in the append-only file, and so all of a commit or nothing.
With its memory full, it runs only scripts with the flag `allow-oom`: they keep or end something, or
only delete. The scripts are in `lua/`; each lists its keys, arguments and result.
"""

from enum import IntEnum
from importlib.resources import files
from struct import Struct

import xxhash

_LUA = files(__package__) / "lua"


def _read(name: str, *, writing: bool = True) -> str:
    """Read a script; `writing` inserts the shared code of `writes.lua` after the line of flags."""
    flags, end, work = (_LUA / f"{name}.lua").read_text("utf-8").partition("\n")
    return flags + end + ((_LUA / "writes.lua").read_text("utf-8") if writing else "") + work


BEGIN, COMMIT, APPLY, LEASE = map(_read, ("begin", "commit", "apply", "lease"))
APPLIED, LOCK, UNLOCK, LOOKUP = (
    _read(name, writing=False) for name in ("applied", "lock", "unlock", "lookup")
)


def even_when_full(text: str) -> str:
    """Let a script run on a server whose memory is full, too."""
    return text.replace("#!lua", "#!lua flags=allow-oom", 1)


TOKEN_BYTES = 8
_CODE_AND_KEY, _FIELD, _VALUE = Struct(">BH"), Struct(">H"), Struct(">I")


class Code(IntEnum):
    """The kinds of writes; the scripts know these numbers."""

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


# Each write describes the result ("this row is in the bucket"), not an action, so writing twice
# changes nothing.
class Writes:
    """The writes of a commit, and the marks by which other commits see if it matters to them."""

    def __init__(self) -> None:
        self.touched: set[bytes] = set()  # see `token_of`
        self.fingerprints: set[int] = set()  # those that documents got or lost
        self.even_when_full = True  # allowed if the server's memory is full: it only deletes
        self._packed: dict[bytes, list[bytes]] = {}

    def __bool__(self) -> bool:
        return bool(self._packed)

    def add(self, code: Code, key: bytes, field: bytes = b"", value: bytes = b"") -> None:
        """Add a write."""
        self.even_when_full = self.even_when_full and code in _REMOVING
        self._packed.setdefault(tag_of(key), []).extend(
            (
                *(_CODE_AND_KEY.pack(code, len(key)), key),
                *(_FIELD.pack(len(field)), field),
                *(_VALUE.pack(len(value)), value),
            )
        )

    def pack(self) -> dict[bytes, bytes]:
        """Pack the writes by hash tag, and so by slot of a cluster, in order."""
        return {tag: b"".join(packed) for tag, packed in self._packed.items()}


def tag_of(key: bytes) -> bytes:
    """Get the hash tag of a key, which determines its slot."""
    return key[: key.index(b"}") + 1]


def token_of(key: bytes, field: bytes = b"") -> bytes:
    """Make the token that stands for a field, or for a whole key."""
    return xxhash.xxh3_64_digest(b"%b %b" % (key, field))
