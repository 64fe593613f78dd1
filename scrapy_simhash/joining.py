"""The commands find-all, find-clusters and batch-query.

The first two read and print what the programs of the same names of seomoz/simhash-cpp do.
"""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from scrapy_simhash.archive import Archive
from scrapy_simhash.archive_format import MAGIC
from scrapy_simhash.batch import batch_query
from scrapy_simhash.clusters import connected_clusters, merge_pairs, representative_clusters
from scrapy_simhash.inspection import PartlyFailedError, open_as_it_is
from scrapy_simhash.joinedpages import cluster_pages, link_own, pair_pages, read_pages
from scrapy_simhash.jointables import check_join
from scrapy_simhash.numbers import format_lists, format_rows, read_numbers, write_whole
from scrapy_simhash.progress import show_progress
from scrapy_simhash.selfjoin import find_all

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    from scrapy_simhash.config import Config

_STANDARD_STREAM = "-"
_FINGERPRINTS_PER_CHUNK = 1 << 20


def find_all_pairs(  # noqa: PLR0913  # each by its name
    config: Config,
    store: str | None,
    input_path: str,
    output_path: str,
    blocks: int | None,
    distance: int,
    *,
    urls: bool,
) -> Iterator[str | dict[str, Any]]:
    """Answer `find-all`: every pair of fingerprints within a distance.

    Args:
        config: names the store, if one was asked for.
        store: None for the fingerprints of `input_path`.
        input_path: an archive, or decimals, one a line; "-" for standard input.
        output_path: where the pairs go; "-" for standard output.
        blocks: more than `distance`; None for what is quickest.
        distance: bits.
        urls: pairs of pages of the store, instead.

    Raises:
        PartlyFailedError: nothing was found; says whether there are fingerprints at all.
        ValueError: a bad line, or a number of blocks that is out of range; or `urls` of no store.
        StoreError: the archive is damaged, or the store cannot be opened.
        OSError: a file cannot be read or written.
    """
    _require_store(store, urls=urls)
    compared, pairs = _find_pairs(config, store, input_path, blocks, distance)
    if urls:
        yield from _write_objects(pair_pages(pairs, read_pages(config)), output_path)
    else:
        yield from _write(format_rows(pairs), output_path)
        _require_some(compared, pairs, distance)


def find_all_clusters(  # noqa: PLR0913  # each by its name
    config: Config,
    store: str | None,
    input_path: str,
    output_path: str,
    blocks: int | None,
    distance: int,
    *,
    representative: bool,
    urls: bool,
) -> Iterator[str | dict[str, Any]]:
    """Answer `find-clusters`; arguments and errors as for `find_all_pairs`.

    Args:
        config: names the store, if one was asked for.
        store: None for the fingerprints of `input_path`; otherwise near-duplicates that the store
            recorded stand with their originals.
        input_path: an archive, or decimals, one a line; "-" for standard input.
        output_path: where the clusters go; "-" for standard output.
        blocks: more than `distance`; None for what is quickest.
        distance: bits.
        representative: clusters around a representative, each member within the distance of it,
            instead of connected ones.
        urls: clusters of pages of the store, instead.
    """
    _require_store(store, urls=urls)
    compared, pairs = _find_pairs(config, store, input_path, blocks, distance)
    if store is not None:
        with open_as_it_is(config) as opened:
            pairs = merge_pairs(pairs, opened.recorded_pairs())
    pages = read_pages(config) if urls else {}
    if urls and not representative:  # main and whole text of a page are one page
        pairs = merge_pairs(pairs, link_own(pages))
    clusters = representative_clusters(pairs) if representative else connected_clusters(pairs)
    if urls:
        yield from _write_objects(cluster_pages(clusters, pages), output_path)
    else:
        yield from _write(format_lists(clusters), output_path)
        _require_some(compared, pairs, distance)


