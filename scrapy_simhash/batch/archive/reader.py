"""Read archives: compressed, sorted tables in a file that is mapped into memory, not loaded.

`format` describes the file. Checksums are verified before data is used: a flipped bit raises
`ArchiveError` and never yields a wrong fingerprint.
"""

from __future__ import annotations

import mmap
import os
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Self

import numpy as np

from scrapy_simhash.batch.archive.compression import BlockDecoder
from scrapy_simhash.batch.archive.format import (
    CHECKSUM,
    PREFIX,
    group_blocks,
    lay_out,
    sum_group,
    unpack_header,
    unpack_prefix,
)
from scrapy_simhash.errors import ArchiveError
from scrapy_simhash.pages.facts import FINGERPRINT_BITS, check_fingerprint
from scrapy_simhash.tables import parse_design

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from scrapy_simhash.batch.archive.format import ArchiveHeader

_CURE = "Take another copy, or export it again"
# Decoded at once: enough blocks to make numpy's calls worthwhile. 2,000 to 8,000 blocks of 1024
# bytes took equally long.
_CHUNK_BYTES, _LEAST_BLOCKS = 1 << 22, 1_024
# With evenly spread keys, log log n guesses are enough: 5 for four billion. If more are needed, the
# keys are not evenly spread, and the search halves the range instead.
MOST_GUESSES = 8


