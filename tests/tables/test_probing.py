"""Buckets of a server; with many of them, they are compared with brute force in `stores`."""

import pytest

from scrapy_simhash.tables.probing import unpack_buckets


@pytest.mark.parametrize("key_bytes", [1, 2, 3])
def test_a_bucket_is_unpacked_or_refused_without_whole_rests(key_bytes: int) -> None:
    """Not searched at the wrong places, whatever follows."""
    rest = 8 - key_bytes
    key, value = bytes(range(1 + key_bytes)), bytes(range(2 * rest))
    assert unpack_buckets([(key, value)]) == key + value[:rest] + key + value[rest:]
    for damaged in (value[:-1], value + b"\0"):
        with pytest.raises(ValueError, match="whole rests"):
            unpack_buckets([(key, damaged), (key, value)])
