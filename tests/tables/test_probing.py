"""Buckets: what was packed is unpacked, and a search finds what a loop would find."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash.tables.probing import find_in_buckets, pack_buckets, permuted_of, unpack_buckets
from tests.helpers.oracle import distance_between
from tests.helpers.strategies import fingerprints, masks

KEY_BYTES = (1, 2, 3)
key_widths = st.sampled_from(KEY_BYTES)


def pack(number: int, permuted: set[int], key_bytes: int) -> list[tuple[bytes, bytes]]:
    return list(pack_buckets(number, np.array(sorted(permuted), np.uint64), key_bytes))


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
    rows = unpack_buckets(buckets)
    expected = [(number, each) for number, table in enumerate(drawn) for each in sorted(table)]
    assert list(zip(rows["table"].tolist(), permuted_of(rows).tolist(), strict=True)) == expected


@given(tables(), key_widths, st.data())
def test_a_search_finds_what_a_loop_finds(
    drawn: list[set[int]], key_bytes: int, data: st.DataObject
) -> None:
    """Neighbours at any distance; empty values, which mark buckets as too full, are in between."""
    distance = data.draw(st.integers(0, 64), "distance")
    queries = [data.draw(fingerprints) for _ in drawn]
    for table, query in zip(drawn, queries, strict=True):
        for flips in data.draw(st.lists(st.integers(0, 9).flatmap(masks), max_size=5)):
            table.add(query ^ flips)
    buckets = [
        bucket for number, table in enumerate(drawn) for bucket in pack(number, table, key_bytes)
    ]
    for _ in range(data.draw(st.integers(0, 3), "empty values")):
        number = data.draw(st.integers(0, len(drawn) - 1))
        key = bytes([number]) + data.draw(st.binary(min_size=key_bytes, max_size=key_bytes))
        buckets.insert(data.draw(st.integers(0, len(buckets))), (key, b""))
    if not buckets:
        return
    rest_bits = 64 - 8 * key_bytes
    rows = [bytes([number]) + query.to_bytes(8) for number, query in enumerate(queries)]
    found = find_in_buckets(buckets, b"".join(rows), distance)
    told = (
        []
        if found is None
        else list(zip(found["table"].tolist(), permuted_of(found).tolist(), strict=True))
    )
    # Up to three bits the first four octets decide, and a few more may be told.
    looked_at = rest_bits - 32 if distance <= 3 else 0
    assert sorted(told) == [
        (number, each)
        for number, table in enumerate(drawn)
        for each in sorted(table)
        if distance_between(
            each % 2**rest_bits >> looked_at, queries[number] % 2**rest_bits >> looked_at
        )
        <= distance
    ]


@pytest.mark.parametrize("key_bytes", KEY_BYTES)
def test_a_bucket_without_whole_rests_is_refused(key_bytes: int) -> None:
    """Not searched at the wrong places, whatever follows."""
    (key, value), *_ = pack(0, {1, 2}, key_bytes)
    for damaged in (value[:-1], value + b"\0"):
        with pytest.raises(ValueError, match="whole rests"):
            find_in_buckets([(key, damaged), (key, value)], key + value[: 8 - key_bytes], 3)
