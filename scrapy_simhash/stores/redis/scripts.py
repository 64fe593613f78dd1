"""Lua scripts that the server runs: they begin to read, commit, lock and renew leases atomically.

Scripts are called by their hash, so each version of this package runs its own. Redis runs a script
completely or not at all, in memory and in the append-only file, and so all of a commit or nothing.
With its memory full, it runs only scripts with the flag `allow-oom`: they keep or end something, or
only delete. The scripts are in `lua/`; each lists its keys, arguments and result.
"""

from collections import defaultdict
from enum import IntEnum
from importlib.resources import files
from struct import Struct

_LUA = files(__package__) / "lua"


def _read(name: str, *, writing: bool = True) -> str:
    """Read a script; `writing` inserts the shared code of `writes.lua` after the line of flags."""
    flags, end, work = (_LUA / f"{name}.lua").read_text("utf-8").partition("\n")
    return flags + end + ((_LUA / "writes.lua").read_text("utf-8") if writing else "") + work


BEGIN, COMMIT, APPLY, LEASE = map(_read, ("begin", "commit", "apply", "lease"))
APPLIED, LOCK, UNLOCK, FOLLOW = (
    _read(name, writing=False) for name in ("applied", "lock", "unlock", "follow")
)


def even_when_full(text: str) -> str:
    """Let a script run on a server whose memory is full, too."""
    return text.replace("#!lua", "#!lua flags=allow-oom", 1)


class Code(IntEnum):
    """The kinds of writes; the scripts know these numbers."""

    PUT = 1
    """The field of a hash has this value."""
    DELETE = 2
    """The hash lacks this field."""
    ADD = 3
    """The set in the field of a hash has this member."""
    DISCARD = 4
    """The set lacks it."""
    DROP = 5
    """The hash lacks this set."""


_REMOVING = {Code.DELETE, Code.DISCARD, Code.DROP}
_HEAD = Struct(">BHHHI")


# Each write describes the result ("this set has the member"), not an action, so writing twice
# changes nothing.
class Writes:
    """The writes of a commit, by the slot of a cluster."""

    def __init__(self) -> None:
        self.even_when_full = True  # allowed if the server's memory is full: it only deletes
        self.size = 0  # in bytes, roughly
        self._packed: defaultdict[bytes, list[bytes]] = defaultdict(list)

    def __bool__(self) -> bool:
        return bool(self._packed)

    def add(self, code: Code, name: bytes, field: bytes, value: bytes = b"", most: int = 0) -> None:
        """Add a write to a hash; beyond `most` members, a set becomes a key of its own."""
        if code not in _REMOVING:
            self.even_when_full = False
        self.size += len(name) + len(field) + len(value)
        head = _HEAD.pack(code, most, len(name), len(field), len(value))
        self._packed[name[: name.index(b"}") + 1]] += (head, name, field, value)

    def pack(self) -> dict[bytes, bytes]:
        """Pack the writes by hash tag, and so by slot of a cluster, in order."""
        return {tag: b"".join(packed) for tag, packed in self._packed.items()}
