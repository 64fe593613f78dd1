"""Copy a snapshot of an LMDB file row by row, without free pages.

LMDB's own copy of that kind (`copyfd` with `compact`) ends the process by SIGSEGV where one key has
more rows than fit into a page (lmdb 3.0.0), as a page with 300 near-duplicates has.
"""

from __future__ import annotations

import os
from itertools import chain
from typing import TYPE_CHECKING

import lmdb

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# LMDB keeps the pages of a commit in memory.
_BYTES_PER_COMMIT = 16 * 2**20
_BYTES_PER_NODE = 8
_LEAST_MAP_BYTES = 16 * 2**20


def copy_rows(
    source: lmdb.Environment,
    transaction: lmdb.Transaction[bytes],
    target: Path,
    *,
    lib_version: int,
    mode: int,
) -> None:
    """Write all rows that a transaction sees into a new file, durably."""
    used = (source.info()["last_pgno"] + 1) * source.stat()["psize"]
    names = list(transaction.cursor().iternext(keys=True, values=False))
    with lmdb.open(
        str(target),
        subdir=False,
        lock=False,
        sync=False,
        mode=mode,
        map_size=max(2 * used, _LEAST_MAP_BYTES),
        max_dbs=len(names),
        lib_version=lib_version,
    ) as copy:
        for name in names:
            opened = source.open_db(name, transaction, create=False)
            flags = opened.flags()
            made = copy.open_db(name, dupsort=flags["dupsort"], dupfixed=flags["dupfixed"])
            rows = iter(transaction.cursor(opened))
            while row := next(rows, None):
                with copy.begin(write=True) as writing:
                    some = _take(chain([row], rows))
                    writing.cursor(made).putmulti(some, append=True)
    with target.open("rb") as file:
        os.fchmod(file.fileno(), mode)  # whatever the umask is
        os.fsync(file.fileno())


def _take(rows: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
    """Take the rows of one commit."""
    taken_bytes = 0
    for key, value in rows:
        yield key, value
        taken_bytes += _BYTES_PER_NODE + len(key) + len(value)
        if taken_bytes >= _BYTES_PER_COMMIT:
            break
