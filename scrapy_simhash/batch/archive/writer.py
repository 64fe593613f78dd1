"""Write archives: sort, compress and checksum the tables of a design, one after the other."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from scrapy_simhash._files import open_whole
from scrapy_simhash.batch.archive.compression import (
    BLOCK_BYTES,
    check_block_bytes,
    count_symbols,
    encode_blocks,
)
from scrapy_simhash.batch.archive.format import (
    CHECKSUM,
    ArchiveHeader,
    TableHeader,
    choose_key_bytes,
    cut_keys,
    group_blocks,
    lay_out,
    pack_header,
    reserve_header,
    sum_group,
)
from scrapy_simhash.batch.archive.huffman import make_code
from scrapy_simhash.tables.designs import parse_design
from scrapy_simhash.tables.permutation import Table, check_fingerprint

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from scrapy_simhash.pages.recipe import Recipe

# One table of the unpermuted fingerprints: finds equal ones, and those one bit away.
SORTED_ONLY = "1:0"


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
        ValueError: not an array of 64-bit numbers, or an invalid design, seed or block size.
        FileExistsError: the file exists and `overwrite` is false.
        OSError: the file cannot be written.

    Cost: for each table, sorting and compressing all fingerprints (`write_mb_s` of
    benchmarks/bench_archive.py). Memory: two copies of the fingerprints, and some of the blocks.
    """
    fingerprints = np.asarray(fingerprints)
    if fingerprints.ndim != 1 or fingerprints.dtype != np.uint64:
        raise ValueError(
            "an archive takes a one-dimensional array of numpy.uint64, got "
            f"{fingerprints.dtype} of shape {fingerprints.shape}"
        )
    header = ArchiveHeader(
        file_bytes=0,
        count=len(fingerprints),
        design=parse_design(design).name,
        seed=check_fingerprint(seed),
        recipe=None if recipe is None else asdict(recipe),
        block_bytes=check_block_bytes(block_bytes),
        tables=[],
    )
    with open_whole(Path(path), overwrite=overwrite) as file:
        _write(file, header, fingerprints)
    return header.file_bytes


def _write(file: IO[bytes], header: ArchiveHeader, fingerprints: NDArray[np.uint64]) -> None:
    header_bytes = reserve_header(header)
    file.write(bytes(header_bytes))
    for number, table in enumerate(parse_design(header.design).tables):
        permuted = table.permute_array(fingerprints)
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
