"""Probe all tables at once for the fingerprints near a given one (paper, section 3.1).

A row of a table has 9 octets: the table's number, then the permuted fingerprint. The number and
the leading octets of the fingerprint are the row's *key*, the others its *rest*. A *bucket* stores
the key once; its value is the sorted rests of all rows with that key, side by side::

    key      table number (1 octet) | leading key_bytes of the permuted fingerprint
    value    n rests of 8 - key_bytes octets each
"""

from __future__ import annotations

from itertools import combinations
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

import numpy as np

from scrapy_simhash._fingerprints import FINGERPRINT_BITS, check_fingerprint
from scrapy_simhash.tables.permutation import FINGERPRINT_BYTES, BitBlock, Design

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

ROW_BYTES = 1 + FINGERPRINT_BYTES
# Plain simhash skips a bucket with more rows, so that crafted pages cost less than three times as
# much as others (2.6 times, measured; 8 times with four times as many rows). Ten times as many rows
# as an ordinary bucket of four tables has at 100 million documents.
MOST_IN_PLAIN_BUCKET = 16_384
# Where rare triples propose as well: what shares a prefix with so many is a template's.
MOST_IN_BUCKET = 1_024
# Both sides are compared as little-endian numbers: the number of differing bits is the same in any
# byte order, and no row has to be reversed.
ROW = np.dtype([("table", "u1"), ("permuted", "<u8")])
_NUMBER, _HEAD = np.dtype("<u8"), np.dtype("<u4")
_HEAD_TELLS_BITS = 3
# With so few rows, arrays take longer than a loop; a match has two or three.
_FEW = 16
_BITS_BEYOND = [np.uint64(8 * count) for count in range(FINGERPRINT_BYTES)]
# Eight octets read where the shortest rest begins reach this far beyond it.
_PADDING = bytes(3)
_FARTHER = [bytes(range(distance + 1, FINGERPRINT_BITS + 1)) for distance in range(65)]


class Probe(NamedTuple):
    """The result of probing the tables."""

    near: list[tuple[int, int]]  # (distance, fingerprint) of each, nearest first
    # Nothing was missed within this distance; -1 if every table was skipped, or all that was found.
    complete_bits: int


def pack_buckets(
    number: int, permuted: NDArray[np.uint64], key_bytes: int
) -> Iterator[tuple[bytes, bytes]]:
    """Pack the fingerprints of one table into buckets; permuted, sorted, distinct; shape (n,)."""
    # Yields key and value of each bucket, in the order of the keys.
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
    """Unpack buckets into rows, in their order; shape (n,) of `ROW`."""
    if not buckets:
        return np.empty(0, ROW)
    rest_bytes = ROW_BYTES - len(buckets[0][0])
    size = sum(len(value) for _, value in buckets) // rest_bytes
    return _write_rows(buckets, rest_bytes, np.arange(size))


def find_in_buckets(
    buckets: Sequence[tuple[bytes, bytes]], rows: bytes, distance: int
) -> NDArray[np.void] | None:
    """Find the rows whose rests are within a distance of their table's query."""
    # Takes at least one bucket, and the query's rows (`Prober.rows`). Returns rows, shape (m,) of
    # `ROW`: all that are near, and a few that are not; None instead of no rows. Raises `ValueError`
    # if a bucket is damaged and does not consist of whole rests.
    key_bytes = len(buckets[0][0])
    rest_bytes = ROW_BYTES - key_bytes
    # The first 32 bits of unrelated rests are within 3 bits in one of 700,000 cases, but within 7
    # in one of 1,000; at such distances it pays to compare all bits.
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
    # Nearly always no row is near; `translate` finds that out faster than `nonzero` would.
    if not distances.tobytes().translate(None, _FARTHER[distance]):
        return None
    (near,) = (distances <= distance).nonzero()
    return _write_rows(buckets, rest_bytes, near)


