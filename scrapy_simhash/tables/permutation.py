"""Table designs: which bits lead each permuted, sorted table (paper, section 3.1).

Fingerprints that differ in at most k of 64 bits, cut into m > k blocks, agree in at least m - k
of the blocks. For each choice of m - k blocks, a *permutation* moves them to the front; in the
sorted table of permuted fingerprints, those that agree in these blocks stand side by side.
A 12-bit example with m = 3 blocks of 4 bits, k = 1, table "B C first"::

    fingerprint   A=0101 B=1100 C=0011        a neighbour with one bit changed in A
    permuted      1100 0011 0101              1100 0011 0111   <- the same leading 8 bits

A pair is missed when every probed table has more differing bits in its prefix than the probe flips
there. If that takes at least k + 1 differing bits, the tables are complete for k. Bits that belong
to the same prefixes are interchangeable, so only these groups (*atoms*) and the number of
differing bits in each of them matter: a small integer covering problem.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, TypeVar

from scrapy_simhash._fingerprints import FINGERPRINT_BITS

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    from numpy.typing import NDArray

_ALL_BITS = 2**FINGERPRINT_BITS - 1
FINGERPRINT_BYTES = FINGERPRINT_BITS // 8
# With up to 2**32 documents, a four-byte key would have about one fingerprint, and the keys would
# take more space than the fingerprints.
MOST_KEY_BYTES = 3
# One, or an array of shape (n,).
AnyFingerprints = TypeVar("AnyFingerprints", int, "NDArray[np.uint64]")
# numpy works on 256 kB at a time, which stay in the cache of a core.
_VALUES_PER_PASS = 32_768


@dataclass(frozen=True, slots=True)
class BitBlock:
    """A run of `width` bits of the fingerprint; its lowest is bit `shift`."""

    shift: int
    width: int


@dataclass(frozen=True)
class Table:
    """One permutation: all blocks of the fingerprint, most significant first."""

    blocks: tuple[BitBlock, ...]
    prefix_bits: int  # width of the leading blocks, the paper's p

    @cached_property
    def prefix(self) -> int:
        """Mask of the fingerprint's bits that lead the permuted one."""
        prefix: int = self.restore(_ALL_BITS >> self.prefix_bits ^ _ALL_BITS)
        return prefix

    @cached_property
    def _moves(self) -> tuple[tuple[int, int, int], ...]:
        """(source shift, mask, target shift) for each run of blocks that stay together."""
        runs: list[BitBlock] = []
        for block in self.blocks:
            if runs and runs[-1].shift == block.shift + block.width:
                runs[-1] = BitBlock(block.shift, runs[-1].width + block.width)
            else:
                runs.append(block)
        moves: list[tuple[int, int, int]] = []
        target = FINGERPRINT_BITS
        for run in runs:
            target -= run.width
            moves.append((run.shift, 2**run.width - 1, target))
        return tuple(moves)

    @cached_property
    def _moves_back(self) -> tuple[tuple[int, int, int], ...]:
        return tuple((target, mask, source) for source, mask, target in self._moves)

    def permute(self, fingerprints: AnyFingerprints) -> AnyFingerprints:
        """Move the leading blocks of a fingerprint to the front, or of all in an array."""
        return _move(fingerprints, self._moves)

    def restore(self, permuted: AnyFingerprints) -> AnyFingerprints:
        """Undo `permute`."""
        return _move(permuted, self._moves_back)


