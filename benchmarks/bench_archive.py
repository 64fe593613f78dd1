"""Measure compressed archives beside a memory copy and two ways with zstd, all in one run.

The codecs take turns: in each round every codec packs and unpacks the same sorted fingerprints, so
that noise of the machine hits all of them. Times are medians over the rounds. See README.md for
what is measured and what is not.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import zstandard
from machine import describe_machine, describe_versions

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
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

SEED = 20_070_508
BLOCK_SIZES = (128, 256, 512, 1024, 2048, 4096, 16_384)

PAPER_LOG = 34
# So many fingerprints a frame, so that one can be read without the others.
FRAME = 4_096
# As much as an archive decodes at once.
CHUNK_BYTES = 1 << 22
LEVEL = 3
# What random fingerprints need besides log2(2**64 / N): log2(e).
BOUND_BITS = 1.44
GOAL_BITS, GOAL_MB = 2.4, 100


def bound_bits(count: float) -> float:
    """Bits that each of so many sorted random fingerprints needs."""
    return 64 - math.log2(count) + BOUND_BITS


def draw(count: int, random: np.random.Generator, bits: int = 64) -> NDArray[np.uint64]:
    """Draw sorted random numbers of so many bits."""
    return np.sort(random.integers(0, 2**bits - 1, count, np.uint64, endpoint=True))


@dataclass
class Codec:
    """A way to keep sorted fingerprints: `pack` gives what `unpack` takes, and its bytes."""

    name: str
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

    return Codec("ours, blocks of 1024 bytes", pack, unpack)


def copy_codec() -> Codec:
    """Copy memory."""
    return Codec(
        "copy", lambda values: (values.copy(), values.nbytes), lambda packed: packed.copy()
    )


def zstd_codec(name: str, *, transposed: bool) -> Codec:
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

    return Codec(name, pack, unpack)


def measure_codecs(count: int, runs: int) -> list[dict[str, Any]]:
    """Let all codecs take turns on the same fingerprints."""
    values = draw(count, np.random.default_rng([SEED, count]))
    codecs = [
        our_codec(),
        copy_codec(),
        zstd_codec("zstd, deltas", transposed=False),
        zstd_codec("zstd, deltas, octets transposed", transposed=True),
    ]
    seconds: dict[str, list[tuple[float, float]]] = {codec.name: [] for codec in codecs}
    sizes: dict[str, int] = {}
    for _ in range(runs):
        for codec in codecs:
            started = time.perf_counter()
            packed, sizes[codec.name] = codec.pack(values)
            half = time.perf_counter()
            unpacked = codec.unpack(packed)
            seconds[codec.name].append((half - started, time.perf_counter() - half))
            if not np.array_equal(unpacked, values):
                raise SystemExit(f"{codec.name} loses fingerprints")
    return [
        {
            "codec": name,
            "fingerprints": count,
            "bits": round(8 * sizes[name] / count, 3),
            "above_bound_bits": round(8 * sizes[name] / count - bound_bits(count), 3),
            "encode_mb_s": round(rate(count, [pair[0] for pair in pairs]), 1),
            "decode_mb_s": round(rate(count, [pair[1] for pair in pairs]), 1),
        }
        for name, pairs in seconds.items()
    ]


def rate(count: int, seconds: list[float]) -> float:
    """Megabytes of raw fingerprints a second, in the median round."""
    return 8e-6 * count / statistics.median(seconds)


def measure_archives(
    count: int, runs: int, probes: int, designs: list[str], folder: Path
) -> Iterator[dict[str, Any]]:
    """Write whole archives of several block sizes and designs, read them and probe them."""
    random = np.random.default_rng([SEED, count])
    values = draw(count, random)
    path = folder / "bench.archive"
    for name in [SORTED_ONLY, *designs]:
        for block_bytes in BLOCK_SIZES:
            progress(f"{count:,}: design {name}, blocks of {block_bytes}")
            started = time.perf_counter()
            file_bytes = write_archive(
                path, values, design=name, block_bytes=block_bytes, overwrite=True
            )
            written = time.perf_counter() - started
            with Archive(path) as archive:
                tables = len(archive.design.tables)
                bits = 8 * file_bytes / count / tables
                distances = (archive.design.distance_bits, archive.design.reach_bits)
                yield {
                    "design": name,
                    "fingerprints": count,
                    "block_bytes": block_bytes,
                    "bits_a_table": round(bits, 3),
                    "above_bound_bits": round(bits - bound_bits(count), 3),
                    "write_mb_s": round(rate(count * tables, [written]), 1),
                    "read_mb_s": round(
                        rate(count, [time_reading(archive) for _ in range(runs)]), 1
                    ),
                    "probe_ms": {
                        bits: round(time_probes(archive, values, bits, probes, random), 3)
                        for bits in distances
                    },
                }


def time_reading(archive: Archive) -> float:
    """Read the first table, checksums and all; returns seconds."""
    started = time.perf_counter()
    read = sum(len(chunk) for chunk in archive.read_chunks())
    elapsed = time.perf_counter() - started
    if read != archive.count:
        raise SystemExit("an archive loses fingerprints")
    return elapsed


def time_probes(
    archive: Archive,
    values: NDArray[np.uint64],
    distance: int,
    probes: int,
    random: np.random.Generator,
) -> float:
    """Ask for stored fingerprints with bits flipped; returns milliseconds of the median probe."""
    times = []
    for stored in random.choice(values, probes).tolist():
        flips = sum(1 << int(bit) for bit in random.choice(64, distance, replace=False))
        started = time.perf_counter()
        found = archive.probe(stored ^ flips, distance)
        times.append(1e3 * (time.perf_counter() - started))
        if (distance, stored) not in found:
            raise SystemExit(f"{stored:016x} is not found {distance} bits away")
    return statistics.median(times)


def expected_symbols(log_count: float, bits: int = 64) -> NDArray[np.float64]:
    """Compute how often h is the leading 1 between neighbours of 2**log_count random numbers.

    That is where a prefix of bits - 1 - h bits is followed by a 0 and by a 1: there are
    2**(bits - 1 - h) prefixes, and either is missing with probability exp(-N / 2**(bits - h)).
    """
    expected = np.zeros(SYMBOLS)
    for h in range(bits):
        prefixes = 2.0 ** (bits - 1 - h)
        expected[h] = prefixes * math.expm1(-(2.0**log_count) / (2 * prefixes)) ** 2
    expected[EQUAL] = 2.0**log_count - 1 - expected.sum()
    return expected


def calculate(log_count: float, design: str = SORTED_ONLY, bits: int = 64) -> dict[str, float]:
    """Compute the bits of a fingerprint in an archive of 2**log_count random ones."""
    expected = expected_symbols(log_count, bits)
    code = make_code(np.round(expected).astype(np.int64)).astype(np.float64)
    gaps = np.array([*range(EQUAL), 0, 0])
    entry = float(expected @ (code + gaps) / expected.sum())
    # A block's end leaves on average half an entry free, and its first fingerprint is whole.
    entries = 1 + (8 * BLOCK_BYTES - 64 - entry / 2) / entry
    table = parse_design(design).tables[0]
    key = 8 * choose_key_bytes(table, round(2**log_count))
    checksum = 8 * CHECKSUM.size / group_blocks(BLOCK_BYTES)
    total = (8 * BLOCK_BYTES + key + checksum) / entries
    return {
        "log2_fingerprints": log_count,
        "entry_bits": round(entry, 3),
        "bits": round(total, 3),
        "share_of_raw": round(total / 64, 4),
        "above_bound_bits": round(total - (bits - log_count + BOUND_BITS), 3),
    }


def simulate(log_count: int, folder: Path) -> dict[str, float]:
    """Write an archive as dense as one of 2**34 random 64-bit fingerprints."""
    count, bits = 2**log_count, 64 - (PAPER_LOG - log_count)
    path = folder / "dense.archive"
    values = draw(count, np.random.default_rng([SEED, log_count]), bits)
    measured = 8 * write_archive(path, values, overwrite=True) / count
    return {
        "log2_fingerprints": log_count,
        "width_bits": bits,
        "bits": round(measured, 3),
        "calculated_bits": calculate(log_count, bits=bits)["bits"],
        "share_of_raw": round(measured / 64, 4),
    }


def progress(text: str) -> None:
    """Show on standard error what is being done."""
    print(text, file=sys.stderr, flush=True)


def lines(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Write rows as a Markdown table."""
    if rows:
        yield f"| {' | '.join(rows[0])} |"
        yield "| --- " + "| ---: " * (len(rows[0]) - 1) + "|"
    for row in rows:
        yield f"| {' | '.join(map(show, row.values()))} |"
    yield ""


