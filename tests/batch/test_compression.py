"""The Huffman code and compressed blocks: every sorted run of fingerprints comes back."""

from itertools import chain, pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from scrapy_simhash.batch.archive.compression import count_symbols, encode_blocks
from scrapy_simhash.batch.archive.huffman import EQUAL, make_code
from tests.helpers.strategies import fingerprints

MOST = 2**64 - 1
# Those of one template stand close together; some are equal.
clusters = st.builds(
    lambda centre, moves: [centre ^ move for move in moves],
    fingerprints,
    st.lists(st.integers(0, 2**12), max_size=200),
)
runs = st.one_of(
    st.lists(fingerprints, max_size=300),
    clusters,
    st.lists(clusters, max_size=4).map(lambda many: list(chain(*many))),
    st.lists(st.sampled_from([0, 1, 2**63, MOST]), max_size=600),
    st.lists(st.integers(0, 63).map(lambda bit: 2**bit), max_size=100),
)
block_sizes = st.sampled_from([64, 72, 128, 1024, 65_536])


def sort(values: list[int]) -> NDArray[np.uint64]:
    return np.sort(np.array(values, np.uint64))


def encode(
    values: NDArray[np.uint64], block_bytes: int
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.uint64]]:
    """Make a code for the fingerprints and encode them; returns code, blocks and keys."""
    code = make_code(count_symbols(values))
    made = list(encode_blocks(values, code, block_bytes))
    packed = np.concatenate([np.zeros((0, block_bytes), np.uint8), *(some for some, _ in made)])
    return code, packed, np.concatenate([np.zeros(0, np.uint64), *(keys for _, keys in made)])


def bit_by_bit(values: list[int]) -> list[int]:
    """Find the symbols one by one."""
    return [
        (first ^ second).bit_length() - 1 if first != second else EQUAL
        for first, second in pairwise(values)
    ]


@given(runs, block_sizes)
def test_a_block_worked_out_bit_by_bit(values: list[int], block_bytes: int) -> None:
    """Encode with strings of bits, as the module's drawing has it."""
    values = sorted(values)
    code, packed, _ = encode(sort(values), block_bytes)
    names = canonical_names(code)
    expected: list[str] = []
    for i, (value, symbol) in enumerate(zip(values, [EQUAL, *bit_by_bit(values)], strict=False)):
        gap = f"{value ^ values[i - 1]:064b}" if i else ""
        entry = names[symbol] + (gap[64 - symbol :] if symbol != EQUAL else "")
        if expected and len(expected[-1]) + len(entry) <= 8 * block_bytes and i:
            expected[-1] += entry
        else:
            expected.append(f"{value:064b}")
    assert ["".join(f"{octet:08b}" for octet in block) for block in packed] == [
        bits.ljust(8 * block_bytes, "1") for bits in expected
    ]


def canonical_names(code: NDArray[np.uint8]) -> dict[int, str]:
    names, number, bits = {}, 0, 0
    for length, symbol in sorted((int(n), s) for s, n in enumerate(code) if n):
        number <<= length - bits
        names[symbol], bits = f"{number:0{length}b}", length
        number += 1
    return names
