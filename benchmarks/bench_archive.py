"""How small and how fast are archives (section 3.2 of the paper), beside zstd and a copy of memory?

The codecs take turns on the same sorted random fingerprints: our blocks, a copy, and zstd (level 3,
frames of 4,096) on differences of neighbours, plain and with their octets transposed; bits a
fingerprint, above the bound of log2(2^64 / N) + 1.44 bits, and megabytes a second on one core. Then
whole files are written and read. A table of 2^34 fingerprints is calculated from the
distribution of h, and simulated by files of fewer, narrower fingerprints that lie as densely. Not
measured: fingerprints of real pages, which crowd and take less room; a cold disk cache.
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import zstandard
from machine import print_table, progress, write_result
from subjects import SEED

from scrapy_simhash.batch.archive import Archive, write_archive
from scrapy_simhash.batch.archive.compression import (
    BLOCK_BYTES,
    BlockDecoder,
    count_symbols,
    encode_blocks,
)
from scrapy_simhash.batch.archive.format import (
    CHECKSUM,
    SORTED_ONLY,
    choose_key_bytes,
    group_blocks,
)
from scrapy_simhash.batch.archive.huffman import EQUAL, SYMBOLS, make_code
from scrapy_simhash.tables.designs import parse_design

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

PAPER_LOG = 34
BLOCK_SIZES = (256, 1_024, 16_384)
# So many fingerprints a frame, so that one can be read without the others.
FRAME = 4_096
# As much as an archive decodes at once.
CHUNK_BYTES = 1 << 22
LEVEL = 3
# What random fingerprints need besides log2(2**64 / N): log2(e).
BOUND_BITS = 1.44


def bound_bits(count: float) -> float:
    """Return the bits that each of so many sorted random fingerprints needs."""
    return 64 - math.log2(count) + BOUND_BITS


def draw(count: int, random: np.random.Generator, bits: int = 64) -> NDArray[np.uint64]:
    """Draw sorted random numbers of so many bits."""
    return np.sort(random.integers(0, 2**bits - 1, count, np.uint64, endpoint=True))


class Codec(NamedTuple):
    """A way to keep sorted fingerprints: `pack` gives what `unpack` takes, and its bytes."""

    pack: Callable[[NDArray[np.uint64]], tuple[Any, int]]
    unpack: Callable[[Any], NDArray[np.uint64]]


def our_codec() -> Codec:
    """Make our blocks in memory; keys and checksums are not part of it, but of the archive."""

    def pack(values: NDArray[np.uint64]) -> tuple[Any, int]:
        code = make_code(count_symbols(values))
        blocks = np.concatenate([some for some, _ in encode_blocks(values, code)])
        return (code, blocks), blocks.size

    def unpack(packed: Any) -> NDArray[np.uint64]:
        code, blocks = packed
        decoder, step = BlockDecoder([code]), CHUNK_BYTES // BLOCK_BYTES
        chunks = [decoder.decode(blocks[i : i + step])[0] for i in range(0, len(blocks), step)]
        return np.concatenate(chunks)

    return Codec(pack, unpack)


def zstd_codec(*, transposed: bool) -> Codec:
    """Compress the differences of neighbours, in frames."""
    compressor = zstandard.ZstdCompressor(level=LEVEL)
    decompressor = zstandard.ZstdDecompressor()

    def pack(values: NDArray[np.uint64]) -> tuple[Any, int]:
        frames = []
        for start in range(0, len(values), FRAME):
            some = values[start : start + FRAME]
            octets = np.diff(some, prepend=np.uint64(0)).view(np.uint8).reshape(-1, 8)
            frames.append(compressor.compress((octets.T if transposed else octets).tobytes()))
        return frames, sum(map(len, frames))

    def unpack(frames: Any) -> NDArray[np.uint64]:
        parts = []
        for frame in frames:
            octets = np.frombuffer(decompressor.decompress(frame), np.uint8)
            if transposed:
                octets = np.ascontiguousarray(octets.reshape(8, -1).T)
            parts.append(np.cumsum(octets.reshape(-1).view(np.uint64), dtype=np.uint64))
        return np.concatenate(parts)

    return Codec(pack, unpack)


def measure_codecs(count: int, runs: int) -> list[dict[str, Any]]:
    """Let all codecs take turns on the same fingerprints."""
    values = draw(count, np.random.default_rng([SEED, count]))
    codecs = {
        f"ours, blocks of {BLOCK_BYTES} bytes": our_codec(),
        "copy": Codec(lambda raw: (raw.copy(), raw.nbytes), lambda packed: packed.copy()),
        "zstd of differences": zstd_codec(transposed=False),
        "zstd, octets transposed": zstd_codec(transposed=True),
    }
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in codecs}
    sizes: dict[str, int] = {}
    for _ in range(runs):
        for name, codec in codecs.items():
            started = time.perf_counter()
            packed, sizes[name] = codec.pack(values)
            half = time.perf_counter()
            unpacked = codec.unpack(packed)
            seconds[name].append((half - started, time.perf_counter() - half))
            if not np.array_equal(unpacked, values):
                raise SystemExit(f"{name} loses fingerprints")
    return [
        {
            "codec": name,
            "fingerprints": count,
            "bits": 8 * sizes[name] / count,
            "above bound": 8 * sizes[name] / count - bound_bits(count),
            "packed MB/s": rate(count, [pair[0] for pair in pairs]),
            "unpacked MB/s": rate(count, [pair[1] for pair in pairs]),
        }
        for name, pairs in seconds.items()
    ]


def rate(count: int, seconds: list[float]) -> float:
    """Return megabytes of raw fingerprints a second, in the median round."""
    return 8e-6 * count / statistics.median(seconds)


def measure_archive(count: int, block_bytes: int, path: Path) -> dict[str, Any]:
    """Write an archive of one sorted table, and read it."""
    progress(f"{count:,}: blocks of {block_bytes}")
    values = draw(count, np.random.default_rng([SEED, count]))
    started = time.perf_counter()
    size = write_archive(path, values, block_bytes=block_bytes, overwrite=True)
    written = time.perf_counter()
    with Archive(path) as archive:
        if sum(len(chunk) for chunk in archive.read_chunks()) != count:
            raise SystemExit("an archive loses fingerprints")
    read = time.perf_counter()
    return {
        "fingerprints": count,
        "block bytes": block_bytes,
        "bits": 8 * size / count,
        "above bound": 8 * size / count - bound_bits(count),
        "written MB/s": rate(count, [written - started]),
        "read MB/s": rate(count, [read - written]),
    }


def calculate(log_count: float, bits: int = 64) -> float:
    """Compute the bits of a fingerprint in a sorted archive of 2**log_count random ones."""
    # How often h is the leading 1 between neighbours: where a prefix of bits - 1 - h bits is
    # followed by a 0 and by a 1. There are 2**(bits - 1 - h) prefixes, and either is missing with
    # probability exp(-N / 2**(bits - h)).
    expected = np.zeros(SYMBOLS)
    for h in range(bits):
        prefixes = 2.0 ** (bits - 1 - h)
        expected[h] = prefixes * math.expm1(-(2.0**log_count) / (2 * prefixes)) ** 2
    expected[EQUAL] = 2.0**log_count - 1 - expected.sum()
    code = make_code(np.round(expected).astype(np.int64)).astype(np.float64)
    gaps = np.array([*range(EQUAL), 0, 0])
    entry = float(expected @ (code + gaps) / expected.sum())
    # A block's end leaves on average half an entry free, and its first fingerprint is whole.
    entries = 1 + (8 * BLOCK_BYTES - 64 - entry / 2) / entry
    key = 8 * choose_key_bytes(parse_design(SORTED_ONLY).tables[0], round(2**log_count))
    checksum = 8 * CHECKSUM.size / group_blocks(BLOCK_BYTES)
    return (8 * BLOCK_BYTES + key + checksum) / entries


def simulate(log_count: int, path: Path) -> dict[str, Any]:
    """Write an archive as dense as one of 2**34 random 64-bit fingerprints."""
    bits = 64 - (PAPER_LOG - log_count)
    values = draw(2**log_count, np.random.default_rng([SEED, log_count]), bits)
    return {
        "log2 of fingerprints": log_count,
        "of bits": bits,
        "bits": 8 * write_archive(path, values, overwrite=True) / 2**log_count,
        "calculated": calculate(log_count, bits),
    }


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fingerprints", default="100000,1000000", help="how many, with commas")
    parser.add_argument("--scales", default="20,22,24", help="log2 of the simulations' sizes")
    parser.add_argument("--runs", type=int, default=5, help="rounds; medians are reported")
    parser.add_argument("--output", type=Path, help="write the results as JSON")
    given = parser.parse_args()
    counts, scales = (
        [int(number) for number in text.split(",")] for text in (given.fingerprints, given.scales)
    )
    with tempfile.TemporaryDirectory(prefix="bench_archive-") as folder:
        path = Path(folder) / "bench.archive"
        found = {
            "codecs": [row for count in counts for row in measure_codecs(count, given.runs)],
            "archives": [
                measure_archive(count, size, path) for count in counts for size in BLOCK_SIZES
            ],
            "as dense as 2^34": [
                {"log2 of fingerprints": PAPER_LOG, "of bits": 64, "bits": "", "calculated": bits}
                for bits in [calculate(PAPER_LOG)]
            ]
            + [simulate(scale, path) for scale in scales],
        }
    for rows in found.values():
        print_table([*rows[0]], [[*row.values()] for row in rows])
    names = ["scrapy-simhash", "numpy", "xxhash", "zstandard"]
    write_result(given.output, names, runs=given.runs, **found)


if __name__ == "__main__":
    main()
