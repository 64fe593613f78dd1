"""Table designs by name: those of the paper's Example 3.1, any blocks and distance, any widths."""

from __future__ import annotations

import math
import re
from itertools import combinations
from typing import TYPE_CHECKING

from scrapy_simhash.permutation import Block, Design, Table
from scrapy_simhash.simhash import FINGERPRINT_BITS

if TYPE_CHECKING:
    from collections.abc import Sequence

# Example 3.1 (k = 3), by the number of tables: blocks and distance; None for the nested ones.
PAPER = {"4": (4, 3), "10": (5, 3), "16": None, "20": (6, 3)}
_NAME = re.compile(
    r"(?:(?P<paper>4|10|16|20)|(?P<blocks>[0-9]{1,3}(?:,[0-9]{1,3})*):(?P<distance>[0-9]{1,3}))"
    r"(?:\+(?P<flips>[0-9]))?"
)
# A table's number is one byte of its keys in a store.
MOST_TABLES = 255
# Of the shortest key in a store.
FEWEST_PREFIX_BITS = 8
_DEFAULT_FLIPS = 1
# Keys of 24 bits have 2,325 neighbours within three bits: four would look up 13,000 in each table.
MOST_FLIPS = 3


def parse_design(name: str | int) -> Design:
    """Read a table design.

    Args:
        name: 4, 10, 16 or 20 (the tables of Example 3.1, k = 3); blocks and distance as "m:k"
            (one table for each choice of m - k of m blocks); or the widths of the blocks and the
            distance, "11,11,10,11,11,10:3". "+r" after any of these lets a probe flip up to r
            bits of each prefix, 0 to 3; 1 unless given.

    Returns:
        The design, its name without spaces and without what is the default.

    Raises:
        ValueError: no such design; names it and says what is accepted.
    """
    matched = _NAME.fullmatch("".join(str(name).split()))
    if not matched:
        raise ValueError(
            f"{name!r} is no table design; take auto, 4, 10, 16, 20, blocks and distance as 'm:k' "
            "('6:3'), or block widths and distance ('11,11,10,11,11,10:3'); '+2' after any but "
            f"auto probes with up to 2 bits flipped, 0 to {MOST_FLIPS}"
        )
    flips = int(matched["flips"] or _DEFAULT_FLIPS)
    if flips > MOST_FLIPS:
        raise ValueError(f"table design {name!r} flips {flips} bits; at most {MOST_FLIPS}")
    if base := matched["paper"]:
        cut = PAPER[base]
        tables = choose_blocks(block_widths(cut[0]), cut[1]) if cut else _nest_sixteen()
    else:
        widths, distance = _read_blocks(name, matched["blocks"], int(matched["distance"]))
        explicit = "," in matched["blocks"]
        base = f"{','.join(map(str, widths)) if explicit else len(widths)}:{distance}"
        tables = choose_blocks(widths, distance)
    design = Design(base if flips == _DEFAULT_FLIPS else f"{base}+{flips}", tables, flips)
    if design.prefix_bits < FEWEST_PREFIX_BITS:
        raise ValueError(
            f"table design {name!r} leads with {design.prefix_bits} bits only; at least "
            f"{FEWEST_PREFIX_BITS} are needed: take fewer or wider blocks"
        )
    return design


def _read_blocks(name: str | int, blocks: str, distance: int) -> tuple[tuple[int, ...], int]:
    """Read the widths of the blocks, or their number, and check them."""
    widths = tuple(map(int, blocks.split(",")))
    explicit = len(widths) > 1
    if explicit and (sum(widths) != FINGERPRINT_BITS or 0 in widths):
        raise ValueError(
            f"table design {name!r}: its blocks have {sum(widths)} bits; "
            f"widths are 1 or more and sum to {FINGERPRINT_BITS}"
        )
    count = len(widths) if explicit else widths[0]
    if not distance < count <= FINGERPRINT_BITS:
        raise ValueError(
            f"table design {name!r}: needs 0 <= distance < blocks <= {FINGERPRINT_BITS}"
        )
    tables = math.comb(count, distance)
    if tables > MOST_TABLES:
        raise ValueError(f"table design {name!r} has {tables:,} tables; at most {MOST_TABLES}")
    return (widths if explicit else block_widths(count)), distance


def block_widths(count: int, bits: int = FINGERPRINT_BITS) -> tuple[int, ...]:
    """Cut so many bits into blocks as equal as possible, wider ones first.

    >>> block_widths(6)
    (11, 11, 11, 11, 10, 10)
    """
    width, wider = divmod(bits, count)
    return (width + 1,) * wider + (width,) * (count - wider)


def lay_blocks(widths: Sequence[int], top: int = FINGERPRINT_BITS) -> tuple[Block, ...]:
    """Lay blocks side by side, from the leading bits downwards.

    >>> lay_blocks((3, 2), 8)
    (Block(shift=5, width=3), Block(shift=3, width=2))

    Args:
        widths: bits of each.
        top: the first block ends below this bit.
    """
    blocks = []
    for width in widths:
        top -= width
        blocks.append(Block(top, width))
    return tuple(blocks)


def choose_blocks(widths: Sequence[int], distance_bits: int) -> tuple[Table, ...]:
    """Make one table for each choice of all blocks but `distance_bits` to lead it."""
    cut = lay_blocks(widths)
    return tuple(
        _table(leading, [block for block in cut if block not in leading])
        for leading in combinations(cut, len(cut) - distance_bits)
    )


def _nest_sixteen() -> tuple[Table, ...]:
    """Make the 16 tables of Example 3.1: one of 4 blocks of 16 bits, then one of 4 of 12 bits.

    Three differing bits leave one of the four blocks of 16 alone; they also leave alone one of
    the four blocks into which the other 48 bits are cut.
    """
    tables = []
    outer = lay_blocks((16,) * 4)
    for first in outer:
        rest = [block for block in outer if block is not first]
        # The 48 remaining bits are cut in fingerprint order; a block of 12 may straddle the gap.
        bits = [bit for block in rest for bit in _descending(block)]
        inner = [_runs(bits[start : start + 12]) for start in range(0, 48, 12)]
        for second in inner:
            others = [run for runs in inner if runs is not second for run in runs]
            tables.append(_table([first, *second], others))
    return tuple(tables)


def _table(leading: Sequence[Block], others: Sequence[Block]) -> Table:
    return Table((*leading, *others), sum(block.width for block in leading))


def _descending(block: Block) -> range:
    return range(block.shift + block.width - 1, block.shift - 1, -1)


def _runs(bits: Sequence[int]) -> list[Block]:
    """Group bit numbers, given in descending order, into blocks of neighbours."""
    runs: list[Block] = []
    for bit in bits:
        if runs and runs[-1].shift == bit + 1:
            runs[-1] = Block(bit, runs[-1].width + 1)
        else:
            runs.append(Block(bit, 1))
    return runs
