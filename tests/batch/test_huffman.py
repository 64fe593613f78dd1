"""The Huffman code: as short as can be, complete, and found again from its lengths."""

import heapq

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from scrapy_simhash.batch.archive.huffman import (
    CODE_BITS,
    END,
    EQUAL,
    SYMBOLS,
    assign_codes,
    check_code,
    make_code,
    make_lookup,
)

# Few symbols and many, alike and as different as they come in a sorted table.
counts = st.dictionaries(
    st.integers(0, EQUAL), st.one_of(st.integers(1, 9), st.integers(1, 2**40)), max_size=65
)


def histogram(occurring: dict[int, int]) -> NDArray[np.int64]:
    made = np.zeros(SYMBOLS, np.int64)
    for symbol, count in occurring.items():
        made[symbol] = count
    return made


def unlimited_bits(occurring: dict[int, int]) -> tuple[int, int]:
    """Huffman's own way: the bits of all symbols together, and of the longest code."""
    heap = [(count, 0) for count in occurring.values()]
    heapq.heapify(heap)
    total = 0
    while len(heap) > 1:
        first, second = heapq.heappop(heap), heapq.heappop(heap)
        total += first[0] + second[0]
        heapq.heappush(heap, (first[0] + second[0], 1 + max(first[1], second[1])))
    return total, heap[0][1]


@given(counts)
def test_as_short_as_huffmans(occurring: dict[int, int]) -> None:
    lengths = make_code(histogram(occurring))
    weights = {EQUAL: 1, **occurring, END: 0}
    bits = sum(count * int(lengths[symbol]) for symbol, count in weights.items())
    best, longest = unlimited_bits(weights)
    assert bits >= best
    if longest <= CODE_BITS:
        assert bits == best


@given(counts)
def test_every_code_is_found_by_looking_it_up(occurring: dict[int, int]) -> None:
    lengths = make_code(histogram(occurring))
    check_code(lengths)
    assert set(lengths.nonzero()[0].tolist()) == {*occurring, EQUAL, END}
    codes, lookup = assign_codes(lengths), make_lookup(lengths)
    assert len(lookup) == 2**CODE_BITS
    seen = 0
    for symbol in lengths.nonzero()[0]:
        start = int(codes[symbol]) >> (64 - CODE_BITS)
        share = 2 ** (CODE_BITS - int(lengths[symbol]))
        assert (lookup[start : start + share] == symbol).all()
        seen += share
    assert seen == 2**CODE_BITS


def bad(changes: dict[int, int]) -> NDArray[np.uint8]:
    lengths = make_code(histogram({40: 5, 41: 5}))
    for symbol, bits in changes.items():
        lengths[symbol] = bits
    return lengths


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        (bad({40: 9}), "no complete code"),
        (bad({40: 200}), "no complete code"),
        (bad({3: 1}), "no complete code"),
        (np.zeros(SYMBOLS, np.uint8), "no complete code"),
        (np.ones(2, np.uint8), "no complete code"),
        (bad({EQUAL: 0, 50: int(bad({})[EQUAL])}), "EQUAL needs a code"),
        (bad({END: int(bad({})[40]), 40: int(bad({})[END])}), "END the longest one"),
    ],
)
def test_what_is_no_code(lengths: NDArray[np.uint8], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_code(lengths)
