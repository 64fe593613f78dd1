"""Estimate what a table design costs (paper, section 3.1).

The costs cover the tables alone and assume evenly spread fingerprints. Real fingerprints cluster
(section 4.2), so a crowded prefix has more candidates than predicted here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scrapy_simhash.tables.permutation import FINGERPRINT_BYTES, Design

# Microseconds on one machine, warm cache: for each probe, for each key that it looks up, for each
# candidate that it reads and compares; and for each fingerprint when all are scanned in memory.
# Chosen between a fit of probes of several designs at 0.1 to 10 million (38, 1.7, 0.026)
# and the measurements of benchmarks/bench_store.py from 10 to 100 million (0.006 a candidate):
# most measured probes take 0.6 to 1.7 times the prediction. On other machines all of them are
# faster or slower, but their proportions change less.
PROBE_US = 38.0
KEY_US = 2.4
CANDIDATE_US = 0.0062
SCANNED_US = 0.005
# Bytes of a key besides its fingerprints: table number, key, LMDB's node header (8) and the
# pointer to it (2).
_BUCKET_BYTES = 14
# Share of an LMDB page that is filled after `compact`: four tables took 36 bytes a fingerprint, of
# which keys and values make up 27.7 at a million fingerprints, 24.4 at ten million.
_PAGE_FILL = 0.75
# Space before `compact`, as a multiple of that after it: rows inserted one by one took 46 bytes,
# loaded in order 36, and more when filled page by page.
_BEFORE_COMPACT = 1.3


def keys_per_table(key_bytes: int, flips: int) -> int:
    """Count the keys within this number of flipped bits of a key, itself included.

    >>> keys_per_table(2, 1)
    17
    """
    return sum(math.comb(8 * key_bytes, flipped) for flipped in range(flips + 1))


def expected_candidates(documents: int, key_bytes: int) -> float:
    """Return how many fingerprints of a table share a key on average."""
    return documents / (1 << 8 * key_bytes)


def expected_buckets(documents: int, key_bytes: int) -> float:
    """Return how many distinct keys a table has on average."""
    keys = 1 << 8 * key_bytes
    return -keys * math.expm1(-documents / keys)


def table_bytes(documents: int, tables: int, key_bytes: int) -> int:
    """Predict the size of all tables of an LMDB store after `compact`, in bytes."""
    buckets = expected_buckets(documents, key_bytes)
    one = buckets * _BUCKET_BYTES + documents * (FINGERPRINT_BYTES - key_bytes)
    return round(tables * one / _PAGE_FILL)


def predict_us(keys: float, candidates: float) -> float:
    """Predict the microseconds of a probe, on the machine of `PROBE_US`."""
    return PROBE_US + KEY_US * keys + CANDIDATE_US * candidates


@dataclass(frozen=True)
class Estimate:
    """The expected costs of a design."""

    design: str  # its name, the value of SIMHASH_TABLES
    tables: int
    narrowest_bits: int  # width of the narrowest prefix, the paper's p
    widest_bits: int
    flips: int  # bits of each key that a probe flips to be complete
    keys: int  # that a query looks up, in all tables
    # Fingerprints that share the narrowest prefix, 2**(d - p): a probe without flips would read
    # these if keys could have any width.
    prefix_candidates: float
    table_candidates: float  # that a query reads in a table; keys are whole bytes, three at most
    candidates: float  # that a query reads in all tables
    bytes: int  # of all tables after `compact`
    bytes_before_compact: int
    microseconds: float  # of a query, warm cache, on the machine of `PROBE_US`


def estimate(design: Design, documents: int, distance: int) -> Estimate:
    """Estimate what a design costs; `ValueError` unless it is complete for the distance."""
    flips = design.flips_for(distance)
    tables = len(design.tables)
    keys = keys_per_table(design.key_bytes, flips)
    read = expected_candidates(documents, design.key_bytes) * keys
    packed = table_bytes(documents, tables, design.key_bytes)
    return Estimate(
        design=design.name,
        tables=tables,
        narrowest_bits=design.prefix_bits,
        widest_bits=max(table.prefix_bits for table in design.tables),
        flips=flips,
        keys=keys * tables,
        prefix_candidates=documents / (1 << design.prefix_bits),
        table_candidates=read,
        candidates=read * tables,
        bytes=packed,
        bytes_before_compact=round(packed * _BEFORE_COMPACT),
        microseconds=predict_us(keys * tables, read * tables),
    )
