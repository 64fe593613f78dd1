"""Compute exactly within which Hamming distance a set of tables finds every pair.

A pair is missed when every probed table has more differing bits in its prefix than the probe flips
there. If that takes at least k + 1 differing bits, the tables are complete for k. Bits that belong
to the same prefixes are interchangeable, so only these groups (*atoms*) and the number of
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


# One design needs a few dozen results, including those for probes that skip some tables.
@lru_cache(maxsize=4_096)
def covered_bits(prefixes: tuple[int, ...], radii: tuple[int, ...]) -> int:
    """Find the largest k such that any pair within k bits is found; -1 when no table is probed."""
    # A pair is found when it differs in at most `radii[t]` bits of some prefix t (a mask). A radius
    # of -1 stands for a table that is not probed. 64 is returned when one table finds everything.
    # A store's key is the prefix rounded down to whole bytes, and only bits of the key are flipped.
    # So fewer bits have to agree up to the radius, and a distance that is complete for the prefix
    # is complete for the key.
    # Cost, once for each pair of arguments: below 1 ms for four tables, some ms for up to 70 with
    # mixed radii of 0 and 1, 0.2 s for 253; ten times that with radii of 2, a hundred with 3.
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
    return next(bits for bits in itertools.count() if _can_miss(tables, widths, bits)) - 1


def _cut_into_atoms(prefixes: Iterable[int]) -> list[int]:
    """List the largest masks that lie wholly inside or outside each prefix."""
    atoms, somewhere = [2**FINGERPRINT_BITS - 1], 0
    for prefix in prefixes:
        atoms = [part for atom in atoms for part in (atom & prefix, atom & ~prefix) if part]
        somewhere |= prefix
    return [atom for atom in atoms if atom & somewhere]


def _spread(widths: tuple[int, ...], leading: int, need: int) -> int:
    """Count the fewest differing bits with which any `leading` of these blocks hold `need`."""
    # An even spread, as far as the widths allow, needs the fewest bits: then even the blocks with
    # the fewest hold many.
    bits = [0] * len(widths)
    while sum(sorted(bits)[:leading]) < need:
        _, block = min((bits[i], i) for i, width in enumerate(widths) if bits[i] < width)
        bits[block] += 1
    return sum(bits)


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
