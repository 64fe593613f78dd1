"""Interpolation search: where a key stands among sorted ones that are spread evenly."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# Among evenly spread keys log log n guesses do, 5 for four billion; where they did not help, keys
# are spread otherwise, and halving is sure to end.
MOST_GUESSES = 8


def find_first(read_key: Callable[[int], int], count: int, wanted: int, key_bits: int) -> int:
    """Find the first of some sorted keys that is not smaller than the wanted one.

    Args:
        read_key: gives the key of a place, 0 to count - 1; each 0 to 2**key_bits - 1.
        count: how many keys there are.
        wanted: 0 to 2**key_bits.
        key_bits: width of a key.

    Returns:
        Its place; `count` if all are smaller. Cost: O(log log count) reads of evenly spread keys,
        at most 8 + log2(count) + 1 of any. Of keys that are not sorted, some place before which
        stands a smaller key, and in which one that is not smaller.
    """
    low, high = 0, count
    # The keys before `low` and at `high`; none are there at first.
    below, above = -1, 1 << key_bits
    guesses = MOST_GUESSES
    while low < high:
        if guesses:
            guesses -= 1
            place = low + (high - low) * (wanted - below) // (above - below + 1)
        else:
            place = (low + high) // 2
        key = read_key(place)
        if key < wanted:
            low, below = place + 1, key
        else:
            high, above = place, key
    return low
