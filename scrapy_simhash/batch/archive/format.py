"""The file format of an archive, and its writer: sorted, compressed tables, one after the other.

::

    octets 0-7     89 "SIMHASH"
           8-11    version of the format, little-endian
           12-15   length of the header, little-endian
           16-     the header: JSON (`ArchiveHeader`), filled up with spaces
           ...     XXH3-64 of all octets before it, little-endian, ends the header
    for each table of the design
           blocks of one size, see `compression`
           the key of each block: the leading octets of its last permuted fingerprint, big-endian
           the checksum of each group of blocks: XXH3-64 of these blocks and then their keys,
               seeded with table * 2**48 + group, little-endian

A group has as many blocks as fit in 16 kB, at least one. A checksum covers every octet of the file,
and the header gives its length.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import IO, TYPE_CHECKING

import msgspec
import numpy as np
import xxhash

from scrapy_simhash._files import open_whole
from scrapy_simhash.batch.archive.compression import (
    BLOCK_BYTES,
    check_block_bytes,
    count_symbols,
    encode_blocks,
    make_code,
)
from scrapy_simhash.errors import ArchiveError
from scrapy_simhash.pages.facts import (
    Recipe,
    check_fingerprint,
)
from scrapy_simhash.tables import FINGERPRINT_BYTES, Design, Table, parse_design

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

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
