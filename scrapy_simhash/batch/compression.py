"""Sorted fingerprints in blocks of one size, compressed as in section 3.2 of the paper.

::

    bits 0-63   first fingerprint of the block, whole
    then for each next one:
        code    of h, the position of the leading 1 of its XOR with the one before
        h bits  of the XOR, right of that 1
    the rest    ones, less than the next entry needs

The first bit is the highest of the first byte. A block can be read on its own and shows where it
ends: the ones are the code of `END`, or begin a code that would not fit. Its key is its last
fingerprint.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray


EQUAL = 64
END = 65
SYMBOLS = 66
# With 10 million random fingerprints, 12 bits cost 0.015 bits a fingerprint more than 15 would, but
# the lookup table takes 4 kB instead of 32, so those of all tables fit in the L1 cache.
CODE_BITS = 12


def make_code(counts: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Find the best code lengths up to `CODE_BITS` bits; shape (66,), like the counts."""
    # 0 stands for a symbol that does not occur; `EQUAL` and `END` always have a code. This is the
    # package-merge algorithm (Larmore and Hirschberg, JACM 1990).
    occurring = {symbol: int(count) for symbol, count in enumerate(counts) if count}
    occurring[EQUAL] = max(1, occurring.get(EQUAL, 0))
    # `END` gets the longest code: it only fills the end of a block, where no entry would fit.
    occurring[END] = 0
    coins = sorted((count, (symbol,)) for symbol, count in occurring.items())
    packages: list[tuple[int, tuple[int, ...]]] = []
    for _ in range(CODE_BITS):
        merged = sorted(coins + packages, key=lambda coin: coin[0])
        packages = [
            (first[0] + second[0], first[1] + second[1])
            for first, second in zip(merged[::2], merged[1::2], strict=False)
        ]
    chosen = packages[: len(coins) - 1]
    lengths = Counter(symbol for _, symbols in chosen for symbol in symbols)
    return np.array([lengths[symbol] for symbol in range(SYMBOLS)], np.uint8)


def make_lookup(lengths: NDArray[np.uint8]) -> NDArray[np.intp]:
    """Make the table that maps the next `CODE_BITS` bits to the symbol they begin with."""
    order = _canonical_order(lengths)
    return np.repeat(order, 1 << (CODE_BITS - lengths[order].astype(np.int64)))


def assign_codes(lengths: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Give each symbol its code, left-aligned in 64 bits; shape (66,), 0 for unused symbols."""
    order = _canonical_order(lengths)
    shares = 1 << (CODE_BITS - lengths[order].astype(np.int64))
    codes = np.zeros(SYMBOLS, np.uint64)
    codes[order] = (np.cumsum(shares) - shares).astype(np.uint64) << np.uint64(64 - CODE_BITS)
    return codes


def _canonical_order(lengths: NDArray[np.uint8]) -> NDArray[np.intp]:
    (used,) = lengths.nonzero()
    return used[np.argsort(lengths[used], kind="stable")]


# Section 3.2.
BLOCK_BYTES = 1024
LEAST_BLOCK_BYTES, MOST_BLOCK_BYTES = 64, 65_536
# Without a limit, a block could hold half a million equal fingerprints of one bit each, and reading
# a block takes as many steps as it has fingerprints.
_MOST_PER_BLOCK = 8_192
# Must be more than two full blocks.
_FINGERPRINTS_PER_CHUNK = 1 << 18
_FIRST_BITS = _WORD_BITS = 64
# numpy's own numbers: faster than Python's. The shift gives a bit's word, the mask its place in it.
_WINDOW_BITS = np.int64(64)
_WORD_SHIFT, _WORD_MASK = np.int64(6), np.int64(63)
# A window at the very end of a block reaches into the two words after it.
_PADDING_WORDS = 2
_ALL = np.uint64(2**64 - 1)
_TOP = np.uint64(1 << 63)
_ONE = np.uint64(1)
_LOW_BITS = np.uint64(63)
_CODE_SHIFT = np.uint64(64 - CODE_BITS)
# For each symbol: the bits of a XOR right of its leading 1; for END, more than any block has.
_GAP_BITS = np.array([*range(EQUAL), 0, 16 * MOST_BLOCK_BYTES])
# For each symbol: the shift of a leading 1 from bit 63 to h, or out of the word if there is no 1.
_RIGHT_SHIFTS = np.array([*range(63, -1, -1), 64, 64], np.uint64)


def check_block_bytes(block_bytes: int) -> int:
    """Return a valid block size, a multiple of 8 from 64 to 65,536; otherwise `ValueError`."""
    if not LEAST_BLOCK_BYTES <= block_bytes <= MOST_BLOCK_BYTES or block_bytes % 8:
        raise ValueError(
            f"a block has {LEAST_BLOCK_BYTES} to {MOST_BLOCK_BYTES:,} bytes, a multiple of 8; "
            f"got {block_bytes:,}"
        )
    return block_bytes


def _find_symbols(gaps: NDArray[np.uint64]) -> NDArray[np.intp]:
    """Find the position of the leading 1 of each XOR, `EQUAL` for 0; shape (n,) both."""
    # A float's exponent is this position. With the second bit cleared, rounding cannot raise it.
    exponents = (gaps & ~(gaps >> _ONE)).astype(np.float64).view(np.int64) >> 52
    return np.where(gaps == 0, EQUAL, exponents - 1023)


def count_symbols(fingerprints: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Count how often each symbol occurs between sorted neighbours; shape (n,) in, (66,) out."""
    # This includes neighbours that will be in different blocks.
    counts = np.zeros(SYMBOLS, np.int64)
    for start in range(0, len(fingerprints) - 1, _FINGERPRINTS_PER_CHUNK):
        some = fingerprints[start : start + _FINGERPRINTS_PER_CHUNK + 1]
        counts += np.bincount(_find_symbols(some[1:] ^ some[:-1]), minlength=SYMBOLS)
    return counts


def encode_blocks(
    fingerprints: NDArray[np.uint64], lengths: NDArray[np.uint8], block_bytes: int = BLOCK_BYTES
) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.uint64]]]:
    """Compress sorted fingerprints, shape (n,), with the lengths that `make_code` made for them."""
    # Yields several blocks at a time, shape (blocks, block_bytes), and the last fingerprint of
    # each. Memory: a quarter of a million fingerprints at a time, some 150 bytes each.
    start = 0
    while start < len(fingerprints):
        some = fingerprints[start : start + _FINGERPRINTS_PER_CHUNK]
        bits = (lengths + _GAP_BITS).take(_find_symbols(some[1:] ^ some[:-1]))
        ends = np.concatenate(([0], np.cumsum(bits)))
        firsts = _cut(ends, 8 * block_bytes - _FIRST_BITS)
        if start + len(some) < len(fingerprints):
            # The last block may still have room for the next fingerprints.
            firsts = firsts[:-1]
        yield _pack(some, firsts, ends, lengths, block_bytes), some[firsts[1:] - 1]
        start += int(firsts[-1])


