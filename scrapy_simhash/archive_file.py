"""The file behind an archive: mapped into memory, its parts found and checked."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from scrapy_simhash.archive_format import (
    CHECKSUM,
    PREFIX,
    ArchiveError,
    group_blocks,
    lay_out,
    sum_group,
    unpack_header,
    unpack_prefix,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from numpy.typing import NDArray

    from scrapy_simhash.archive_format import Header

_CURE = "Take another copy, or export it again"


class ArchiveFile:
    """Header, blocks and keys of an archive; see `archive_format` for where they are.

    Args:
        path: of the file.

    Attributes:
        header: what the file says of itself.
        group_blocks: so many neighbouring blocks share a checksum.

    Raises:
        ArchiveError: no archive, cut short, damaged, or of a newer version.
        OSError: it cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        with self.path.open("rb") as file:
            try:
                self.header, header_bytes = _read_header(file)
            except ArchiveError as error:
                raise ArchiveError(f"{self.path} cannot be used: {error}. {_CURE}") from error
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._sections = lay_out(self.header, header_bytes)
        self.group_blocks = group_blocks(self.header.block_bytes)

    def close(self) -> None:
        """Give the file back; a second time does nothing."""
        self._map.close()

    def blocks(self, table: int) -> NDArray[np.uint8]:
        """Map the blocks of a table; shape (blocks, block_bytes). Unchecked, and not to be kept."""
        section = self._sections[table]
        octets = np.frombuffer(self._map, np.uint8, section.keys - section.blocks, section.blocks)
        return octets.reshape(-1, self.header.block_bytes)

    def key(self, table: int, block: int) -> int:
        """Read the key of a block, unchecked."""
        return int.from_bytes(self.keys(table, block, block + 1), "big")

    def keys(self, table: int, start: int, stop: int) -> bytes:
        """Read the keys of neighbouring blocks, unchecked."""
        first, width = self._sections[table].keys, self.header.tables[table].key_bytes
        return self._map[first + start * width : first + stop * width]

    def check(self, table: int, start: int, stop: int) -> None:
        """Check these blocks and their keys.

        Raises:
            ArchiveError: they are damaged, or others of their group.
        """
        for error in self.find_damage(table, start, stop):
            raise error

    def find_damage(self, table: int, start: int, stop: int) -> Iterator[ArchiveError]:
        """Compare the checksums of all groups that these blocks are in; yields what is wrong."""
        size, section = self.group_blocks, self._sections[table]
        width, count = self.header.block_bytes, self.header.tables[table].blocks
        for group in range(start // size, -(-stop // size)):
            first, end = group * size, min((group + 1) * size, count)
            left, right = section.blocks + first * width, section.blocks + end * width
            stored = section.checksums + group * CHECKSUM.size
            with memoryview(self._map) as octets, octets[left:right] as blocks:
                made = sum_group(table, group, blocks, self.keys(table, first, end))
                (checksum,) = CHECKSUM.unpack_from(octets, stored)
            if made != checksum:
                yield ArchiveError(
                    f"{self.path} is damaged at octets {left:,} to {right - 1:,} (blocks {first:,} "
                    f"to {end - 1:,} of table {table}), in their keys before octet "
                    f"{section.checksums:,}, or in the checksum at octet {stored:,}. {_CURE}"
                )


def _read_header(file: BinaryIO) -> tuple[Header, int]:
    """Read the header and compare the length of the file, before anything is mapped."""
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
