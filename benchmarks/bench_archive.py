"""How small and how fast are archives (section 3.2 of the paper), beside zstd?

The codecs take turns on the same sorted random fingerprints: our blocks, and zstd (level 3, frames
of 4,096) on differences of neighbours, plain and with their octets transposed; bits a fingerprint,
above the bound of log2(2^64 / N) + 1.44 bits, and megabytes a second on one core. A table of 2^34
fingerprints is calculated from the distribution of h. Not measured: fingerprints of real pages,
which crowd and take less room; files and a cold disk cache.
"""

from __future__ import annotations

import math
import time
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import zstandard
from measuring import make_parser, print_figures, split_numbers, take_turns, write_result

from scrapy_simhash.batch.archive import (
    CHECKSUM,
    SORTED_ONLY,
    choose_key_bytes,
    group_blocks,
)
from scrapy_simhash.batch.compression import (
    BLOCK_BYTES,
    EQUAL,
    SYMBOLS,
    BlockDecoder,
    count_symbols,
    encode_blocks,
    make_code,
)
from scrapy_simhash.tables import parse_design

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

PAPER_LOG = 34
# So many fingerprints a frame, so that one can be read without the others.
FRAME = 4_096
# As much as an archive decodes at once.
CHUNK_BYTES = 1 << 22
LEVEL = 3
# What random fingerprints need besides log2(2**64 / N): log2(e).
BOUND_BITS = 1.44


def draw(count: int) -> NDArray[np.uint64]:
    """Draw sorted random fingerprints."""
    return np.sort(np.random.default_rng(count).integers(0, 2**64, count, np.uint64))


def show(
    count: int, octets: int, packing: Sequence[float], unpacking: Sequence[float]
) -> dict[str, float]:
    """Return the figures of what took so many bytes, and so many seconds in each round."""
    bits = 8 * octets / count
    rate = 8e-6 * count
    return {
        "bits": bits,
        "above bound": bits - (64 - math.log2(count) + BOUND_BITS),
        "packed MB/s": rate / median(packing),
        "unpacked MB/s": rate / median(unpacking),
    }


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


def measure_codecs(count: int, runs: int) -> dict[str, dict[str, float]]:
    """Let all codecs take turns on the same fingerprints."""
    values = draw(count)

    def measure(codec: Codec) -> tuple[int, float, float]:
        started = time.perf_counter()
        packed, octets = codec.pack(values)
        half = time.perf_counter()
        unpacked = codec.unpack(packed)
        ended = time.perf_counter()
        if not np.array_equal(unpacked, values):
            raise SystemExit(f"of {count:,} fingerprints some are lost")
        return octets, half - started, ended - half

    codecs = {
        f"{count:,}: our blocks of {BLOCK_BYTES} bytes": our_codec(),
        f"{count:,}: zstd of differences": zstd_codec(transposed=False),
        f"{count:,}: zstd, octets transposed": zstd_codec(transposed=True),
    }
    subjects = {name: partial(measure, codec) for name, codec in codecs.items()}
    figures = {}
    for name, found in take_turns(subjects, runs).items():
        octets, packing, unpacking = zip(*found, strict=True)
        figures[name] = show(count, octets[0], packing, unpacking)
    return figures


def calculate(log_count: float) -> float:
    """Compute the bits of a fingerprint in a sorted archive of 2**log_count random ones."""
    # How often h is the leading 1 between neighbours: where a prefix of 63 - h bits is followed by
    # a 0 and by a 1. There are 2**(63 - h) prefixes, and either is missing with probability
    # exp(-N / 2**(64 - h)).
    expected = np.zeros(SYMBOLS)
    for h in range(64):
        prefixes = 2.0 ** (63 - h)
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


def main() -> None:
    """Run the command line."""
    parser = make_parser(__doc__)
    parser.add_argument("--fingerprints", default="100000,1000000", help="how many, with commas")
    parser.add_argument("--runs", type=int, default=5, help="rounds (default 5)")
    options = parser.parse_args()
    figures: dict[str, dict[str, float]] = {}
    for count in split_numbers(options.fingerprints):
        figures |= measure_codecs(count, options.runs)
    figures[f"2^{PAPER_LOG}, calculated"] = {"bits": calculate(PAPER_LOG)}
    print_figures(figures)
    names = ["scrapy-simhash", "numpy", "xxhash", "zstandard"]
    write_result(options.output, names, figures=figures)


if __name__ == "__main__":
    main()
