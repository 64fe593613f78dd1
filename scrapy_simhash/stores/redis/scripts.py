"""Lua scripts that the server runs: they begin to read, commit and renew leases atomically.

Scripts are called by their hash, so each version of this package runs its own. Redis runs a script
completely or not at all, in memory and in the append-only file, and so all of a commit or nothing.
With its memory full, it runs only scripts with the flag `allow-oom`: they keep or end something, or
only delete. The scripts are in `lua/`; each lists its keys, arguments and result.
"""

from __future__ import annotations

from collections import defaultdict
from enum import IntEnum
from hashlib import sha1
from importlib.resources import files
from struct import Struct
from typing import TYPE_CHECKING, TypeAlias

from scrapy_simhash.stores.redis.places import NEVER

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Command: TypeAlias = tuple[object, ...]

# By their hashes.
TEXTS: dict[str, str] = {}


def _read(name: str, *, even_when_full: bool = False) -> str:
    """Read a script, and put what all of them share behind the line of flags; returns its hash."""
    shared, text = (
        (files(__package__) / "lua" / f"{each}.lua").read_text("utf-8") for each in ("writes", name)
    )
    flags, end, work = text.partition("\n")
    if even_when_full:
        flags += " flags=allow-oom"
    text = flags + end + shared + work
    digest = sha1(text.encode(), usedforsecurity=False).hexdigest()
    TEXTS[digest] = text
    return digest


BEGIN, COMMIT, APPLY, APPLIED, FOLLOW, LEASE = map(
    _read, ("begin", "commit", "apply", "applied", "follow", "lease")
)
COMMIT_EVEN_WHEN_FULL, APPLY_EVEN_WHEN_FULL = (
    _read(name, even_when_full=True) for name in ("commit", "apply")
)


def script(digest: str, keys: Sequence[bytes], *arguments: object) -> Command:
    """Make the command that runs a script."""
    return ("EVALSHA", digest, len(keys), *keys, *arguments)


class Code(IntEnum):
    """The kinds of writes; the scripts know these numbers."""

    PUT = 1  # the field of a hash has this value
    DELETE = 2  # the hash lacks this field
    ADD = 3  # the set in the field of a hash has this member
    DISCARD = 4  # the set lacks it
    DROP = 5  # the hash lacks this set


_REMOVING = {Code.DELETE, Code.DISCARD, Code.DROP}
_HEAD, _FIELD, _VALUE = Struct(">BHH"), Struct(">H"), Struct(">I")
# A write describes the result ("this set has the member"), not an action, so writing twice changes
# nothing: code, name of the hash, field, value or member, and how many members a field may have.
Write: TypeAlias = tuple[Code, bytes, bytes, bytes, int]


def only_deletes(writes: Iterable[Write]) -> bool:
    """Whether all writes free memory, so that a full server takes them."""
    return all(write[0] in _REMOVING for write in writes)


def pack(writes: Iterable[Write]) -> dict[bytes, bytes]:
    """Pack writes by hash tag, and so by slot of a cluster, in order."""
    packed: defaultdict[bytes, list[bytes]] = defaultdict(list)
    for code, name, field, value, most in writes:
        head = _HEAD.pack(code, most, len(name))
        packed[name[: name.index(b"}") + 1]] += (
            *(head, name, _FIELD.pack(len(field)), field),
            *(_VALUE.pack(len(value)), value),
        )
    return {tag: b"".join(parts) for tag, parts in packed.items()}


def apply(packed: Mapping[bytes, bytes], seq: bytes = b"", digest: str = APPLY) -> list[Command]:
    """Make the commands that write to each slot what `pack` packed, of a commit or of none."""
    return [
        script(digest, [tag + b":seq", tag + NEVER], seq, writes) for tag, writes in packed.items()
    ]
