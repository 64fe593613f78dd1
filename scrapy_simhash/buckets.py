"""Buckets: all fingerprints of a table that share a key, packed into one value.

A row of a table has 9 octets: the table's number, then the permuted fingerprint. The number and
the leading octets of the fingerprint are the row's *key*, the others its *rest*. A bucket keeps the
key once, and as its value the rests of all its rows, sorted, side by side::

    key      table number (1 octet) | leading key_bytes of the permuted fingerprint
    value    n rests of 8 - key_bytes octets each
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scrapy_simhash.permutation import FINGERPRINT_BYTES, ROW_BYTES
from scrapy_simhash.simhash import FINGERPRINT_BITS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

# Octets are compared as little-endian numbers on both sides: the count of differing bits is the
# same in any order, and no row has to be turned round.
ROW = np.dtype([("table", "u1"), ("permuted", "<u8")])
_NUMBER, _HEAD = np.dtype("<u8"), np.dtype("<u4")
_HEAD_TELLS_BITS = 3
_BITS_BEYOND = [np.uint64(8 * count) for count in range(FINGERPRINT_BYTES)]
# What a number needs behind the shortest rest to have all its octets.
_PADDING = bytes(3)
_FARTHER = [bytes(range(distance + 1, FINGERPRINT_BITS + 1)) for distance in range(65)]


def pack_buckets(
    number: int, permuted: NDArray[np.uint64], key_bytes: int
) -> Iterator[tuple[bytes, bytes]]:
    """Pack the fingerprints of one table.

    Args:
        number: of the table.
        permuted: permuted fingerprints, sorted, each once; shape (n,).
        key_bytes: leading octets of a permuted fingerprint that are the key, 1 to 3.

    Yields:
        Key and value of each bucket, in the order of the keys.
    """
    if not permuted.size:
        return
    rest_bytes = FINGERPRINT_BYTES - key_bytes
    keys = permuted >> np.uint64(8 * rest_bytes)
    starts = np.concatenate([[0], np.flatnonzero(keys[1:] != keys[:-1]) + 1])
    octets = permuted.astype(">u8").view(np.uint8).reshape(-1, FINGERPRINT_BYTES)
    rests = np.ascontiguousarray(octets[:, key_bytes:]).data.cast("B")
    bounds = [*(rest_bytes * starts).tolist(), rest_bytes * permuted.size]
    leading = bytes((number,))
    for key, start, end in zip(keys[starts].tolist(), bounds, bounds[1:], strict=False):
        yield leading + key.to_bytes(key_bytes, "big"), bytes(rests[start:end])


def unpack_buckets(buckets: Sequence[tuple[bytes, bytes]]) -> NDArray[np.void]:
    """Write out the rows of buckets; shape (n,) of `ROW`, in their order."""
    if not buckets:
        return np.empty(0, ROW)
    rest_bytes = ROW_BYTES - len(buckets[0][0])
    size = sum(len(value) for _, value in buckets) // rest_bytes
    return _write_rows(buckets, rest_bytes, np.arange(size))


def find_in_buckets(
    buckets: Sequence[tuple[bytes, bytes]], rows: bytes, distance: int
) -> NDArray[np.void] | None:
    """Find the rows whose rests are within a distance of their table's query.

    Args:
        buckets: keys and values, at least one.
        rows: of the query, in the order of the tables (`Design.rows`).
        distance: bits.

    Returns:
        Rows, shape (m,) of `ROW`, or None for none: all that are near, and few that are not.

    Raises:
        ValueError: a bucket is damaged: it does not consist of whole rests.
    """
    key_bytes = len(buckets[0][0])
    rest_bytes = ROW_BYTES - key_bytes
    # Of unrelated rests, the first 32 bits are within 3 bits in one of 700,000 cases, but within 7
    # in one of 1,000; then it pays to look at all bits.
    number = _HEAD if distance <= _HEAD_TELLS_BITS else _NUMBER
    width, rows = number.itemsize, rows + _PADDING
    patterns, values = [], []
    for key, value in buckets:
        start = ROW_BYTES * key[0] + key_bytes
        patterns.append(rows[start : start + width] * (len(value) // rest_bytes))
        values.append(value)
    values.append(_PADDING)
    wanted, rests = np.frombuffer(b"".join(patterns), number), b"".join(values)
    if len(rests) != wanted.size * rest_bytes + len(_PADDING):
        raise ValueError("a bucket does not consist of whole rests")
    differing = np.ndarray(wanted.shape, number, rests, 0, (rest_bytes,)) ^ wanted
    if number is _NUMBER:
        # A rest is the low octets of the number; what follows it in memory is shifted out.
        differing <<= _BITS_BEYOND[key_bytes - 1]
    distances = np.bitwise_count(differing)
    # Nearly always there is nothing, and octets say so sooner than a comparison and `nonzero`.
    if not distances.tobytes().translate(None, _FARTHER[distance]):
        return None
    (near,) = (distances <= distance).nonzero()
    return _write_rows(buckets, rest_bytes, near)


def _write_rows(
    buckets: Sequence[tuple[bytes, bytes]], rest_bytes: int, positions: NDArray[np.intp]
) -> NDArray[np.void]:
    """Write out whole rows by the positions of their rests among all of them."""
    keys = np.frombuffer(b"".join([key for key, _ in buckets]), np.uint8)
    rests = np.frombuffer(b"".join([value for _, value in buckets]), np.uint8)
    ends = np.cumsum([len(value) // rest_bytes for _, value in buckets])
    rows = np.empty((positions.size, ROW_BYTES), np.uint8)
    owners = np.searchsorted(ends, positions, "right")
    rows[:, :-rest_bytes] = keys.reshape(len(buckets), -1)[owners]
    rows[:, -rest_bytes:] = rests.reshape(-1, rest_bytes)[positions]
    return rows.view(ROW)[:, 0]


def permuted_of(rows: NDArray[np.void]) -> NDArray[np.uint64]:
    """Get the permuted fingerprints of rows as numbers; shape (n,)."""
    return rows["permuted"].astype(np.uint64).byteswap()