def _cut(ends: NDArray[np.int64], most_bits: int) -> NDArray[np.intp]:
    """Fill blocks with entries that end at these bits; returns where each block starts, and n."""
    firsts = [0]
    while firsts[-1] < len(ends):
        start = firsts[-1]
        end = int(ends.searchsorted(ends[start] + most_bits, "right"))
        firsts.append(min(end, start + _MOST_PER_BLOCK))
    return np.array(firsts)


def _pack(
    fingerprints: NDArray[np.uint64],
    firsts: NDArray[np.intp],
    ends: NDArray[np.int64],
    lengths: NDArray[np.uint8],
    block_bytes: int,
) -> NDArray[np.uint8]:
    """Write the blocks that start at `firsts`, all entries at once."""
    blocks, width = len(firsts) - 1, block_bytes // 8
    starts, lasts = firsts[:-1], firsts[1:] - 1
    # Two extra words: `_deposit` writes to the word after that of the last entry, too.
    words = np.zeros(blocks * width + 2, np.uint64)
    inner = np.ones(firsts[-1], bool)
    inner[starts] = False
    (entries,) = inner.nonzero()
    # For each block: what to add to the number of bits before an entry to get its position.
    shifts = 8 * block_bytes * np.arange(blocks) + _FIRST_BITS - ends[starts]
    positions = ends[entries - 1] + np.repeat(shifts, lasts - starts)
    gaps = fingerprints[entries] ^ fingerprints[entries - 1]
    symbols = _find_symbols(gaps)
    # The leading 1 goes out at the left; an `EQUAL` has nothing to shift.
    gaps <<= (EQUAL - symbols).view(np.uint64)
    code_bits = lengths.take(symbols).astype(np.uint64)
    _deposit(words, positions, assign_codes(lengths).take(symbols) | gaps >> code_bits)
    (long,) = (code_bits + _GAP_BITS.take(symbols) > _WORD_BITS).nonzero()
    _deposit(words, positions[long] + _WORD_BITS, gaps[long] << (_WORD_BITS - code_bits[long]))

    grid = words[: blocks * width].reshape(blocks, width)
    grid[:, 0] = fingerprints[starts]
    used = _FIRST_BITS + ends[lasts] - ends[starts]
    column, bit = used // _WORD_BITS, (used % _WORD_BITS).astype(np.uint64)
    (open_,) = (column < width).nonzero()
    grid[open_, column[open_]] |= _ALL >> bit[open_]
    grid[np.arange(width) > column[:, None]] = _ALL
    return grid.astype(">u8").view(np.uint8)


