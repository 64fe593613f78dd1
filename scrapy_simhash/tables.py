"""Permuted, sorted tables: designs of them, and probes for near fingerprints (paper, section 3.1).

Fingerprints that differ in at most k of 64 bits, cut into m > k blocks, agree in at least m - k
of the blocks. For each choice of m - k blocks, a *permutation* moves them to the front; in the
sorted table of permuted fingerprints, those that agree in these blocks stand side by side.
A 12-bit example with m = 3 blocks of 4 bits, k = 1, table "B C first"::

    fingerprint   A=0101 B=1100 C=0011        a neighbour with one bit changed in A
    permuted      1100 0011 0101              1100 0011 0111   <- the same leading 8 bits

Designs have names: those of Example 3.1, and any blocks and distance.

A row of a table has 9 octets: the table's number, then the permuted fingerprint. The number and
the leading `key_bytes` octets of the fingerprint are the row's *key*, the others its *rest*. A
*bucket* is all rows with one key. `stores` keeps the rows.
"""

from __future__ import annotations

import math
import re
import sys
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, combinations
from struct import iter_unpack, unpack
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from scrapy_simhash.pages.facts import FINGERPRINT_BITS, check_fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

FINGERPRINT_BYTES = FINGERPRINT_BITS // 8
# With up to 2**32 documents, a four-byte key would have about one fingerprint, and the keys would
# take more space than the fingerprints.
MOST_KEY_BYTES = 3
# One, or an array of shape (n,).
AnyFingerprints = TypeVar("AnyFingerprints", int, "NDArray[np.uint64]")
# numpy works on 256 kB at a time, which stay in the cache of a core.
_VALUES_PER_PASS = 32_768


class BitBlock(NamedTuple):
    """A run of `width` bits of the fingerprint; its lowest is bit `shift`."""

    shift: int
    width: int


@dataclass(frozen=True)
class Table:
    """One permutation: all blocks of the fingerprint, most significant first."""

    blocks: tuple[BitBlock, ...]
    prefix_bits: int  # width of the leading blocks, the paper's p

    @cached_property
    def _moves(self) -> tuple[tuple[int, int, int], ...]:
        """(source shift, mask, target shift) for each run of blocks that stay together."""
        moves: list[tuple[int, int, int]] = []
        target = FINGERPRINT_BITS
        for run in _join(self.blocks):
            target -= run.width
            moves.append((run.shift, 2**run.width - 1, target))
        return tuple(moves)

    def permute(self, fingerprints: AnyFingerprints) -> AnyFingerprints:
        """Move the leading blocks of a fingerprint to the front, or of all in an array."""
        return _move(fingerprints, self._moves)

    def restore(self, permuted: AnyFingerprints) -> AnyFingerprints:
        """Undo `permute`."""
        return _move(permuted, [(target, mask, source) for source, mask, target in self._moves])


def _move(values: AnyFingerprints, moves: Sequence[tuple[int, int, int]]) -> AnyFingerprints:
    if isinstance(values, int) or values.size <= _VALUES_PER_PASS:
        moved = values ^ values
        for source, mask, target in moves:
            moved |= (values >> source & mask) << target
        return moved
    whole = values.copy()
    for start in range(0, values.size, _VALUES_PER_PASS):
        part = whole[start : start + _VALUES_PER_PASS]
        part[:] = _move(part, moves)
    return whole


