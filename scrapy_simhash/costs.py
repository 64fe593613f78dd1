"""What a table design costs: keys looked up, candidates read, bytes, microseconds.

Fingerprints are taken as evenly spread; real ones cluster (paper, section 4.2), and a crowded
prefix has more candidates than is said here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scrapy_simhash.permutation import FINGERPRINT_BYTES


@dataclass(frozen=True)
class ProbeCosts:
    """Microseconds on one machine, warm cache.

    Chosen between what benchmarks/bench_probe_costs.py fits for 0.1 to 10 million (38, 1.7, 0.026)
    and what benchmarks/bench_scale.py measures from 10 to 100 million (0.006 a candidate): most
    measured probes are within 0.6 to 1.7 times the prediction. Other machines differ more in how
    fast they are than in what is faster.

    Attributes:
        probe_us: of a probe, whatever it reads.
        key_us: of each key that is looked up.
        candidate_us: of each candidate that is read and compared.
        scanned_us: of each fingerprint when all are scanned in memory.
    """

    probe_us: float = 38.0
    key_us: float = 2.4
    candidate_us: float = 0.0062
    scanned_us: float = 0.005

    def predict(self, keys: float, candidates: float) -> float:
        """Predict the microseconds of a query."""
        return self.probe_us + self.key_us * keys + self.candidate_us * candidates


@dataclass(frozen=True)
class RoomCosts:
    """Bytes of the tables of a store (`lmdb_tables`).

    Attributes:
        bucket_bytes: of a key beside its values: table number, key, LMDB's node header (8) and
            the pointer to it (2).
        page_fill: share of a page that is filled after `compact`: 27 bytes per fingerprint with
            four tables and ten million were measured where the values and keys make up 24.4.
        before_compact: the room until then, as a multiple: values sorted one by one took 36 of
            those 27 bytes when loaded in order, and more when filled page by page.
    """

    bucket_bytes: int = 14
    page_fill: float = 0.9
    before_compact: float = 1.4


PROBE_COSTS = ProbeCosts()
ROOM_COSTS = RoomCosts()


def keys_per_table(key_bytes: int, flips: int) -> int:
    """Count the keys within so many flipped bits of a key, itself included.

    >>> keys_per_table(2, 1)
    17
    """
    return sum(math.comb(8 * key_bytes, flipped) for flipped in range(flips + 1))


def expected_candidates(documents: int, key_bytes: int) -> float:
    """Say how many fingerprints of a table share a key on average."""
    return documents / (1 << 8 * key_bytes)


def table_bytes(documents: int, tables: int, key_bytes: int, costs: RoomCosts = ROOM_COSTS) -> int:
    """Predict the bytes of all tables after `compact`, without the documents' records."""
    keys = 1 << 8 * key_bytes
    # Keys that occur: of so many equal boxes, those that get one of the fingerprints at least.
    buckets = -keys * math.expm1(-documents / keys)
    one = buckets * costs.bucket_bytes + documents * (FINGERPRINT_BYTES - key_bytes)
    return round(tables * one / costs.page_fill)
