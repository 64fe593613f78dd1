"""Buckets: what was packed is unpacked."""

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash.tables.probing import unpack_buckets
from tests.helpers.strategies import fingerprints

KEY_BYTES = (1, 2, 3)
key_widths = st.sampled_from(KEY_BYTES)


def pack(number: int, permuted: set[int], key_bytes: int) -> list[tuple[bytes, bytes]]:
    rests = defaultdict[bytes, list[bytes]](list)
    for octets in sorted(each.to_bytes(8) for each in permuted):
        rests[bytes([number]) + octets[:key_bytes]].append(octets[key_bytes:])
    return [(key, b"".join(some)) for key, some in rests.items()]


@st.composite
def tables(draw: st.DrawFn) -> list[set[int]]:
    """Draw permuted fingerprints of several tables; many share leading octets."""
    leading = st.sampled_from([0, 2**64 - 1, draw(fingerprints)])
    near = st.tuples(leading, st.integers(0, 2**42 - 1)).map(lambda drawn: drawn[0] ^ drawn[1])
    return draw(st.lists(st.sets(fingerprints | near, max_size=12), min_size=1, max_size=4))


@given(tables(), key_widths)
def test_what_was_packed_is_unpacked(drawn: list[set[int]], key_bytes: int) -> None:
    buckets = [
        bucket for number, table in enumerate(drawn) for bucket in pack(number, table, key_bytes)
    ]
    assert unpack_buckets(buckets) == b"".join(
        bytes([number]) + each.to_bytes(8)
        for number, table in enumerate(drawn)
        for each in sorted(table)
    )


@pytest.mark.parametrize("key_bytes", KEY_BYTES)
def test_a_bucket_without_whole_rests_is_refused(key_bytes: int) -> None:
    """Not searched at the wrong places, whatever follows."""
    (key, value), *_ = pack(0, {1, 2}, key_bytes)
    for damaged in (value[:-1], value + b"\0"):
        with pytest.raises(ValueError, match="whole rests"):
            unpack_buckets([(key, damaged), (key, value)])