def _deposit(
    words: NDArray[np.uint64], positions: NDArray[np.int64], fields: NDArray[np.uint64]
) -> None:
    """Write fields, left-aligned in 64 bits, at ascending bit positions; none overlap."""
    if not len(positions):
        return
    word, bit = positions // _WORD_BITS, (positions % _WORD_BITS).astype(np.uint64)
    runs = np.concatenate(([0], (word[1:] != word[:-1]).nonzero()[0] + 1))
    target = word[runs]
    words[target] |= np.bitwise_or.reduceat(fields >> bit, runs)
    words[target + 1] |= np.bitwise_or.reduceat(fields << (_WORD_BITS - bit), runs)


class BlockDecoder:
    """Decompresses blocks of one size, all at once: the i-th entry of each in one step."""

    def __init__(self, codes: Sequence[NDArray[np.uint8]], block_bytes: int = BLOCK_BYTES) -> None:
        self._block_bytes = block_bytes
        # An entry combines a table and a symbol: 66 for each table.
        self._lookup = np.concatenate(
            [make_lookup(lengths) + SYMBOLS * table for table, lengths in enumerate(codes)]
        )
        self._code_bits = np.concatenate(codes).astype(np.uint64)
        self._bits = np.concatenate([lengths + _GAP_BITS for lengths in codes])
        self._right_shifts = np.tile(_RIGHT_SHIFTS, len(codes))

    def decode(
        self, blocks: NDArray[np.uint8], tables: NDArray[np.intp] | int = 0
    ) -> tuple[NDArray[np.uint64], NDArray[np.intp]]:
        """Decompress blocks, shape (n, block_bytes), with the codes of their tables (or one)."""
        # Returns the fingerprints, block after block, and how many each block has. Cost: as many
        # steps as the fullest block has fingerprints. Each step makes some 25 calls of numpy over
        # all blocks, so pass thousands of them at once (benchmarks/bench_archive.py compares).
        # Memory: about three times the fingerprints.
        count, width = len(blocks), self._block_bytes // 8
        stride = width + _PADDING_WORDS
        padded = np.zeros((count, stride), np.uint64)
        padded[:, :width] = np.ascontiguousarray(blocks).view(">u8")
        values, words = padded[:, 0].copy(), padded.ravel()
        owners = np.arange(count)
        positions = owners * (stride * _WORD_BITS) + _FIRST_BITS
        bounds = positions + (width * _WORD_BITS - _FIRST_BITS)
        codes = np.broadcast_to(np.asarray(tables, np.intp) << CODE_BITS, count)
        # Which blocks had not ended, and a fingerprint of each of them for each step since then.
        runs = [(owners, [values])]
        while len(positions):
            window = _read_windows(words, positions)
            entries = self._lookup[(window >> _CODE_SHIFT).view(np.intp) + codes]
            bits = self._bits[entries]
            after = positions + bits
            going = after <= bounds
            if np.count_nonzero(going) < len(going):
                runs.append((owners := owners[going], []))
                bounds, positions, codes = bounds[going], positions[going], codes[going]
                values, window, after = values[going], window[going], after[going]
                entries, bits = entries[going], bits[going]
            shifts = self._right_shifts[entries]
            window <<= self._code_bits[entries]
            long = bits > _WINDOW_BITS
            if np.count_nonzero(long):
                gap_starts = positions + self._code_bits[entries].view(np.int64)
                window[long] = _read_windows(words, gap_starts[long])
            window >>= _ONE
            window |= _TOP
            window >>= shifts
            values = values ^ window
            positions = after
            runs[-1][1].append(values)
        return _join(runs, count)


def _read_windows(words: NDArray[np.uint64], positions: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Read the 64 bits that start at each bit position."""
    word, bit = positions >> _WORD_SHIFT, (positions & _WORD_MASK).view(np.uint64)
    window: NDArray[np.uint64] = words[word] << bit
    rest = words[1:][word]
    rest >>= _ONE
    bit ^= _LOW_BITS
    rest >>= bit
    window |= rest
    return window


def _join(
    runs: list[tuple[NDArray[np.intp], list[NDArray[np.uint64]]]], count: int
) -> tuple[NDArray[np.uint64], NDArray[np.intp]]:
    """Put the fingerprints of each block side by side; returns them, and the counts."""
    counts = np.zeros(count, np.intp)
    for owners, steps in runs:
        counts[owners] += len(steps)
    joined = np.empty(counts.sum(), np.uint64)
    targets = np.cumsum(counts) - counts
    for owners, steps in runs:
        places = targets[owners]
        for values in steps:
            joined[places] = values
            places += 1
        targets[owners] = places
    return joined, counts