def _move(values: AnyFingerprints, moves: tuple[tuple[int, int, int], ...]) -> AnyFingerprints:
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
        name: as in the settings, in a store's header and in logs (`designs.parse_design`).
        tables: the permutations.
        most_flips: the most bits of a table's prefix that a probe may flip, in all combinations
            (multi-index hashing: Norouzi, Punjani, Fleet, CVPR 2012); 0 is the paper's own probe.
    """

    name: str
    tables: tuple[Table, ...]
    most_flips: int

    def rows(self, fingerprint: int) -> bytes:
        """Make the rows of a fingerprint side by side: the table's number, what it permutes to."""
        return b"".join(
            bytes((number,)) + table.permute(fingerprint).to_bytes(FINGERPRINT_BYTES)
            for number, table in enumerate(self.tables)
        )

    def covered_bits(self, radii: tuple[int, ...]) -> int:
        """Find the largest k within which no pair is missed; see `covered_bits`.

        `radii` gives, for each table, the most bits that a probe flips; -1 for a table that is
        skipped. Returns bits, -1 if all tables are skipped.
        """
        return covered_bits(self._prefixes, radii)

    def widen(self, radii: tuple[int, ...], flips: int, distance: int) -> tuple[int, ...]:
        """Flip one more bit in as few tables as possible, to make up for skipped buckets.

        `radii` gives, for each table, the most flipped bits with which no bucket was skipped,
        mostly `flips`. Returns the radii to probe instead, which may still not cover the distance.
        Cost: one call of `covered_bits` for each table.
        """
        wider = list(radii)
        for number, radius in enumerate(radii):
            if self.covered_bits(tuple(wider)) >= distance:
                break
            if radius == flips:
                wider[number] += 1
        return tuple(wider)

    @cached_property
    def _prefixes(self) -> tuple[int, ...]:
        return tuple(table.prefix for table in self.tables)

    @cached_property
    def _reaches(self) -> tuple[int, ...]:
        """The k that the tables are complete for, for each number of flipped bits."""
        count = len(self.tables)
        return tuple(self.covered_bits((flips,) * count) for flips in range(self.most_flips + 1))

    @property
    def reach_bits(self) -> int:
        """The largest k for which probes with up to `most_flips` flipped bits miss nothing."""
        return self._reaches[-1]

    def flips_for(self, distance: int) -> int:
        """Return how many bits of each prefix a probe must flip to find all within a distance.

        Raises:
            ValueError: the design is not complete at this distance.
        """
        for flips, reach_bits in enumerate(self._reaches):
            if 0 <= distance <= reach_bits:
                return flips
        raise ValueError(
            f"distance {distance}: table design {self.name} is complete for 0 to "
            f"{self.reach_bits} bits"
        )

    @property
    def prefix_bits(self) -> int:
        """Width of the narrowest prefix, which determines how many candidates a probe reads."""
        return min(table.prefix_bits for table in self.tables)

    @cached_property
    def key_bytes(self) -> int:
        """Number of leading whole bytes that make up a table's key in a store, 1 to 3."""
        return min(self.prefix_bits // 8, MOST_KEY_BYTES)


# One design needs a few dozen results, including those for probes that skip some tables.
@lru_cache(maxsize=4_096)
def covered_bits(prefixes: tuple[int, ...], radii: tuple[int, ...]) -> int:
    """Find the largest k such that any pair within k bits is found; -1 when no table is probed."""
    # A pair is found when it differs in at most `radii[t]` bits of some prefix t (a mask). A radius
    # of -1 stands for a table that is not probed. 64 is returned when one table finds everything.
    # A store's key is the prefix rounded down to whole bytes, and only bits of the key are flipped.
    # So fewer bits have to agree up to the radius, and a distance that is complete for the prefix
    # is complete for the key.
    # Cost, once for each pair of arguments: below 1 ms for four tables, 20 ms for up to 120, 0.2 s
    # for 253 with radii of 2, ten times that with 3, or with mixed radii of 0 and 1.
    needs = {
        (prefix, radius + 1) for prefix, radius in zip(prefixes, radii, strict=True) if radius >= 0
    }
    if any(need > prefix.bit_count() for prefix, need in needs):
        return FINGERPRINT_BITS
    atoms = _cut_into_atoms(prefix for prefix, _ in needs)
    tables = [
        (sum(1 << i for i, atom in enumerate(atoms) if atom & prefix), need)
        for prefix, need in sorted(needs)
    ]
    widths = tuple(atom.bit_count() for atom in atoms)
    return next(bits for bits in itertools.count() if _can_miss(tables, widths, bits)) - 1


def _cut_into_atoms(prefixes: Iterable[int]) -> list[int]:
    """List the largest masks that lie wholly inside or outside each prefix."""
    atoms, somewhere = [2**FINGERPRINT_BITS - 1], 0
    for prefix in prefixes:
        atoms = [part for atom in atoms for part in (atom & prefix, atom & ~prefix) if part]
        somewhere |= prefix
    return [atom for atom in atoms if atom & somewhere]


def _can_miss(tables: list[tuple[int, int]], rooms: tuple[int, ...], bits: int) -> bool:
    """Return True if this number of bits can meet the need of each table; branch and bound."""
    # `tables` are those that still need bits: (mask of the atoms that may take more, bits needed).
    # `rooms`: how many bits each atom can still take.
    if not tables:
        return True
    ordered = sorted(tables, key=lambda table: table[0].bit_count())
    # Tables that share no atom need bits of their own.
    taken = fewest = 0
    for atoms, need in ordered:
        if not atoms & taken:
            taken |= atoms
            fewest += need
    if fewest > bits:
        return False
    # A bit counts for each table that its atom belongs to.
    served = [sum(atoms >> i & 1 for atoms, _ in tables) for i in range(len(rooms))]
    if bits * max(served) < sum(need for _, need in tables):
        return False
    closed = 0
    members = [i for i in range(len(rooms)) if ordered[0][0] >> i & 1]
    for i in sorted(members, key=served.__getitem__, reverse=True):
        left = (*rooms[:i], rooms[i] - 1, *rooms[i + 1 :])
        full = closed if left[i] else closed | 1 << i
        open_tables = [
            (atoms & ~full, need - (atoms >> i & 1))
            for atoms, need in tables
            if need > atoms >> i & 1
        ]
        if _can_miss(open_tables, left, bits - 1):
            return True
        # The next choices place no bit here; otherwise they would repeat these in another order.
        closed |= 1 << i
    return False
