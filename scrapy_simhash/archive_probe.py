"""Probes of an archive: interpolation search for the blocks, decoding, comparison."""

from __future__ import annotations

from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from scrapy_simhash.interpolation import find_first
from scrapy_simhash.permutation import check_fingerprint
from scrapy_simhash.simhash import FINGERPRINT_BITS
from scrapy_simhash.stored import Probe

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from scrapy_simhash.archive_file import ArchiveFile
    from scrapy_simhash.blocks import BlockDecoder
    from scrapy_simhash.permutation import Design


class ArchiveProber:
    """Probes the tables of an archive.

    Args:
        file: of the archive.
        decoder: of its blocks.
        design: of its tables.
        chunk_blocks: so many blocks are decoded at once.
    """

    def __init__(
        self, file: ArchiveFile, decoder: BlockDecoder, design: Design, chunk_blocks: int
    ) -> None:
        self._file = file
        self._decoder = decoder
        self._design = design
        self._chunk_blocks = chunk_blocks
        blocks = max((table.blocks for table in file.header.tables), default=0)
        self._rows_per_block = max(1.0, file.header.count / max(1, blocks))

    def probe(self, fingerprint: int, distance: int, most_rows: int | None = None) -> Probe:
        """Find every fingerprint within a distance.

        Args:
            fingerprint: the query.
            distance: bits; at most the design's `reach_bits`.
            most_rows: pass over prefixes that more rows share, by the number of their blocks, and
                probe other tables with one more bit flipped instead; None to read them all.

        Returns:
            What is near; equal fingerprints once. Cost: two interpolation searches a table and as
            many decoding steps as a block has fingerprints; beyond the design's `distance_bits`,
            searches for each prefix with bits flipped, too.

        Raises:
            ArchiveError: damaged where it was read.
            ValueError: no fingerprint, or beyond the reach of the design.
        """
        query = check_fingerprint(fingerprint)
        if not 0 <= distance <= self._design.reach_bits:
            raise ValueError(
                f"{self._file.path} has table design {self._design.name}, which is complete up to "
                f"{self._design.reach_bits} bits, not {distance}; export it with another design"
            )
        most_blocks = None if most_rows is None else 2 + int(most_rows / self._rows_per_block)
        flips = self._design.flips_for(distance)
        everywhere = (flips,) * len(self._design.tables)
        blocks, radii = self._find_blocks(query, (-1,) * len(everywhere), everywhere, most_blocks)
        wider = radii
        if radii != everywhere:
            wider = self._design.widen(radii, flips, distance)
        if wider != radii:
            more, radii = self._find_blocks(query, radii, wider, most_blocks)
            blocks = [np.union1d(*both) for both in zip(blocks, more, strict=True)]
        complete_bits = distance
        if radii != everywhere:
            complete_bits = min(distance, self._design.covered_bits(radii))
        return Probe(self._compare(query, blocks, distance), complete_bits)

    def holds(self, fingerprint: int) -> bool:
        """Say whether exactly this fingerprint is there.

        Raises:
            ArchiveError: damaged where it was read.
            ValueError: no fingerprint.
        """
        query = check_fingerprint(fingerprint)
        blocks = self._find_range(0, self._design.tables[0].permute(query), FINGERPRINT_BITS)
        return bool(self._compare(query, [blocks], 0))

    def _find_blocks(
        self,
        query: int,
        probed: tuple[int, ...],
        flips: tuple[int, ...],
        most_blocks: int | None,
    ) -> tuple[list[NDArray[np.intp]], tuple[int, ...]]:
        """Find the blocks that hold the query's prefixes with bits flipped.

        Args:
            query: a fingerprint.
            probed: of each table, up to how many flipped bits it was probed; -1 for none.
            flips: of each table, up to how many it is to be probed.
            most_blocks: pass over a prefix with more of them.

        Returns:
            Of each table, the blocks, and up to how many flipped bits nothing was passed over.
        """
        found, radii = [], []
        for number, table in enumerate(self._design.tables):
            wanted, radius = [np.zeros(0, np.intp)], flips[number]
            permuted = table.permute(query)
            for flipped in range(probed[number] + 1, flips[number] + 1):
                for mask in _masks(table.prefix_bits, flipped):
                    blocks = self._find_range(number, permuted ^ mask, table.prefix_bits)
                    if most_blocks is not None and len(blocks) > most_blocks:
                        radius = min(radius, flipped - 1)
                    else:
                        wanted.append(blocks)
            found.append(np.unique(np.concatenate(wanted)))
            radii.append(radius)
        return found, tuple(radii)

    def _find_range(self, number: int, permuted: int, prefix_bits: int) -> NDArray[np.intp]:
        """Find the blocks with the leading bits of a permuted fingerprint, and check them."""
        header = self._file.header.tables[number]
        read_key, key_bits = partial(self._file.key, number), 8 * header.key_bytes
        rest = (1 << (FINGERPRINT_BITS - prefix_bits)) - 1
        cut = FINGERPRINT_BITS - key_bits
        first = find_first(read_key, header.blocks, (permuted & ~rest) >> cut, key_bits)
        # The first block with a larger key may begin within the prefix.
        end = find_first(read_key, header.blocks, ((permuted | rest) >> cut) + 1, key_bits) + 1
        end = min(end, header.blocks)
        # The keys read on the way were not checked, but those at both ends prove the place.
        self._file.check(number, max(0, first - 1), end)
        return np.arange(first, end)

    def _compare(
        self, query: int, blocks: list[NDArray[np.intp]], distance: int
    ) -> list[tuple[int, int]]:
        """Decode checked blocks of each table and keep what is near, nearest first."""
        tables = np.repeat(np.arange(len(blocks)), [len(some) for some in blocks])
        places = np.concatenate(blocks)
        found: set[tuple[int, int]] = set()
        for start in range(0, len(places), self._chunk_blocks):
            chunk = slice(start, start + self._chunk_blocks)
            found.update(self._compare_chunk(query, tables[chunk], places[chunk], distance))
        return sorted(found)

    def _compare_chunk(
        self, query: int, tables: NDArray[np.intp], blocks: NDArray[np.intp], distance: int
    ) -> Iterable[tuple[int, int]]:
        count = len(self._design.tables)
        parts = [self._file.blocks(number)[blocks[tables == number]] for number in range(count)]
        permuted, counts = self._decoder.decode(np.concatenate(parts), tables)
        queries = np.array([table.permute(query) for table in self._design.tables], np.uint64)
        owners = np.repeat(tables, counts)
        distances = np.bitwise_count(permuted ^ queries[owners])
        (near,) = (distances <= distance).nonzero()
        return {
            (bits, self._design.tables[number].restore(value))
            for bits, number, value in zip(
                distances[near].tolist(),
                owners[near].tolist(),
                permuted[near].tolist(),
                strict=True,
            )
        }


def _masks(prefix_bits: int, flips: int) -> list[int]:
    """Make the masks that flip so many of the leading bits of a fingerprint."""
    cut = FINGERPRINT_BITS - prefix_bits
    return [sum(1 << cut + bit for bit in bits) for bits in combinations(range(prefix_bits), flips)]
