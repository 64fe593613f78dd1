"""Table designs by name: those of the paper's Example 3.1, and any blocks and distance."""

from __future__ import annotations

import math
import re
from itertools import combinations
from typing import TYPE_CHECKING

from scrapy_simhash.simhash import FINGERPRINT_BITS
from scrapy_simhash.tables.permutation import BitBlock, Design, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

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
        _check_blocks(name, blocks, distance)
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


def _check_blocks(name: str | int, blocks: int, distance: int) -> None:
    if not distance < blocks <= FINGERPRINT_BITS:
        raise ValueError(
            f"table design {name!r}: needs 0 <= distance < blocks <= {FINGERPRINT_BITS}"
        )
    tables = math.comb(blocks, distance)
    if tables > MOST_TABLES:
        raise ValueError(f"table design {name!r} has {tables:,} tables; at most {MOST_TABLES}")


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
        bits = [bit for block in rest for bit in reversed(range(block.shift, block.shift + 16))]
        inner = [_runs(bits[start : start + 12]) for start in range(0, 48, 12)]
        for second in inner:
            others = [run for runs in inner if runs is not second for run in runs]
            tables.append(_table([first, *second], others))
    return tuple(tables)


def _table(leading: Sequence[BitBlock], others: Sequence[BitBlock]) -> Table:
    return Table((*leading, *others), sum(block.width for block in leading))


def _runs(bits: Sequence[int]) -> list[BitBlock]:
    """Group bit numbers, given in descending order, into blocks of consecutive ones."""
    runs: list[BitBlock] = []
    for bit in bits:
        if runs and runs[-1].shift == bit + 1:
            runs[-1] = BitBlock(bit, runs[-1].width + 1)
        else:
            runs.append(BitBlock(bit, 1))
    return runs