@dataclass(frozen=True)
class Design:
    """A set of tables, and how they are probed.

    Attributes:
        name: as in the settings, in a store's header and in logs (`parse_design`).
        tables: the permutations.
        reaches: the distances in bits that the tables are complete for, where a probe flips up to
            0, 1, ... bits of each table's prefix, in all combinations (multi-index hashing:
            Norouzi, Punjani, Fleet, CVPR 2012); flipping none is the paper's own probe.
    """

    name: str
    tables: tuple[Table, ...]
    reaches: tuple[int, ...]

    def rows(self, fingerprint: int) -> bytes:
        """Make the rows of a fingerprint side by side: the table's number, what it permutes to."""
        return b"".join(
            bytes((number,)) + table.permute(fingerprint).to_bytes(FINGERPRINT_BYTES)
            for number, table in enumerate(self.tables)
        )

    @property
    def reach_bits(self) -> int:
        """The largest distance for which probes miss nothing."""
        return self.reaches[-1]

    def flips_for(self, distance: int) -> int:
        """Return how many bits of each prefix a probe must flip to find all within a distance.

        Raises:
            ValueError: the design is not complete at this distance.
        """
        for flips, reach_bits in enumerate(self.reaches):
            if 0 <= distance <= reach_bits:
                return flips
        wider = (each for each in ("4", "4+2", "4+3") if parse_design(each).reach_bits >= distance)
        raise ValueError(
            f"distance {distance}: table design {self.name} is complete for 0 to {self.reach_bits} "
            f"bits; take a smaller one, or a wider design, such as "
            f"{next(wider, 'one that `scrapy simhash plan` names')}"
        )

    @property
    def prefix_bits(self) -> int:
        """Width of the narrowest prefix, which determines how many candidates a probe reads."""
        return min(table.prefix_bits for table in self.tables)

    @cached_property
    def key_bytes(self) -> int:
        """Number of leading whole bytes that make up a table's key in a store, 1 to 3."""
        return min(self.prefix_bits // 8, MOST_KEY_BYTES)

    def split(self, fingerprint: int) -> list[tuple[bytes, bytes]]:
        """Split the rows of a fingerprint into key and rest, one pair for each table."""
        rows, end = self.rows(check_fingerprint(fingerprint)), 1 + self.key_bytes
        return list(iter_unpack(f"{end}s{ROW_BYTES - end}s", rows))

    def list_keys(self, rows: bytes, bits: int) -> tuple[bytes, ...]:
        """List the keys that a probe reads to find all within some bits; `rows` are its own."""
        flips, end = self.flips_for(bits), 1 + self.key_bytes
        if not flips:
            return unpack(f"{end}s{ROW_BYTES - end}x" * len(self.tables), rows)
        import numpy as np  # noqa: PLC0415 - Scrapy's process needs names only

        keys = np.frombuffer(rows, np.uint8).reshape(-1, 1, ROW_BYTES)[..., :end]
        octets = (keys ^ _masks(self.key_bytes, flips)).tobytes()
        return unpack(f"{end}s" * (len(octets) // end), octets)

    def probe(
        self,
        read: Callable[[tuple[bytes, ...], int | None], tuple[bytes, list[bytes]]],
        fingerprint: int,
        limits: Limits,
    ) -> Probe:
        """Find every fingerprint within some bits, as far as the limits allow.

        `read` gets keys and `in_bucket`; it returns the rows of the keys, side by side, and those
        of the keys that have more.
        """
        # Cost: for each key one descent of the B-tree, and the candidates with that key, on average
        # documents / 256**key_bytes. Each table has one key, and one more for each combination of
        # bits that the design must flip for this distance.
        distance, most, in_bucket, or_nothing = limits
        rows = self.rows(fingerprint)
        found, crowded = read(self.list_keys(rows, distance), in_bucket)
        # Each table may find each fingerprint: of so many rows at least `most` are distinct.
        most_rows = most * len(self.tables)
        if len(found) > _FEW_ROWS * ROW_BYTES:
            found = _keep_near(found, rows, distance)
            if or_nothing and len(found) > most_rows * ROW_BYTES:
                return Probe([], complete=False)
        permuted = [own for _, own in iter_unpack(_ROW, rows)]
        near = sorted(
            (bits, number, row)
            for number, row in iter_unpack(_ROW, found)
            if (bits := (row ^ permuted[number]).bit_count()) <= distance
        )
        once = {(bits, self.tables[number].restore(row)) for bits, number, row in near[:most_rows]}
        return Probe(sorted(once)[:most], not crowded)


# Example 3.1 (k = 3), by the number of tables: blocks and distance; None for the nested ones.
PAPER = {"4": (4, 3), "10": (5, 3), "16": None, "20": (6, 3)}
_NAME = re.compile(
    r"(?:(?P<paper>4|10|16|20)|(?P<blocks>[0-9]{1,3}):(?P<distance>[0-9]{1,3}))"
    r"(?:\+(?P<flips>[0-9]))?"
)
# A store's keys hold the number of a table in one byte.
MOST_TABLES = 255
# The shortest key in a store is one byte.
FEWEST_PREFIX_BITS = 8
_DEFAULT_FLIPS = 1
# A probe that flips up to three bits of a 24-bit key looks up 2,325 keys in each table; with four
# bits, 13,000.
MOST_FLIPS = 3
# Found by a search of all ways to spread differing bits, by the bits that a probe flips.
_REACHES_OF_SIXTEEN = (3, 4, 7, 9)
# That of `auto` in a new store.
DEFAULT_DESIGN = "4"


@lru_cache(maxsize=64)
def parse_design(name: str | int) -> Design:
    """Read a table design.

    Args:
        name: 4, 10, 16 or 20 (the tables of Example 3.1, k = 3), or blocks and distance as "m:k"
            (one table for each choice of m - k of m blocks). "+r" after any of these lets a probe
            flip up to r bits of each prefix, 0 to 3; the default is 1.

    Returns:
        The design. Its name has no spaces and leaves out the default number of flips.

    Raises:
        ValueError: there is no such design; the message names it and what is accepted.
    """
    plain = "".join(str(name).split())
    matched = _NAME.fullmatch(plain)
    if not matched:
        raise ValueError(
            f"{name!r} is not a table design; take auto, 4, 10, 16, 20, or blocks and distance as "
            "'m:k' ('6:3'); '+2' after any but auto ('4+2') probes with up to 2 bits flipped, 0 "
            f"to {MOST_FLIPS}"
        )
    flips = int(matched["flips"] or _DEFAULT_FLIPS)
    if flips > MOST_FLIPS:
        raise ValueError(f"table design {name!r} flips {flips} bits; at most {MOST_FLIPS}")
    if base := matched["paper"]:
        cut = PAPER[base]
    else:
        cut = blocks, distance = int(matched["blocks"]), int(matched["distance"])
        if not distance < blocks <= FINGERPRINT_BITS:
            raise ValueError(
                f"table design {name!r}: needs 0 <= distance < blocks <= {FINGERPRINT_BITS}"
            )
        if (number := math.comb(blocks, distance)) > MOST_TABLES:
            raise ValueError(f"table design {name!r} has {number:,} tables; at most {MOST_TABLES}")
        base = f"{blocks}:{distance}"
    tables = _choose_blocks(*cut) if cut else _nest_sixteen()
    every = range(MOST_FLIPS + 1)
    reaches = tuple(_reach(*cut, each) for each in every) if cut else _REACHES_OF_SIXTEEN
    shown = base if flips == _DEFAULT_FLIPS else f"{base}+{flips}"
    design = Design(shown, tables, reaches[: flips + 1])
    if design.prefix_bits < FEWEST_PREFIX_BITS:
        raise ValueError(
            f"table design {name!r} leads with {design.prefix_bits} bits only; at least "
            f"{FEWEST_PREFIX_BITS} are needed: take fewer blocks"
        )
    return design


def block_widths(count: int, bits: int = FINGERPRINT_BITS) -> tuple[int, ...]:
    """Cut a number of bits into blocks as equal as possible, wider ones first.

    >>> block_widths(6)
    (11, 11, 11, 11, 10, 10)
    """
    width, wider = divmod(bits, count)
    return (width + 1,) * wider + (width,) * (count - wider)


def lay_blocks(widths: Sequence[int], top: int = FINGERPRINT_BITS) -> tuple[BitBlock, ...]:
    """Lay blocks of these widths side by side, from bit `top - 1` downwards.

    >>> lay_blocks((3, 2), 8)
    (BitBlock(shift=5, width=3), BitBlock(shift=3, width=2))
    """
    blocks = []
    for width in widths:
        top -= width
        blocks.append(BitBlock(top, width))
    return tuple(blocks)


def _choose_blocks(count: int, distance_bits: int) -> tuple[Table, ...]:
    """Make one table for each choice of leading blocks: all blocks but `distance_bits`."""
    cut = lay_blocks(block_widths(count))
    return tuple(
        _table(leading, [block for block in cut if block not in leading])
        for leading in combinations(cut, count - distance_bits)
    )


def _reach(blocks: int, distance_bits: int, flips: int) -> int:
    """Find the distance that is complete where a probe flips up to so many bits of a prefix."""
    # A pair is missed where each choice of leading blocks has more differing bits than are flipped.
    # Fewest do that where they are spread evenly over the blocks that have least of them, and each
    # of the others has as many as the fullest of these.
    leading = blocks - distance_bits
    return flips + distance_bits * math.ceil((flips + 1) / leading)


def _nest_sixteen() -> tuple[Table, ...]:
    """Make the 16 tables of Example 3.1: one of 4 blocks of 16 bits, then one of 4 of 12 bits."""
    # Three differing bits leave one of the four blocks of 16 alone; they also leave alone one of
    # the four blocks into which the other 48 bits are cut.
    tables = []
    outer = lay_blocks((16,) * 4)
    for first in outer:
        rest = [block for block in outer if block is not first]
        # The 48 remaining bits are cut in fingerprint order; a block of 12 may straddle the gap.
        bits = [BitBlock(block.shift + n, 1) for block in rest for n in reversed(range(16))]
        inner = [_join(bits[start : start + 12]) for start in range(0, 48, 12)]
        for second in inner:
            others = [run for runs in inner if runs is not second for run in runs]
            tables.append(_table([first, *second], others))
    return tuple(tables)


def _table(leading: Sequence[BitBlock], others: Sequence[BitBlock]) -> Table:
    return Table((*leading, *others), sum(block.width for block in leading))


def _join(blocks: Sequence[BitBlock]) -> list[BitBlock]:
    """Join the blocks, one after the other, that lie side by side."""
    runs: list[BitBlock] = []
    for block in blocks:
        if runs and runs[-1].shift == block.shift + block.width:
            runs[-1] = BitBlock(block.shift, runs[-1].width + block.width)
        else:
            runs.append(block)
    return runs


ROW_BYTES = 1 + FINGERPRINT_BYTES
# Plain simhash skips a bucket with more rows, so that crafted pages cost less than three times as
# much as others (2.6 times, measured; 8 times with four times as many rows). Ten times as many rows
# as an ordinary bucket of four tables has at 100 million documents.
MOST_IN_PLAIN_BUCKET = 16_384
# Where rare triples propose as well: what shares a prefix with so many is a template's.
MOST_IN_BUCKET = 1_024
# For `np.dtype`.
ROW = [("table", "u1"), ("permuted", ">u8")]
_ROW = ">BQ"
# A probe with numpy costs as much as one of so many rows without it.
_FEW_ROWS = 48


class Probe(NamedTuple):
    """The result of probing the tables."""

    near: list[tuple[int, int]]  # (distance, fingerprint) of each, nearest first
    complete: bool  # no bucket was skipped, and nothing that was found


class Limits(NamedTuple):
    """How far a probe goes.

    Attributes:
        bits: within which fingerprints are near; the design reaches these.
        most: of the near fingerprints; the nearest ones.
        in_bucket: buckets with more rows are skipped; None reads all, however long it takes.
        or_nothing: find nothing where there are more than `most`, if it is much more.
    """

    bits: int
    most: int = sys.maxsize
    in_bucket: int | None = None
    or_nothing: bool = False


def _keep_near(found: bytes, rows: bytes, distance: int) -> bytes:
    """Leave out the rows that are not near to a query's row of their table."""
    import numpy as np  # noqa: PLC0415 - Scrapy's process needs names only

    # Distances do not depend on the permutation.
    candidates = np.frombuffer(found, ROW)
    query = np.frombuffer(rows, ROW)["permuted"].take(candidates["table"])
    distances = np.bitwise_count(candidates["permuted"] ^ query)
    near: bytes = candidates[distances <= distance].tobytes()
    return near


@lru_cache(maxsize=16)
def _masks(key_bytes: int, most: int) -> NDArray[np.uint8]:
    """Make the masks that flip up to `most` of a key's bits; shape (masks, 1 + key_bytes)."""
    import numpy as np  # noqa: PLC0415 - Scrapy's process needs names only

    bits = range(8 * key_bytes)
    chosen = chain.from_iterable(combinations(bits, count) for count in range(most + 1))
    masks = [sum(1 << bit for bit in some) for some in chosen]
    # A key begins with the number of its table, which is never flipped.
    return np.ascontiguousarray(
        np.array(masks, ">u4").view(np.uint8).reshape(-1, 4)[:, -(key_bytes + 1) :]
    )