class Archive:
    """An archive, open for reading. A context manager; several threads may use it.

    Args:
        path: path of the file.

    Attributes:
        count: number of fingerprints, counting repeated ones.
        design: the table design.
        seed: the seed of the token hash that made the fingerprints.
        recipe: the recipe that made the fingerprints, or None if unknown.
        block_bytes: size of a block.
        file_bytes: length of the file.

    Raises:
        ArchiveError: the file is not an archive, cut short, damaged, or of a newer version.
        OSError: the file cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        with self._path.open("rb") as file:
            try:
                header, header_bytes = _read_header(file)
            except ArchiveError as error:
                raise ArchiveError(f"{self._path} cannot be used: {error}. {_CURE}") from error
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._header, self._sections = header, lay_out(header, header_bytes)
        self.count = header.count
        self.design = parse_design(header.design)
        self.seed = header.seed
        self.recipe = header.recipe
        self.block_bytes = header.block_bytes
        self.file_bytes = header.file_bytes
        self._chunk_blocks = max(_CHUNK_BYTES // header.block_bytes, _LEAST_BLOCKS)
        self._decoder = BlockDecoder([table.lengths for table in header.tables], self.block_bytes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        self._map.close()

    def read_chunks(self, table: int = 0) -> Iterator[NDArray[np.uint64]]:
        """Read a table, some hundred thousand fingerprints at a time.

        Args:
            table: its number, from 0.

        Yields:
            Fingerprints, restored, in the order of the table; table 0 does not permute bits, so its
            fingerprints are sorted. Shape (n,).

        Raises:
            ArchiveError: the file is damaged; the message says where.
        """
        blocks = self._header.tables[table].blocks
        for start in range(0, blocks, self._chunk_blocks):
            stop = min(start + self._chunk_blocks, blocks)
            self._check(table, start, stop)
            permuted, _ = self._decoder.decode(self._blocks(table)[start:stop], table)
            yield self.design.tables[table].restore(permuted)

    def read_all(self) -> NDArray[np.uint64]:
        """Read all fingerprints, sorted; shape (count,). Memory: 8 bytes each, and one chunk."""
        return np.concatenate([np.zeros(0, np.uint64), *self.read_chunks()])

    def probe(self, fingerprint: int, distance: int) -> list[tuple[int, int]]:
        """Find every fingerprint within a distance.

        Args:
            fingerprint: the query.
            distance: bits; at most the design's `reach_bits`.

        Returns:
            (distance, fingerprint) of each, nearest first; equal fingerprints once. Cost: two
            interpolation searches a table, and as many decoding steps as a block has fingerprints;
            where bits must be flipped, two more searches for each prefix with flipped
            bits.

        Raises:
            ArchiveError: the file is damaged where it was read.
            ValueError: the query is not a fingerprint, or the distance beyond `reach_bits`.
        """
        query = check_fingerprint(fingerprint)
        if not 0 <= distance <= self.design.reach_bits:
            raise ValueError(
                f"{self._path} has table design {self.design.name}, which is complete up to "
                f"{self.design.reach_bits} bits, not {distance}; export it with another design"
            )
        flips = self.design.flips_for(distance)
        blocks = [
            self._find_blocks(query, table, flips) for table in range(len(self.design.tables))
        ]
        tables = np.repeat(np.arange(len(blocks)), [len(some) for some in blocks])
        places = np.concatenate(blocks)
        found: set[tuple[int, int]] = set()
        for start in range(0, len(places), self._chunk_blocks):
            chunk = slice(start, start + self._chunk_blocks)
            found.update(self._compare(query, tables[chunk], places[chunk], distance))
        return sorted(found)

    def _find_blocks(self, query: int, table: int, flips: int) -> NDArray[np.intp]:
        """Find the blocks with the query's prefix, with at most `flips` of its bits flipped."""
        permutation = self.design.tables[table]
        permuted, prefix_bits = permutation.permute(query), permutation.prefix_bits
        leading = [1 << bit for bit in range(FINGERPRINT_BITS - prefix_bits, FINGERPRINT_BITS)]
        found = [
            self._find_range(table, permuted ^ sum(flipped), prefix_bits)
            for count in range(flips + 1)
            for flipped in combinations(leading, count)
        ]
        return np.unique(np.concatenate(found))

    def _find_range(self, table: int, permuted: int, prefix_bits: int) -> NDArray[np.intp]:
        """Find the blocks with the leading bits of a permuted fingerprint, and check them."""
        header = self._header.tables[table]
        read_key, key_bits = partial(self._key, table), 8 * header.key_bytes
        rest = (1 << (FINGERPRINT_BITS - prefix_bits)) - 1
        cut = FINGERPRINT_BITS - key_bits
        first = find_first(read_key, header.blocks, (permuted & ~rest) >> cut, key_bits)
        # The first block with a larger key may begin within the prefix.
        end = find_first(read_key, header.blocks, ((permuted | rest) >> cut) + 1, key_bits) + 1
        end = min(end, header.blocks)
        # The search read unchecked keys; if those at both ends are undamaged, its result is right.
        self._check(table, max(0, first - 1), end)
        return np.arange(first, end)

    def _compare(
        self, query: int, tables: NDArray[np.intp], blocks: NDArray[np.intp], distance: int
    ) -> Iterable[tuple[int, int]]:
        """Decode checked blocks of these tables, and yield the fingerprints that are near."""
        count = len(self.design.tables)
        parts = [self._blocks(table)[blocks[tables == table]] for table in range(count)]
        permuted, counts = self._decoder.decode(np.concatenate(parts), tables)
        queries = np.array([table.permute(query) for table in self.design.tables], np.uint64)
        owners = np.repeat(tables, counts)
        distances = np.bitwise_count(permuted ^ queries[owners])
        (near,) = (distances <= distance).nonzero()
        return {
            (bits, self.design.tables[table].restore(value))
            for bits, table, value in zip(
                distances[near].tolist(),
                owners[near].tolist(),
                permuted[near].tolist(),
                strict=True,
            )
        }

    def _blocks(self, table: int) -> NDArray[np.uint8]:
        """Map the blocks of a table, unchecked; shape (blocks, block_bytes). Do not keep them."""
        section = self._sections[table]
        octets = np.frombuffer(self._map, np.uint8, section.keys - section.blocks, section.blocks)
        return octets.reshape(-1, self._header.block_bytes)

    def _key(self, table: int, block: int) -> int:
        """Read the key of a block, unchecked."""
        return int.from_bytes(self._keys(table, block, block + 1), "big")

    def _keys(self, table: int, start: int, stop: int) -> bytes:
        """Read the keys of neighbouring blocks, unchecked."""
        first, width = self._sections[table].keys, self._header.tables[table].key_bytes
        return self._map[first + start * width : first + stop * width]

    def _check(self, table: int, start: int, stop: int) -> None:
        """Raise an ArchiveError if these blocks, or others of their groups, are damaged."""
        width, count = self._header.block_bytes, self._header.tables[table].blocks
        size, section = group_blocks(width), self._sections[table]
        for group in range(start // size, -(-stop // size)):
            first, end = group * size, min((group + 1) * size, count)
            left, right = section.blocks + first * width, section.blocks + end * width
            stored = section.checksums + group * CHECKSUM.size
            with memoryview(self._map) as octets, octets[left:right] as blocks:
                made = sum_group(table, group, blocks, self._keys(table, first, end))
                (checksum,) = CHECKSUM.unpack_from(octets, stored)
            if made != checksum:
                raise ArchiveError(
                    f"{self._path} is damaged at octets {left:,} to {right - 1:,} (blocks "
                    f"{first:,} to {end - 1:,} of table {table}), in their keys before octet "
                    f"{section.checksums:,}, or in the checksum at octet {stored:,}. {_CURE}"
                )


def _read_header(file: BinaryIO) -> tuple[ArchiveHeader, int]:
    """Read the header and check the length of the file, before the file is mapped."""
    size = os.fstat(file.fileno()).st_size
    prefix = file.read(PREFIX.size)
    header_bytes = unpack_prefix(prefix)
    octets = prefix + file.read(header_bytes - PREFIX.size)
    if len(octets) < header_bytes:
        raise ArchiveError(
            f"it is cut short: it has {size:,} octets, its header alone {header_bytes:,}"
        )
    header = unpack_header(octets)
    end = lay_out(header, header_bytes)[-1].end
    if header.file_bytes != end:
        raise ArchiveError(f"its header makes no sense: {header.file_bytes:,} octets, not {end:,}")
    if size != end:
        what = "cut short" if size < end else "too long"
        raise ArchiveError(f"it is {what}: it has {size:,} octets instead of {end:,}")
    return header, header_bytes


def find_first(read_key: Callable[[int], int], count: int, wanted: int, key_bits: int) -> int:
    """Find the first of `count` sorted keys that is not below `wanted`, by interpolation search."""
    # Keys are 0 to 2**key_bits - 1; returns `count` if all are smaller. If the keys are not sorted,
    # the result is some position whose key is not smaller, but the key before it is. Cost:
    # O(log log count) reads if keys are evenly spread, never more than 8 + log2(count) + 1.
    low, high = 0, count
    # The keys before `low` and at `high`; at first, below and above all keys.
    below, above = -1, 1 << key_bits
    guesses = MOST_GUESSES
    while low < high:
        if guesses:
            guesses -= 1
            place = low + (high - low) * (wanted - below) // (above - below + 1)
        else:
            place = (low + high) // 2
        key = read_key(place)
        if key < wanted:
            low, below = place + 1, key
        else:
            high, above = place, key
    return low
