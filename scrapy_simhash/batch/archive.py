"""Archives: files of sorted, compressed tables, one after the other (section 3.2).

::

    octets 0-7     89 "SIMHASH"
           8-11    version of the format, little-endian
           12-15   length of the header, little-endian
           16-     the header: JSON (`ArchiveHeader`), filled up with spaces
           ...     XXH3-64 of all octets before it, little-endian, ends the header
    for each table of the design
           blocks of one size, see `batch.compression`
           the key of each block: the leading octets of its last permuted fingerprint, big-endian
           the checksum of each group of blocks: XXH3-64 of these blocks and then their keys,
               seeded with table * 2**48 + group, little-endian

A group has as many blocks as fit in 16 kB, at least one. A checksum covers every octet of the file,
and the header gives its length. The file is mapped into memory, not loaded, and checksums are
verified before data is used: a flipped bit raises `ArchiveError` and never yields a wrong
fingerprint.
"""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from struct import Struct
from typing import IO, TYPE_CHECKING, BinaryIO, Self

import msgspec
import numpy as np
import xxhash

from scrapy_simhash._files import open_whole
from scrapy_simhash.batch.compression import (
    BLOCK_BYTES,
    BlockDecoder,
    check_block_bytes,
    count_symbols,
    encode_blocks,
    make_code,
)
from scrapy_simhash.errors import ArchiveError
from scrapy_simhash.pages.facts import FINGERPRINT_BITS, Recipe, check_fingerprint
from scrapy_simhash.tables import FINGERPRINT_BYTES, Design, Table, parse_design

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

FORMAT = 1
MAGIC = b"\x89SIMHASH"
PREFIX = Struct("<8sII")
CHECKSUM = Struct("<Q")
# The header of 255 tables takes 60 kB; a much longer one cannot be valid.
MOST_HEADER_BYTES = 1 << 20
# 8 octets for 16 kB are 0.02 bits a fingerprint; a probe spends a few microseconds a table on them.
_GROUP_BYTES = 16_384
_LARGEST = 2**64 - 1
# One table of the unpermuted fingerprints: finds equal ones, and those one bit away.
SORTED_ONLY = "1:0"


class TableHeader(msgspec.Struct):
    """The header's entry for one table; `key_bytes` is 1 to 8."""

    blocks: int
    key_bytes: int
    code: str  # lengths of the Huffman codes of its 66 symbols, as hexadecimal octets

    @property
    def lengths(self) -> NDArray[np.uint8]:
        """The lengths of the codes; shape (66,)."""
        return np.frombuffer(bytes.fromhex(self.code), np.uint8)


class ArchiveHeader(msgspec.Struct):
    """The header of an archive."""

    file_bytes: int
    count: int  # fingerprints in each table
    design: str
    seed: int  # of the token hash
    recipe: Recipe | None  # None if unknown
    block_bytes: int
    tables: list[TableHeader]


@dataclass(frozen=True, slots=True)
class Section:
    """Where a table lies in the file: offsets of its parts, in octets."""

    blocks: int
    keys: int
    checksums: int
    end: int


