"""Any sequence of what a crawl does to an LMDB store, with compactions and archives in between."""

import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from numpy.typing import NDArray

from scrapy_simhash.lmdb_archived import _begin, _Content, _end, _read, _write
from scrapy_simhash.lmdb_compact import _merge, _switch, freeze
from scrapy_simhash.lmdb_store import LmdbStore
from scrapy_simhash.stores import StoreError
from tests.documents import open_lmdb
from tests.storemachine import StoreMachine

if TYPE_CHECKING:
    from scrapy_simhash.records import Header

# MOST_IN_BUCKET, _MOST_SINGLE, _ROWS_PER_SLICE: as they are, then such that a few documents are
# packed, fill several slices, and make buckets too full.
SIZES = [(65_536, 1_024, 2**20), (65_536, 1, 4), (4, 2, 1), (2, 1, 2)]
SIZE_NAMES = (
    "lmdb_tables.MOST_IN_BUCKET",
    "lmdb_tables._MOST_SINGLE",
    "lmdb_reading._ROWS_PER_SLICE",
)
NOTHING = np.zeros(0, np.uint64)


class LmdbMachine(StoreMachine):
    """An LMDB store, and an oracle that knows what it must say."""

    store: LmdbStore

    def prepare(self, data: st.DataObject) -> None:
        sizes = data.draw(st.sampled_from(SIZES))
        for name, size in zip(SIZE_NAMES, sizes, strict=True):
            self.patch.setattr(f"scrapy_simhash.{name}", size)
        # Every page after every step, in Python: the file is none of what is tried here.
        self.patch.setattr("scrapy_simhash.lmdb_environment.find_damage", lambda _: [])
        self.crowded = sizes[0] < 65_536
        self.pieces: list[tuple[int, int, int]] | None = None
        self.merging: Header | None = None
        self.content: _Content | None = None
        self.folder = Path(tempfile.mkdtemp())

    def open_store(self, **arguments: Any) -> LmdbStore:
        return open_lmdb(self.folder, **arguments)

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)

    def compacted(self) -> None:
        self.pieces = self.merging = self.content = None

    @precondition(lambda self: not self.store._header.archive)
    @rule()
    def begin_compaction(self) -> None:
        """One that was begun before is taken for killed."""
        self.pieces = self.store._environment.write(
            lambda txn: list(freeze(txn, self.store._databases).still.slices(txn))
        )
        self.merging = self.content = None

    @rule()
    def begin_merge(self) -> None:
        """Into an archive beneath the tables."""
        self.merging = self.store._environment.write(partial(_begin, self.store._databases))
        self.pieces = self.content = None

    @precondition(lambda self: self.merging)
    @rule()
    def write_archive(self) -> None:
        assert self.merging
        read = partial(_read, self.folder, self.store._databases)
        self.content = self.store._environment.read(read)
        _write(self.folder / self.merging.merging, self.merging, self.content, NOTHING)

    @precondition(lambda self: self.content)
    @rule()
    def finish_merge(self) -> None:
        assert self.merging
        assert self.content
        end = partial(_end, self.store._databases, self.merging, self.content, NOTHING)
        self.store._environment.write(end)
        self.merging = self.content = None

    @precondition(lambda self: self.pieces)
    @rule(count=st.integers(1, 30))
    def merge_some(self, count: int) -> None:
        assert self.pieces
        for _ in range(min(count, len(self.pieces))):
            piece = self.pieces.pop(0)
            self.store._environment.write(partial(_merge, self.store._databases, piece))

    @precondition(lambda self: self.pieces is not None)
    @rule()
    def finish_compaction(self) -> None:
        if self.pieces:
            self.merge_some(len(self.pieces))
        self.store._environment.write(lambda txn: _switch(txn, self.store._databases))
        self.pieces = None

    def rewritten(self) -> None:
        """A compaction that was begun before stops at its next step."""
        write, databases = self.store._environment.write, self.store._databases
        if self.pieces is not None:
            with pytest.raises(StoreError, match="rewritten by another process"):
                write(partial(_merge, databases, (0, 0, 1)))
            with pytest.raises(StoreError, match="rewritten by another process"):
                write(lambda txn: _switch(txn, databases))
        if self.merging and self.content:
            with pytest.raises(StoreError, match="rewritten by another process"):
                write(partial(_end, databases, self.merging, self.content, NOTHING))
        self.pieces = self.merging = self.content = None

    def load(self, data: st.DataObject, fingerprints: NDArray[np.uint64]) -> int:
        return self.store.bulk_load(fingerprints, archived=data.draw(st.booleans(), "archived"))


TestLmdbMachine = LmdbMachine.TestCase
# Several milliseconds a step: each is a durable transaction, and all tables are read after it.
TestLmdbMachine.settings = settings(max_examples=8, stateful_step_count=40)