def _write_rows(
    buckets: Sequence[tuple[bytes, bytes]], rest_bytes: int, positions: NDArray[np.intp]
) -> NDArray[np.void]:
    """Make whole rows of the rests at these positions, counted through all buckets."""
    if positions.size <= _FEW:
        few = []
        for position in positions.tolist():
            at = rest_bytes * position
            for key, value in buckets:
                if at < len(value):
                    few.append(key + value[at : at + rest_bytes])
                    break
                at -= len(value)
        return np.frombuffer(b"".join(few), ROW)
    keys = np.frombuffer(b"".join([key for key, _ in buckets]), np.uint8)
    rests = np.frombuffer(b"".join([value for _, value in buckets]), np.uint8)
    ends = np.cumsum([len(value) // rest_bytes for _, value in buckets])
    rows = np.empty((positions.size, ROW_BYTES), np.uint8)
    owners = np.searchsorted(ends, positions, "right")
    rows[:, :-rest_bytes] = keys.reshape(len(buckets), -1)[owners]
    rows[:, -rest_bytes:] = rests.reshape(-1, rest_bytes)[positions]
    return rows.view(ROW)[:, 0]


def permuted_of(rows: NDArray[np.void]) -> NDArray[np.uint64]:
    """Return the permuted fingerprints of rows as numbers; shape (n,)."""
    return rows["permuted"].astype(np.uint64).byteswap()


# The rows of some keys, wherever they are stored: buckets (key and value); further rows, side by
# side; and the keys of buckets that were skipped because they are too full. A class of its own
# would add 0.3 us to a probe of 10.
Sets: TypeAlias = tuple[list[tuple[bytes, bytes]], bytes, list[bytes]]


class ReadSets(Protocol):
    """Reads the rows of keys from a store."""

    def __call__(self, keys: tuple[bytes, ...], in_bucket: int | None, /) -> Sets:
        """Read them, but for those with more rows than `in_bucket`."""


class Prober:
    """Probes the tables of a design, wherever they are stored."""

    def __init__(self, design: Design) -> None:
        self.design = design
        self._key_end = 1 + design.key_bytes
        self._keys = Struct(f"{self._key_end}s{ROW_BYTES - self._key_end}x" * len(design.tables))
        self._pairs = Struct(f"{self._key_end}s{ROW_BYTES - self._key_end}s")
        self._masks = [_masks(design.key_bytes, 0)]
        self._flips = [design.flips_for(distance) for distance in range(design.reach_bits + 1)]
        self._numbers, self._spread = _spread_blocks(design)

    def rows(self, fingerprint: int) -> bytes:
        """Permute a fingerprint for all tables; one multiplication puts a block into all of them.

        Returns:
            For each table 9 bytes: its number, then the permuted fingerprint, big-endian.
        """
        rows = self._numbers
        for source, mask, multiplier in self._spread:
            rows += (fingerprint >> source & mask) * multiplier
        return rows.to_bytes(ROW_BYTES * len(self.design.tables), "big")

    def split(self, fingerprint: int) -> list[tuple[bytes, bytes]]:
        """Split the rows of a fingerprint into key and rest, one pair for each table."""
        return list(self._pairs.iter_unpack(self.rows(check_fingerprint(fingerprint))))

    def keys(self, rows: bytes, distance: int) -> tuple[bytes, ...]:
        """List the keys that a probe reads first; it reads others only if a bucket is too full."""
        flips = self._flips_for(distance)
        return self._keys.unpack(rows) if not flips else self._flip(rows, 0, flips)

    def _flips_for(self, distance: int) -> int:
        # Since the distance was checked, another process may have rebuilt the tables with a design
        # that reaches less far.
        reached = distance < len(self._flips)
        return self._flips[distance] if reached else self.design.flips_for(distance)

    def probe(
        self,
        read: ReadSets,
        fingerprint: int,
        distance: int,
        most: int | None = None,
        in_bucket: int | None = None,
        *,
        or_nothing: bool = False,
    ) -> Probe:
        """Find every fingerprint within a distance, in bits that the design reaches."""
        # `most` limits the result to the nearest. Buckets with more rows than `in_bucket` are
        # skipped, and the other tables probed with one more bit of their keys flipped instead; None
        # reads all buckets, however long it takes. `or_nothing` finds nothing where there are more
        # than `most`, if it is much more, and probes nothing instead of a skipped bucket.
        # Cost: for each key one descent of the B-tree, and the candidates with that key, on average
        # documents / 256**key_bytes. Each table has one key, and one more for each combination of
        # bits that the design must flip for this distance.
        rows = self.rows(fingerprint)
        flips = self._flips_for(distance)
        found, hot = _find(read(self.keys(rows, distance), in_bucket), rows, distance)
        complete_bits = distance
        if hot and not or_nothing:
            radii = self._radii(rows, hot, [flips] * len(self.design.tables))
            wider = self.design.widen(radii, flips, distance)
            if wider != radii:
                wanted = [new > old for new, old in zip(wider, radii, strict=True)]
                keys = self._flip(rows, flips + 1, flips + 1, wanted)
                more, hot_beyond = _find(read(keys, in_bucket), rows, distance)
                found += more
                radii = self._radii(rows, hot_beyond, wider)
            complete_bits = min(distance, self.design.covered_bits(radii))
        if not found:
            return Probe([], complete_bits)
        near = self._restore(found, rows, distance, most, or_nothing=or_nothing)
        return Probe([], -1) if near is None else Probe(near, complete_bits)

    def _restore(
        self,
        found: list[NDArray[np.void]],
        rows: bytes,
        distance: int,
        most: int | None,
        *,
        or_nothing: bool,
    ) -> list[tuple[int, int]] | None:
        """Restore near fingerprints, each once: several tables often find the same one."""
        # Distances do not depend on the permutation, so only matches are restored.
        if sum(part.size for part in found) <= _FEW:
            few = self._restore_few(b"".join([part.tobytes() for part in found]), rows, distance)
            return few if most is None else few[:most]
        candidates = np.concatenate(found) if len(found) > 1 else found[0]
        query = np.frombuffer(rows, ROW)["permuted"].take(candidates["table"])
        distances = np.bitwise_count(candidates["permuted"] ^ query)
        (near,) = (distances <= distance).nonzero()
        if not near.size:
            return []
        if most is not None and near.size > most:
            # Each table may find each fingerprint: this keeps at least `most` distinct ones.
            if or_nothing and near.size > most * len(self.design.tables):
                return None
            order = np.argsort(distances[near], kind="stable")
            near = near[order[: most * len(self.design.tables)]]
        found_once = sorted(
            {
                (found_bits, self.design.tables[number].restore(permuted))
                for found_bits, number, permuted in zip(
                    distances[near].tolist(),
                    candidates["table"][near].tolist(),
                    permuted_of(candidates[near]).tolist(),
                    strict=True,
                )
            }
        )
        return found_once if most is None else found_once[:most]

    def _restore_few(self, found: bytes, rows: bytes, distance: int) -> list[tuple[int, int]]:
        near = set()
        for at in range(0, len(found), ROW_BYTES):
            number = found[at]
            start = ROW_BYTES * number + 1
            permuted = int.from_bytes(found[at + 1 : at + ROW_BYTES])
            query = int.from_bytes(rows[start : start + FINGERPRINT_BYTES])
            bits = (permuted ^ query).bit_count()
            if bits <= distance:
                near.add((bits, self.design.tables[number].restore(permuted)))
        return sorted(near)

    def _flip(
        self, rows: bytes, fewest: int, most: int, wanted: Sequence[bool] | None = None
    ) -> tuple[bytes, ...]:
        """Make a query's keys with `fewest` to `most` flipped bits, for the wanted tables."""
        while len(self._masks) <= most:
            self._masks.append(_masks(self.design.key_bytes, len(self._masks)))
        masks = np.concatenate(self._masks[fewest : most + 1])
        keys = np.frombuffer(rows, np.uint8).reshape(-1, 1, ROW_BYTES)[..., : self._key_end]
        if wanted is not None:
            keys = keys[np.array(wanted)]
        octets = (keys ^ masks).tobytes()
        return Struct(f"{self._key_end}s" * (len(octets) // self._key_end)).unpack(octets)

    def _radii(self, rows: bytes, hot: Iterable[bytes], flips: Sequence[int]) -> tuple[int, ...]:
        """Find how many bits each table can flip and meet no hot bucket; -1 if not even 0."""
        radii = list(flips)
        keys = self._keys.unpack(rows)
        for key in hot:
            flipped = (int.from_bytes(key) ^ int.from_bytes(keys[key[0]])).bit_count()
            radii[key[0]] = min(radii[key[0]], flipped - 1)
        return tuple(radii)


def _find(sets: Sets, rows: bytes, distance: int) -> tuple[list[NDArray[np.void]], list[bytes]]:
    """Find the candidates among rows that were read; returns the crowded keys, too."""
    joined, single, crowded = sets
    found = []
    if joined and (near := find_in_buckets(joined, rows, distance)) is not None:
        found.append(near)
    if single:
        found.append(np.frombuffer(single, ROW))
    return found, crowded


def _spread_blocks(design: Design) -> tuple[int, list[tuple[int, int, int]]]:
    """Make the rows of fingerprint 0, and each block's source shift, mask and multiplier."""
    numbers, place = 0, 8 * ROW_BYTES * len(design.tables)
    multipliers: dict[BitBlock, int] = {}  # where its lowest bit stands in each table's row
    for number, table in enumerate(design.tables):
        place -= 8
        numbers |= number << place
        for block in table.blocks:
            place -= block.width
            multipliers[block] = multipliers.get(block, 0) | 1 << place
    spread = [(block.shift, 2**block.width - 1, each) for block, each in multipliers.items()]
    return numbers, spread


def _masks(key_bytes: int, flips: int) -> NDArray[np.uint8]:
    """Make the masks that flip this number of a key's bits; shape (masks, 1 + key_bytes)."""
    masks = [sum(1 << bit for bit in bits) for bits in combinations(range(8 * key_bytes), flips)]
    # A key begins with the number of its table, which is never flipped.
    return np.ascontiguousarray(
        np.array(masks, ">u4").view(np.uint8).reshape(-1, 4)[:, -(key_bytes + 1) :]
    )