def group_blocks(block_bytes: int) -> int:
    """Count the blocks of a group."""
    return max(1, _GROUP_BYTES // block_bytes)


def choose_key_bytes(table: Table, count: int) -> int:
    """Choose how many octets of a block's last fingerprint are its key."""
    # With enough octets to number the fingerprints, keys easily tell blocks apart, and no probe
    # uses more than the prefix: 3 octets for 10 million; 8 would cost a fifth of a bit more for
    # each fingerprint.
    prefix_bytes = -(-table.prefix_bits // 8)
    return max(1, min(prefix_bytes, -(-count.bit_length() // 8)))


def cut_keys(lasts: NDArray[np.uint64], key_bytes: int) -> bytes:
    """Make the keys of blocks from the last permuted fingerprint of each."""
    octets = lasts.astype(">u8").view(np.uint8).reshape(-1, FINGERPRINT_BYTES)
    return octets[:, :key_bytes].tobytes()


def sum_group(table: int, group: int, blocks: bytes | memoryview, keys: bytes | memoryview) -> int:
    """Make the checksum of a group of blocks and their keys."""
    checksum = xxhash.xxh3_64(blocks, seed=(table << 48) + group)
    checksum.update(keys)
    return checksum.intdigest()


def lay_out(header: ArchiveHeader, header_bytes: int) -> list[Section]:
    """Compute where each table lies, one after the other from the end of the header on."""
    sections = []
    start = header_bytes
    for table in header.tables:
        keys = start + table.blocks * header.block_bytes
        checksums = keys + table.blocks * table.key_bytes
        groups = -(-table.blocks // group_blocks(header.block_bytes))
        end = checksums + groups * CHECKSUM.size
        sections.append(Section(start, keys, checksums, end))
        start = end
    return sections


def reserve_header(header: ArchiveHeader) -> int:
    """Compute the length to reserve for a header whose numbers are not known yet."""
    largest = TableHeader(_LARGEST, FINGERPRINT_BYTES, bytes(66).hex())
    filled = msgspec.structs.replace(
        header, file_bytes=_LARGEST, tables=[largest] * len(parse_design(header.design).tables)
    )
    return PREFIX.size + len(msgspec.json.encode(filled)) + CHECKSUM.size


def pack_header(header: ArchiveHeader, header_bytes: int) -> bytes:
    """Write a header of the reserved length."""
    json = msgspec.json.encode(header).ljust(header_bytes - PREFIX.size - CHECKSUM.size)
    packed = PREFIX.pack(MAGIC, FORMAT, header_bytes) + json
    return packed + CHECKSUM.pack(xxhash.xxh3_64_intdigest(packed))


def unpack_prefix(octets: bytes) -> int:
    """Read the first 16 octets of a file and return the length of the header."""
    if len(octets) < PREFIX.size and MAGIC.startswith(octets[: len(MAGIC)]) and octets:
        raise ArchiveError(f"it is cut short: it has {len(octets)} octets only")
    if not octets.startswith(MAGIC):
        raise ArchiveError(f"it is not a scrapy-simhash archive: it begins with {octets[:8]!r}")
    _, version, header_bytes = PREFIX.unpack(octets)
    if version != FORMAT:
        raise ArchiveError(
            f"it has format {version}, but this version reads {FORMAT}: upgrade scrapy-simhash; "
            "if it was made by this version, octets 8 to 11 are damaged"
        )
    if not PREFIX.size + CHECKSUM.size <= header_bytes <= MOST_HEADER_BYTES:
        raise ArchiveError(f"it is damaged at octet 12: a header of {header_bytes:,} octets")
    return int(header_bytes)


def unpack_header(octets: bytes) -> ArchiveHeader:
    """Read a whole header, prefix and checksum included; raises `ArchiveError`."""
    packed, checksum = octets[: -CHECKSUM.size], octets[-CHECKSUM.size :]
    if CHECKSUM.pack(xxhash.xxh3_64_intdigest(packed)) != checksum:
        raise ArchiveError(f"its header is damaged, within octets 0 to {len(octets) - 1}")
    try:
        header = msgspec.json.decode(packed[PREFIX.size :], type=ArchiveHeader)
        _check_header(header, parse_design(header.design))
    except (msgspec.MsgspecError, ValueError) as error:
        raise ArchiveError(f"its header makes no sense: {error}") from error
    return header


def _check_header(header: ArchiveHeader, design: Design) -> None:
    check_block_bytes(header.block_bytes)
    if len(header.tables) != len(design.tables):
        raise ValueError(f"design {design.name} with {len(header.tables)} tables")
    for table in header.tables:
        if not 1 <= table.key_bytes <= FINGERPRINT_BYTES or table.blocks < 0:
            raise ValueError(f"a table with {table.blocks} blocks, keys of {table.key_bytes}")


def write_archive(  # noqa: PLR0913  # each by its name
    path: str | os.PathLike[str],
    fingerprints: NDArray[np.uint64],
    *,
    design: str = SORTED_ONLY,
    seed: int = 0,
    recipe: Recipe | None = None,
    block_bytes: int = BLOCK_BYTES,
    overwrite: bool = False,
) -> int:
    """Write an archive. If that fails, the path keeps what was there before.

    Args:
        path: path of the file.
        fingerprints: in any order, shape (n,); repeated ones are kept.
        design: name of the table design for probes; by default one table of the sorted
            fingerprints.
        seed: seed of the token hash that made the fingerprints, 0 to 2**64 - 1.
        recipe: recipe that made the fingerprints; None if unknown.
        block_bytes: size of a block, 64 to 65,536, a multiple of 8. Smaller blocks make probes
            faster, larger ones take less space.
        overwrite: replace an existing file.

    Returns:
        The length of the file in bytes.

    Raises:
        ValueError: an invalid design, seed or block size.
        FileExistsError: the file exists and `overwrite` is false.
        OSError: the file cannot be written.

    Cost: for each table, sorting and compressing all fingerprints (`write_mb_s` of
    benchmarks/bench_archive.py). Memory: two copies of the fingerprints, and some of the blocks.
    """
    header = ArchiveHeader(
        file_bytes=0,
        count=len(fingerprints),
        design=parse_design(design).name,
        seed=check_fingerprint(seed),
        recipe=recipe,
        block_bytes=check_block_bytes(block_bytes),
        tables=[],
    )
    with open_whole(Path(path), overwrite=overwrite, private=False) as file:
        _write(file, header, fingerprints)
    return header.file_bytes


def _write(file: IO[bytes], header: ArchiveHeader, fingerprints: NDArray[np.uint64]) -> None:
    header_bytes = reserve_header(header)
    file.write(bytes(header_bytes))
    for number, table in enumerate(parse_design(header.design).tables):
        permuted = table.permute(fingerprints)
        permuted.sort()
        header.tables.append(_write_table(file, number, table, permuted, header.block_bytes))
    header.file_bytes = lay_out(header, header_bytes)[-1].end
    file.seek(0)
    file.write(pack_header(header, header_bytes))


def _write_table(
    file: IO[bytes], number: int, table: Table, permuted: NDArray[np.uint64], block_bytes: int
) -> TableHeader:
    """Write the blocks, keys and checksums of a table."""
    code = make_code(count_symbols(permuted))
    key_bytes = choose_key_bytes(table, len(permuted))
    keys, checksums = [], []
    groups = _regroup(encode_blocks(permuted, code, block_bytes), group_blocks(block_bytes))
    blocks = 0
    for group, (packed, lasts) in enumerate(groups):
        keys.append(cut_keys(lasts, key_bytes))
        checksums.append(CHECKSUM.pack(sum_group(number, group, packed.data, keys[-1])))
        file.write(packed.data)
        blocks += len(packed)
    file.write(b"".join(keys))
    file.write(b"".join(checksums))
    return TableHeader(blocks, key_bytes, code.tobytes().hex())


def _regroup(
    pieces: Iterable[tuple[NDArray[np.uint8], NDArray[np.uint64]]], size: int
) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.uint64]]]:
    """Make groups of equally many blocks; the last one takes the rest."""
    packed, lasts = np.zeros((0, 0), np.uint8), np.zeros(0, np.uint64)
    for more, more_lasts in pieces:
        packed = np.concatenate([packed, more]) if len(packed) else more
        lasts = np.concatenate([lasts, more_lasts])
        full = len(packed) // size * size
        for start in range(0, full, size):
            yield packed[start : start + size], lasts[start : start + size]
        packed, lasts = packed[full:], lasts[full:]
    if len(packed):
        yield packed, lasts


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
        query, flips = check_fingerprint(fingerprint), self.design.flips_for(distance)
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
