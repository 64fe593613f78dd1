"""Reads archives: compressed, sorted tables in one file, mapped into memory, never loaded whole.

The format is drawn in `archive_format`; `archive_writer` writes it. Whatever is read is checked
first: a flipped bit raises `ArchiveError` and is never taken for a fingerprint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scrapy_simhash.archive_file import ArchiveFile
from scrapy_simhash.archive_format import cut_keys
from scrapy_simhash.archive_probe import ArchiveProber
from scrapy_simhash.blocks import BlockDecoder
from scrapy_simhash.designs import parse_design
from scrapy_simhash.jointables import sort_distinct
from scrapy_simhash.recipe import Recipe

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Self

    from numpy.typing import NDArray

    from scrapy_simhash.stored import Probe

# Decoded at once: enough blocks for numpy's calls to pay. From 2,000 to 8,000 blocks of 1024 bytes
# at once took the same time.
_CHUNK_BYTES, _LEAST_BLOCKS = 1 << 22, 1_024


class Archive:
    """An archive, open for reading. A context manager; may be used by several threads.

    Args:
        path: of the file.

    Attributes:
        count: fingerprints in it, equal ones counted each.
        design: its tables.
        seed: of the token hash the fingerprints were made with.
        recipe: they were made with, or None where it is not known.
        block_bytes: size of a block.
        file_bytes: length of the file.

    Raises:
        ArchiveError: no archive, cut short, damaged, or of a newer version.
        OSError: it cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file = ArchiveFile(path)
        header = self._file.header
        self.count = header.count
        self.design = parse_design(header.design)
        self.seed = header.seed
        # Its fields were checked by the checksum.
        self.recipe = None if header.recipe is None else Recipe(**header.recipe)  # type: ignore[arg-type]
        self.block_bytes = header.block_bytes
        self.file_bytes = header.file_bytes
        self._chunk_blocks = max(_CHUNK_BYTES // header.block_bytes, _LEAST_BLOCKS)
        self._decoder = BlockDecoder([table.lengths for table in header.tables], self.block_bytes)
        self._prober = ArchiveProber(self._file, self._decoder, self.design, self._chunk_blocks)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the file back; a second time does nothing."""
        self._file.close()

    def read_chunks(self, table: int = 0) -> Iterator[NDArray[np.uint64]]:
        """Read a table, some hundred thousand fingerprints at a time.

        Args:
            table: which, 0 to the design's last.

        Yields:
            Fingerprints, restored, in the order of the table: sorted for table 0, whose order of
            bits is that of the fingerprint. Shape (n,).

        Raises:
            ArchiveError: damaged; says where.
        """
        for start, stop in self._chunks(table):
            self._file.check(table, start, stop)
            permuted, _ = self._decoder.decode(self._file.blocks(table)[start:stop], table)
            yield self.design.tables[table].restore_array(permuted)

    def _chunks(self, table: int) -> Iterator[tuple[int, int]]:
        """List runs of blocks to be decoded at once: first, and one past the last."""
        count = self._file.header.tables[table].blocks
        for start in range(0, count, self._chunk_blocks):
            yield start, min(start + self._chunk_blocks, count)

    def read_all(self) -> NDArray[np.uint64]:
        """Read all fingerprints, sorted; shape (count,). Cost: 8 bytes each, and one chunk."""
        return np.concatenate([np.zeros(0, np.uint64), *self.read_chunks()])

    def probe(self, fingerprint: int, distance: int, most_rows: int | None = None) -> Probe:
        """Find every fingerprint within a distance, see `ArchiveProber.probe`."""
        return self._prober.probe(fingerprint, distance, most_rows)

    def holds(self, fingerprint: int) -> bool:
        """Say whether exactly this fingerprint is in the archive; reads one table."""
        return self._prober.holds(fingerprint)

    def read_undamaged(self) -> NDArray[np.uint64]:
        """Read what any table still has of it: sorted, each once; shape (n,).

        All of it, as long as of each fingerprint one table is whole. Cost: decodes all tables.
        """
        found = np.zeros(0, np.uint64)
        for table, permutation in enumerate(self.design.tables):
            parts = [found]
            for start, stop in self._undamaged(table):
                permuted, _ = self._decoder.decode(self._file.blocks(table)[start:stop], table)
                parts.append(permutation.restore_array(permuted))
            found = sort_distinct(np.concatenate(parts))
        return found

    def _undamaged(self, table: int) -> Iterator[tuple[int, int]]:
        """List runs of blocks that are as they were written."""
        size = self._file.group_blocks
        for start, stop in self._chunks(table):
            pieces = [(start, stop)]
            if any(self._file.find_damage(table, start, stop)):
                pieces = [(each, min(each + size, stop)) for each in range(start, stop, size)]
            for piece in pieces:
                if not any(self._file.find_damage(table, *piece)):
                    yield piece

    def verify(self) -> list[str]:
        """Read everything and compare it; returns the problems, one line each, none if all is well.

        Cost: decodes all tables, one chunk at a time.
        """
        problems: list[str] = []
        sums = {self._verify_table(table, problems) for table in range(len(self.design.tables))}
        if not problems and len(sums) > 1:
            problems.append(f"{self._file.path}: its tables do not hold the same fingerprints")
        return problems

    def _verify_table(self, table: int, problems: list[str]) -> tuple[int, int]:
        """Verify one table; returns the sum and the XOR of its fingerprints."""
        path, found = self._file.path, len(problems)
        count, total, mixed, previous = 0, 0, 0, 0
        for start, stop in self._chunks(table):
            damage = [str(error) for error in self._file.find_damage(table, start, stop)]
            if damage:
                problems += damage
                continue
            permuted, counts = self._decoder.decode(self._file.blocks(table)[start:stop], table)
            where = f"{path}: table {table}, blocks {start:,} to {stop - 1:,}"
            if (permuted[1:] < permuted[:-1]).any() or int(permuted[0]) < previous:
                problems.append(f"{where}: not sorted")
            if self._file.keys(table, start, stop) != self._make_keys(table, permuted, counts):
                problems.append(f"{where}: a key is not that of its block")
            previous = int(permuted[-1])
            restored = self.design.tables[table].restore_array(permuted)
            count += len(restored)
            total = (total + int(restored.sum())) % 2**64
            mixed ^= int(np.bitwise_xor.reduce(restored))
        if len(problems) == found and count != self.count:
            problems.append(f"{path}: table {table} has {count:,} fingerprints, not {self.count:,}")
        return total, mixed

    def _make_keys(
        self, table: int, permuted: NDArray[np.uint64], counts: NDArray[np.intp]
    ) -> bytes:
        lasts = permuted[np.cumsum(counts) - 1]
        return cut_keys(lasts, self._file.header.tables[table].key_bytes)
