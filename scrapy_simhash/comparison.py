"""How two pages differ: in which bits of their fingerprints, and in which words of their texts."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

from scrapy_simhash.simhash import FINGERPRINT_BITS

if TYPE_CHECKING:
    from collections import Counter

    from scrapy_simhash.permutation import Design

_MOST_SHOWN = {"only_in_first": 10, "only_in_second": 10, "text_difference": 60}
_DIFF_WIDTH = 76


def compare_fingerprints(first: int, second: int, design: Design) -> dict[str, Any]:
    """Say in which bits two fingerprints differ, and which tables find the pair.

    Args:
        first: a fingerprint.
        second: another.
        design: of the tables.

    Returns:
        `compared`, both in hexadecimal; `distance` in bits; `differing_bits`, 0 the lowest;
        `blocks` of the design, the leading one first, each with its `bits` and those `differing`;
        `design`, its name; `found_by_tables`: numbers of the tables in which a probe for the one
        meets the other.
    """
    differing = [bit for bit in range(FINGERPRINT_BITS) if (first ^ second) >> bit & 1]
    flipped_bits = design.flips_for(min(len(differing), design.reach_bits))
    found_by = [
        number
        for number, table in enumerate(design.tables)
        if ((table.permute(first) ^ table.permute(second)) >> (64 - table.prefix_bits)).bit_count()
        <= flipped_bits
    ]
    return {
        "compared": [f"{first:016x}", f"{second:016x}"],
        "distance": len(differing),
        "differing_bits": differing,
        "blocks": [
            {
                "bits": f"{end - 1} to {start}",
                "differing": [bit for bit in reversed(differing) if start <= bit < end],
            }
            for start, end in reversed(_list_blocks(design))
        ],
        "design": design.name,
        "found_by_tables": found_by,
    }


def _list_blocks(design: Design) -> list[tuple[int, int]]:
    """List where the blocks of a design begin and end; tables may cut them differently."""
    borders = {block.shift for table in design.tables for block in table.blocks}
    starts = sorted(borders)
    return list(zip(starts, [*starts[1:], FINGERPRINT_BITS], strict=True))


def compare_texts(features: str, first: str, second: str) -> dict[str, Any]:
    """Say in which features two texts differ, and show their difference.

    Args:
        features: name or import path of the feature set.
        first: main text of a page.
        second: that of another.

    Returns:
        `jaccard` of the distinct features, 0 to 1; `shared_features`, how many; `only_in_first`
        and `only_in_second`, the most frequent ones; `text_difference`: lines of a unified diff;
        `left_out`: how many there are more of each of these three.
    """
    from scrapy_simhash.fingerprint import load_features  # noqa: PLC0415 - loads trafilatura

    counts = [load_features(features).count(text) for text in (first, second)]
    shared = counts[0].keys() & counts[1].keys()
    total = len(counts[0].keys() | counts[1].keys())
    diff = difflib.unified_diff(_wrap(first), _wrap(second), "first", "second", lineterm="", n=1)
    lists = {
        "only_in_first": _sort(counts[0] - counts[1]),
        "only_in_second": _sort(counts[1] - counts[0]),
        "text_difference": list(diff),
    }
    shown = {name: each[: _MOST_SHOWN[name]] for name, each in lists.items()}
    return {
        "jaccard": round(len(shared) / max(1, total), 4),
        "shared_features": len(shared),
        **shown,
        "left_out": {name: len(each) - len(shown[name]) for name, each in lists.items()},
    }


def _sort(counts: Counter[str]) -> list[str]:
    return [shingle for shingle, _ in counts.most_common()]


def _wrap(text: str) -> list[str]:
    """Break a text into lines that begin anew at each of its own, so that an insertion is local."""
    import textwrap  # noqa: PLC0415 - only explain needs it

    return [part for line in text.splitlines() for part in textwrap.wrap(line, _DIFF_WIDTH)]
