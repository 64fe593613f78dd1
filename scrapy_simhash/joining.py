"""The commands find-all, find-clusters and batch-query.

The first two read and print what the programs of the same names of seomoz/simhash-cpp do.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from scrapy_simhash.batch import batch_query
from scrapy_simhash.clusters import connected_clusters, representative_clusters
from scrapy_simhash.jointables import check_join
from scrapy_simhash.numbers import format_lists, format_rows, read_numbers, write_whole
from scrapy_simhash.selfjoin import find_all

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    from scrapy_simhash.config import Config

_STANDARD_STREAM = "-"
_FINGERPRINTS_PER_CHUNK = 1 << 20


def find_all_pairs(
    config: Config,  # noqa: ARG001 - every command gets it
    input_path: str,
    output_path: str,
    blocks: int | None,
    distance: int,
) -> Iterator[str]:
    """Answer `find-all`: every pair of fingerprints within a distance.

    Args:
        config: not looked at.
        input_path: decimals, one a line; "-" for standard input.
        output_path: where the pairs go; "-" for standard output.
        blocks: more than `distance`; None for what is quickest.
        distance: bits.

    Raises:
        ValueError: a bad line, or a number of blocks that is out of range.
        OSError: a file cannot be read or written.
    """
    yield from _write(format_rows(_find_pairs(input_path, blocks, distance)), output_path)


def find_all_clusters(
    config: Config,  # noqa: ARG001
    input_path: str,
    output_path: str,
    blocks: int | None,
    distance: int,
    *,
    representative: bool,
) -> Iterator[str]:
    """Answer `find-clusters`; arguments as for `find_all_pairs`.

    Args:
        config: not looked at.
        input_path: decimals, one a line; "-" for standard input.
        output_path: where the clusters go; "-" for standard output.
        blocks: more than `distance`; None for what is quickest.
        distance: bits.
        representative: clusters around a representative, each member within the distance of it,
            instead of connected ones.
    """
    pairs = _find_pairs(input_path, blocks, distance)
    clusters = representative_clusters(pairs) if representative else connected_clusters(pairs)
    yield from _write(format_lists(clusters), output_path)


def answer_batch(
    config: Config,  # noqa: ARG001
    queries_path: str,
    input_path: str,
    output_path: str,
    distance: int,
) -> Iterator[str]:
    """Answer `batch-query`: stored fingerprints near to those of a file.

    Args:
        config: not looked at.
        queries_path: decimals, one a line.
        input_path: the stored fingerprints, likewise; "-" for standard input.
        output_path: where the matches go; "-" for standard output.
        distance: bits.

    Raises:
        ValueError: a bad line, a distance that is out of range, or both files standard input.
        OSError: a file cannot be read or written.
    """
    if queries_path == input_path == _STANDARD_STREAM:
        raise ValueError("--queries and --input cannot both be standard input; name a file")
    check_join(distance, None)  # before all is read
    queries, stored = read_fingerprints(queries_path), read_fingerprints(input_path)
    chunks = (
        stored[start : start + _FINGERPRINTS_PER_CHUNK]
        for start in range(0, stored.size, _FINGERPRINTS_PER_CHUNK)
    )
    with tqdm(total=stored.size, unit=" fingerprints", disable=None) as bar:
        rows = batch_query(queries, chunks, distance, progress=bar.update)
    yield from _write(format_rows(rows), output_path)


def read_fingerprints(path: str) -> NDArray[np.uint64]:
    """Read all fingerprints of a file of decimals.

    Args:
        path: "-" for standard input.

    Raises:
        ValueError: a bad line; named.
        OSError: the file cannot be read.
    """
    if path == _STANDARD_STREAM:
        return read_numbers(sys.stdin.buffer, "standard input")
    with Path(path).open("rb") as file:
        return read_numbers(file, path)


def _find_pairs(input_path: str, blocks: int | None, distance: int) -> NDArray[np.uint64]:
    check_join(distance, blocks)  # before all is read
    fingerprints = read_fingerprints(input_path)
    with tqdm(unit=" tables", disable=None) as bar:

        def show(done: int, tables: int) -> None:
            bar.total = tables
            bar.update(done - bar.n)

        return find_all(fingerprints, distance, blocks, show)


def _write(texts: Iterable[str], output_path: str) -> Iterator[str]:
    """Give texts on to be printed; if they go to a file, an empty one stands for them."""
    if output_path == _STANDARD_STREAM:
        yield from texts
    elif write_whole(Path(output_path), texts):
        yield ""