def show(value: Any) -> str:
    """Write a cell."""
    if isinstance(value, dict):
        return ", ".join(f"k = {name}: {figure}" for name, figure in value.items())
    return f"{value:,}" if isinstance(value, int) else str(value)


def goals(codecs: list[dict[str, Any]], archives: list[dict[str, Any]]) -> Iterator[str]:
    """Compare with what the codec and the archive are to reach."""
    for row in archives:
        if row["block_bytes"] == BLOCK_BYTES:
            above = row["above_bound_bits"]
            yield (
                f"- {'reached' if above <= GOAL_BITS else 'MISSED'}: {above:.2f} bits above the "
                f"bound, design {row['design']}, {row['fingerprints']:,} fingerprints; goal at "
                f"most {GOAL_BITS}"
            )
    for row in codecs[::4]:
        rate_mb = row["decode_mb_s"]
        yield (
            f"- {'reached' if rate_mb >= GOAL_MB else 'MISSED'}: {rate_mb:.0f} MB/s decoded, "
            f"{row['fingerprints']:,} fingerprints; goal at least {GOAL_MB}"
        )


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fingerprints", default="100000,1000000", help="how many, with commas")
    parser.add_argument("--designs", default="4,10", help="table designs to probe")
    parser.add_argument("--scales", default="20,22,24", help="log2 of the simulations' sizes")
    parser.add_argument("--runs", type=int, default=5, help="rounds; medians are reported")
    parser.add_argument("--probes", type=int, default=50, help="probes of each kind")
    results = Path(__file__).parent / "results/archive.json"
    parser.add_argument("--output", type=Path, default=results)
    arguments = parser.parse_args()
    command = " ".join(["python benchmarks/bench_archive.py", *sys.argv[1:]])
    machine = describe_machine()
    versions = describe_versions("scrapy-simhash", "numpy", "xxhash", "zstandard")
    codecs: list[dict[str, Any]] = []
    archives: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="bench_archive-") as folder:
        for count in map(int, arguments.fingerprints.split(",")):
            progress(f"{count:,}: codecs")
            codecs += measure_codecs(count, arguments.runs)
            designs = [name for name in arguments.designs.split(",") if name]
            archives += measure_archives(
                count, arguments.runs, arguments.probes, designs, Path(folder)
            )
        progress("as dense as 2**34")
        calculated = [calculate(PAPER_LOG, design) for design in (SORTED_ONLY, *designs)]
        simulated = [simulate(int(scale), Path(folder)) for scale in arguments.scales.split(",")]
    result = {
        "command": command,
        "machine": machine,
        "versions": versions,
        "runs": arguments.runs,
        "codecs": codecs,
        "archives": archives,
        "calculated": calculated,
        "simulated": simulated,
        "goals": list(goals(codecs, archives)),
    }
    print(f"`{command}`, medians of {arguments.runs} rounds\n")
    print(", ".join(f"{name} {value}" for name, value in machine.items()) + "  ")
    print(", ".join(f"{name} {value}" for name, value in versions.items()) + "\n")
    for rows in (codecs, archives, calculated, simulated):
        print("\n".join(lines(rows)))
    print("\n".join(result["goals"]))
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