def answer_batch(
    config: Config,
    store: str | None,
    queries_path: str,
    input_path: str,
    output_path: str,
    distance: int,
) -> Iterator[str]:
    """Answer `batch-query`: stored fingerprints near to those of a file.

    Args:
        config: names the store, if one was asked for.
        store: None for the fingerprints of `input_path`.
        queries_path: an archive, or decimals, one a line.
        input_path: the stored fingerprints, likewise; "-" for standard input. An archive is never
            loaded whole.
        output_path: where the matches go; "-" for standard output.
        distance: bits.

    Raises:
        ValueError: a bad line, a distance that is out of range, or both files standard input.
        StoreError: an archive is damaged, or the store cannot be opened.
        OSError: a file cannot be read or written.
    """
    if store is None and queries_path == input_path == _STANDARD_STREAM:
        raise ValueError("--queries and --input cannot both be standard input; name a file")
    check_join(distance, None)  # before all is read
    queries = read_fingerprints(queries_path)
    with (
        _open_chunks(config, store, input_path) as (count, chunks),
        tqdm(total=count, unit=" fingerprints", disable=None) as bar,
    ):
        rows = batch_query(queries, chunks, distance, progress=bar.update)
    yield from _write(format_rows(rows), output_path)


@contextmanager
def _open_chunks(
    config: Config, store: str | None, input_path: str
) -> Iterator[tuple[int, Iterable[NDArray[np.uint64]]]]:
    """Open what is stored: how many fingerprints there are, and these in chunks."""
    if store is None and _is_archive(input_path):
        with Archive(input_path) as archive:
            yield archive.count, archive.read_chunks()
        return
    stored = _read_stored(config, store, input_path)
    starts = range(0, stored.size, _FINGERPRINTS_PER_CHUNK)
    yield stored.size, (stored[start : start + _FINGERPRINTS_PER_CHUNK] for start in starts)


def _read_stored(config: Config, store: str | None, input_path: str) -> NDArray[np.uint64]:
    if store is None:
        return read_fingerprints(input_path)
    with open_as_it_is(config) as opened:
        return opened.fingerprints()


def _is_archive(path: str) -> bool:
    """Say whether a file is an archive; a pipe is not looked into, what is read of it is gone."""
    if path == _STANDARD_STREAM or not Path(path).is_file():
        return False
    with Path(path).open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def read_fingerprints(path: str) -> NDArray[np.uint64]:
    """Read all fingerprints of an archive, or of a file of decimals.

    Args:
        path: "-" for standard input.

    Raises:
        ValueError: a bad line; named.
        ArchiveError: the archive is damaged.
        OSError: the file cannot be read.
    """
    if path == _STANDARD_STREAM:
        return read_numbers(sys.stdin.buffer, "standard input")
    if _is_archive(path):
        with Archive(path) as archive:
            return archive.read_all()
    with Path(path).open("rb") as file:
        return read_numbers(file, path)


def _find_pairs(
    config: Config, store: str | None, input_path: str, blocks: int | None, distance: int
) -> tuple[int, NDArray[np.uint64]]:
    """Say how many fingerprints there are, and which pairs."""
    check_join(distance, blocks)  # before all is read
    fingerprints = _read_stored(config, store, input_path)
    with show_progress("tables") as show:
        return fingerprints.size, find_all(fingerprints, distance, blocks, show)


def _require_some(compared: int, pairs: NDArray[np.uint64], distance: int) -> None:
    if not pairs.size:
        raise PartlyFailedError(
            f"no two of {compared:,} fingerprints are within {distance} bits"
            if compared
            else "the input is empty: there are no fingerprints to compare"
        )


def _write(texts: Iterable[str], output_path: str) -> Iterator[str]:
    """Give texts on to be printed; if they go to a file, an empty one stands for them."""
    if output_path == _STANDARD_STREAM:
        yield from texts
    elif write_whole(Path(output_path), texts):
        yield ""


def _require_store(store: str | None, *, urls: bool) -> None:
    if urls and store is None:
        raise ValueError("--urls shows pages of a store: name it with --store")


def _write_objects(
    objects: Iterable[dict[str, Any]], output_path: str
) -> Iterator[str | dict[str, Any]]:
    if output_path == _STANDARD_STREAM:
        yield from objects
    else:
        yield from _write((json.dumps(each) + "\n" for each in objects), output_path)
