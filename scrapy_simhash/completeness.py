"""How many differing bits a set of tables is sure to find, exactly.

A pair is missed when every probed table has more differing bits in its prefix than are flipped
there. The fewest bits that bring this about, less one, are the k that the tables are complete for.
Bits that belong to the same prefixes are alike, so only these groups (*atoms*) and the number of
differing bits in each of them matter: a small integer covering problem.
"""

from __future__ import annotations

import itertools
import math
from functools import lru_cache
from typing import TYPE_CHECKING

from scrapy_simhash.simhash import FINGERPRINT_BITS

if TYPE_CHECKING:
    from collections.abc import Iterable

# Answers for one design are a few dozen, even with tables skipped here and there.
_KEPT_ANSWERS = 4_096


@lru_cache(maxsize=_KEPT_ANSWERS)
def covered_bits(prefixes: tuple[int, ...], radii: tuple[int, ...]) -> int:
    """Find the largest k within which no pair is missed.

    A store's key is the prefix rounded down to whole bytes, and only bits of the key are flipped.
    That shrinks the set of bits which must agree up to the radius, so what is claimed for the
    prefix holds for the key.

    Args:
        prefixes: the bits of the fingerprint in each table's prefix, as a mask.
        radii: as many; differing bits of the prefix that a probe of the table allows for, 0 when
            none is flipped; -1 for a table that is not probed.

    Returns:
        The largest k such that any pair which differs in at most k bits differs in at most
        `radii[t]` bits of some prefix t; -1 when no table is probed, 64 when one finds everything.
        Cost, once for each pair of arguments: below 1 ms for four tables, some ms for up to 70 with
        radii of 0 and 1 that differ, 0.2 s for 253; ten times that with radii of 2, and again of 3.

    Raises:
        ValueError: not as many radii as prefixes.
    """
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
    leading = {table.bit_count() for table, _ in tables}
    if len({need for _, need in tables}) == len(leading) == 1:
        (count,) = leading
        if len(tables) == math.comb(len(atoms), count):
            return _spread(widths, count, tables[0][1]) - 1
    return _search(tables, widths) - 1


def _cut_into_atoms(prefixes: Iterable[int]) -> list[int]:
    """List the largest masks that lie wholly inside or outside of each prefix."""
    atoms, somewhere = [2**FINGERPRINT_BITS - 1], 0
    for prefix in prefixes:
        atoms = [part for atom in atoms for part in (atom & prefix, atom & ~prefix) if part]
        somewhere |= prefix
    return [atom for atom in atoms if atom & somewhere]


def _spread(widths: tuple[int, ...], leading: int, need: int) -> int:
    """Count the fewest bits that put `need` into any so many of these blocks.

    Spread evenly, as far as they have room, they do so soonest: then even the blocks with fewest
    have many.
    """
    bits = [0] * len(widths)
    while sum(sorted(bits)[:leading]) < need:
        _, block = min((bits[i], i) for i, width in enumerate(widths) if bits[i] < width)
        bits[block] += 1
    return sum(bits)


def _search(tables: list[tuple[int, int]], widths: tuple[int, ...]) -> int:
    """Count the fewest bits that put as many into each table's atoms as it needs."""
    return next(bits for bits in itertools.count() if _can_miss(tables, widths, bits))


def _can_miss(tables: list[tuple[int, int]], rooms: tuple[int, ...], bits: int) -> bool:
    """Say whether so many bits, well placed, are enough (branch and bound).

    Args:
        tables: of each that still needs bits: the atoms which may take more, as a mask; how many.
        rooms: bits that each atom can still take.
        bits: that are left to place.
    """
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
    # A bit serves as many tables as its atom belongs to.
    served = [sum(atoms >> i & 1 for atoms, _ in tables) for i in range(len(rooms))]
    if bits * max(served) < sum(need for _, need in tables):
        return False
    closed = 0
    for i in sorted(_members(ordered[0][0]), key=served.__getitem__, reverse=True):
        left = (*rooms[:i], rooms[i] - 1, *rooms[i + 1 :])
        full = closed if left[i] else closed | 1 << i
        open_tables = [
            (atoms & ~full, need - (atoms >> i & 1))
            for atoms, need in tables
            if need > atoms >> i & 1
        ]
        if _can_miss(open_tables, left, bits - 1):
            return True
        # What follows places no bit here, or it would try the same choices in another order.
        closed |= 1 << i
    return False


def _members(mask: int) -> list[int]:
    return [i for i in range(mask.bit_length()) if mask >> i & 1]
