"""Probes: everything near to a fingerprint, from all tables at once (paper, section 3.1)."""

from __future__ import annotations

from itertools import combinations
from struct import Struct
from typing import TYPE_CHECKING, Protocol

import numpy as np

from scrapy_simhash.buckets import ROW, permuted_of
from scrapy_simhash.permutation import ROW_BYTES, Design
from scrapy_simhash.stored import Probe

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray


class ReadCandidates(Protocol):
    """Reads the candidates of keys from where a store has them."""

    def __call__(
        self, keys: tuple[bytes, ...], rows: bytes, distance: int, *, bounded: bool
    ) -> tuple[list[NDArray[np.void]], list[bytes]]:
        """Read them.

        Args:
            keys: of buckets, see `buckets`.
            rows: of the query.
            distance: bits; what is farther away may be left out.
            bounded: pass over buckets that are too full.

        Returns:
            Rows that may be near, and the keys whose buckets were passed over.
        """


class Prober:
    """Probes the tables of a design, wherever they are.

    The distance does not depend on the permutation, so only matches are restored.

    Args:
        design: which permutations, and how wide the keys are.
    """

    def __init__(self, design: Design) -> None:
        self.design = design
        self._key_end = 1 + design.key_bytes
        self._keys = Struct(f"{self._key_end}s{ROW_BYTES - self._key_end}x" * len(design.tables))
        self._masks = [_masks(design.key_bytes, 0)]
        self._flips = [design.flips_for(distance) for distance in range(design.reach_bits + 1)]

    def keys(self, rows: bytes, distance: int) -> tuple[bytes, ...]:
        """List the keys that a probe reads first: all of them, unless a bucket is too full."""
        flips = self._flips_for(distance)
        return self._keys.unpack(rows) if not flips else self.flip(rows, 0, flips)

    def _flips_for(self, distance: int) -> int:
        # Another process may have rebuilt the tables for less since the distance was checked.
        reached = distance < len(self._flips)
        return self._flips[distance] if reached else self.design.flips_for(distance)

    def probe(
        self,
        read: ReadCandidates,
        fingerprint: int,
        distance: int,
        most: int | None = None,
        *,
        bounded: bool = False,
    ) -> Probe:
        """Find every fingerprint within a distance.

        Args:
            read: reads candidates.
            fingerprint: the query.
            distance: bits; not more than the design reaches.
            most: only so many, the nearest; None for all.
            bounded: pass over buckets that are too full, and probe the other tables with one more
                bit of their keys flipped instead. Otherwise they are read, however long it takes.

        Returns:
            What is near. Cost: one descent a key, and the candidates that share it, on average
            documents / 256**key_bytes; a key for each table, and for each of its bits and pairs of
            bits that the design needs flipped for this distance.
        """
        rows = self.design.rows(fingerprint)
        flips = self._flips_for(distance)
        found, hot = read(self.keys(rows, distance), rows, distance, bounded=bounded)
        complete_bits = distance
        if hot:
            radii = self._radii(rows, hot, [flips] * len(self.design.tables))
            wider = self.design.widen(radii, flips, distance)
            if wider != radii:
                wanted = [new > old for new, old in zip(wider, radii, strict=True)]
                keys = self.flip(rows, flips + 1, flips + 1, wanted)
                more, hot_beyond = read(keys, rows, distance, bounded=True)
                found += more
                radii = self._radii(rows, hot_beyond, wider)
            complete_bits = min(distance, self.design.covered_bits(radii))
        if not found:
            return Probe([], complete_bits)
        return Probe(self._restore(found, rows, distance, most), complete_bits)

    def _restore(
        self, found: list[NDArray[np.void]], rows: bytes, distance: int, most: int | None
    ) -> list[tuple[int, int]]:
        """Keep what is near, each once: one fingerprint is often found by several tables."""
        candidates = np.concatenate(found) if len(found) > 1 else found[0]
        query = np.frombuffer(rows, ROW)["permuted"].take(candidates["table"])
        distances = np.bitwise_count(candidates["permuted"] ^ query)
        (near,) = (distances <= distance).nonzero()
        if not near.size:
            return []
        if most is not None and near.size > most:
            # Each may be found by every table; what is left over is cut below.
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

    def flip(
        self, rows: bytes, fewest: int, most: int, wanted: Sequence[bool] | None = None
    ) -> tuple[bytes, ...]:
        """Make the keys of a query with `fewest` to `most` of their bits flipped.

        Args:
            rows: of the query.
            fewest: bits.
            most: bits.
            wanted: for each table, whether to make its keys; None for all.
        """
        while len(self._masks) <= most:
            self._masks.append(_masks(self.design.key_bytes, len(self._masks)))
        masks = np.concatenate(self._masks[fewest : most + 1])
        keys = np.frombuffer(rows, np.uint8).reshape(-1, 1, ROW_BYTES)[..., : self._key_end]
        if wanted is not None:
            keys = keys[np.array(wanted)]
        octets = (keys ^ masks).tobytes()
        return Struct(f"{self._key_end}s" * (len(octets) // self._key_end)).unpack(octets)

    def _radii(self, rows: bytes, hot: Iterable[bytes], flips: Sequence[int]) -> tuple[int, ...]:
        """Say within how many flipped bits no bucket of each table was passed over; -1 for none.

        Args:
            rows: of the query.
            hot: keys of the buckets that were passed over.
            flips: within how many flipped bits each table was probed.
        """
        radii = list(flips)
        keys = self._keys.unpack(rows)
        for key in hot:
            flipped = (int.from_bytes(key) ^ int.from_bytes(keys[key[0]])).bit_count()
            radii[key[0]] = min(radii[key[0]], flipped - 1)
        return tuple(radii)


def _masks(key_bytes: int, flips: int) -> NDArray[np.uint8]:
    """Make the masks that flip so many bits of a key; shape (masks, 1 + key_bytes)."""
    masks = [sum(1 << bit for bit in bits) for bits in combinations(range(8 * key_bytes), flips)]
    # A key is led by the number of its table, which stays as it is.
    return np.ascontiguousarray(
        np.array(masks, ">u4").view(np.uint8).reshape(-1, 4)[:, -(key_bytes + 1) :]
    )
