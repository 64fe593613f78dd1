"""Commands that compare many fingerprints: find-all, find-clusters, batch-query, spark.

The first two have the input and output of the programs of these names in seomoz/simhash-cpp.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from scrapy_simhash._files import write_whole
from scrapy_simhash._printable import plural, printable
from scrapy_simhash._progress import show_progress, show_steps
from scrapy_simhash.batch import list_recorded_pairs
from scrapy_simhash.batch.archive import Archive
from scrapy_simhash.batch.archive.format import MAGIC
from scrapy_simhash.batch.joins import (
    batch_query,
    connected_clusters,
    find_all,
    representative_clusters,
)
from scrapy_simhash.batch.joins.selfjoin import merge_pairs
from scrapy_simhash.batch.joins.tables import check_join
from scrapy_simhash.commands.frame import Command, call, name_page
from scrapy_simhash.errors import InspectionError, PartlyFailedError
from scrapy_simhash.judging.rule import PLAIN_DISTANCE_BITS
from scrapy_simhash.stores.opening import open_as_it_is
from scrapy_simhash.transfer.warc import read_warc

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from scrapy_simhash.commands.frame import Answer, Part
    from scrapy_simhash.config import Config


_LARGEST = 2**64 - 1
_BYTES_PER_READ = 1 << 24
_ROWS_PER_TEXT = 65_536
_SHOWN = 40
_STANDARD_STREAM = "-"
_FINGERPRINTS_PER_CHUNK = 1 << 20
_INPUT_AND_OUTPUT = (
    "Input and output have the format of seomoz/simhash-cpp. With --store and --urls, the pages "
    "with these fingerprints are shown instead; with --json as objects."
)


def _find(  # noqa: PLR0913  # the options, each by its name
    config: Config,
    store: str | None,
    input_path: str,
    output_path: str,
    blocks: int | None,
    distance: int,
    *,
    representative: bool | None,
    urls: bool,
) -> Iterator[str | Answer]:
    """Find pairs of fingerprints or pages, or clusters unless `representative` is None."""
    if urls and store is None:
        raise ValueError("--urls shows the pages of a store; name it with --store")
    check_join(distance, blocks)  # before reading the input
    fingerprints = _read_stored(config, store, input_path)
    with show_progress("tables") as show:
        pairs = find_all(fingerprints, distance, blocks, show)
    found: Iterable[str | Answer]
    if representative is None:
        found = _pair_pages(pairs, _read_pages(config)) if urls else format_rows(pairs)
    else:
        if store is not None:  # add recorded near-duplicates to their originals
            with open_as_it_is(config.store) as opened:
                pairs = merge_pairs(pairs, list_recorded_pairs(opened))
        pages = _read_pages(config) if urls else {}
        if urls and not representative:
            pairs = merge_pairs(pairs, _link_texts(pages))
        clusters = representative_clusters(pairs) if representative else connected_clusters(pairs)
        lines = (f"{each.tolist()}\n" for each in clusters)
        found = _cluster_pages(clusters, pages) if urls else lines
    yield from _write(found, output_path)
    if not urls and not pairs.size:
        raise PartlyFailedError(
            f"no two of {plural(fingerprints.size, 'fingerprint')} are within "
            f"{plural(distance, 'bit')}"
            if fingerprints.size
            else "the input is empty: there are no fingerprints to compare"
        )


def _read_stored(config: Config, store: str | None, input_path: str) -> NDArray[np.uint64]:
    if store is None:
        return _read_fingerprints(input_path)
    with open_as_it_is(config.store) as opened:
        return opened.fingerprints()


def _read_fingerprints(path: str) -> NDArray[np.uint64]:
    if path == _STANDARD_STREAM:
        if sys.stdin.buffer.isatty():
            sys.stderr.write("waiting for numbers, one a line, until Ctrl-D; or use --store\n")
        return read_numbers(sys.stdin.buffer, "standard input")
    if _is_archive(path):
        with Archive(path) as archive:
            return archive.read_all()
    with Path(path).open("rb") as file:
        return read_numbers(file, path)


def _is_archive(path: str) -> bool:
    """Whether a file is an archive; does not read pipes, because that would empty them."""
    if path == _STANDARD_STREAM or not Path(path).is_file():
        return False
    with Path(path).open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def _read_pages(config: Config) -> dict[int, list[str]]:
    """Read the URLs of each fingerprint, including those of dropped pages."""
    pages: dict[int, dict[str, None]] = defaultdict(dict)
    with open_as_it_is(config.store) as opened:
        for document in opened.list_documents():
            for fingerprint in document.fingerprints:
                pages[fingerprint][document.url] = None
    return {fingerprint: list(urls) for fingerprint, urls in pages.items()}


def _pair_pages(pairs: NDArray[np.uint64], pages: Mapping[int, list[str]]) -> Iterator[Answer]:
    """List the URLs of both sides of each pair, and of pages with the same fingerprint."""
    # Two texts of the same page are not a pair. Imported fingerprints have no URLs.
    for urls in pages.values():
        if len(urls) > 1:
            yield {"distance": 0, "first": urls[:1], "second": urls[1:]}
    for first, second in pairs.tolist():
        sides = pages.get(first, []), pages.get(second, [])
        if not sides[0] or sides[0] != sides[1]:
            distance = (first ^ second).bit_count()
            yield {"distance": distance, "first": sides[0], "second": sides[1]}


def _write(answers: Iterable[str | Answer], output_path: str) -> Iterator[str | Answer]:
    """Pass answers on to be printed; or write them to the file, and pass on an empty text."""
    if output_path == _STANDARD_STREAM:
        yield from answers
    elif write_whole(
        Path(output_path),
        (each if isinstance(each, str) else json.dumps(each) + "\n" for each in answers),
    ):
        yield ""


def _print_pair(answer: Answer) -> Iterable[Part]:
    apart = f"{answer['distance']:>2} bit{'s' * (answer['distance'] != 1)}"
    for bits, urls in ((apart, "first"), ("", "second")):
        yield f"{bits:<7}  {'  '.join(map(printable, answer[urls])) or name_page(None)}"


def _link_texts(pages: Mapping[int, list[str]]) -> NDArray[np.uint64]:
    """Pair the fingerprints of each page's main and whole text; shape (n, 2)."""
    firsts: dict[str, int] = {}
    pairs = [
        (firsts.setdefault(url, fingerprint), fingerprint)
        for fingerprint, urls in pages.items()
        for url in urls
    ]
    return np.array(pairs, np.uint64).reshape(-1, 2)


def _cluster_pages(
    clusters: Iterable[NDArray[np.uint64]], pages: Mapping[int, list[str]]
) -> Iterator[Answer]:
    """List the distinct URLs, two or more, of each cluster and of each shared fingerprint."""
    alone = dict(pages)
    for cluster in clusters:
        urls = dict.fromkeys(url for each in cluster.tolist() for url in alone.pop(each, []))
        if len(urls) > 1:
            yield {"pages": list(urls)}
    yield from ({"pages": urls} for urls in alone.values() if len(urls) > 1)


def _print_cluster(answer: Answer) -> Iterable[Part]:
    yield plural(len(answer["pages"]), "page")
    yield from (f"  {name_page(url)}" for url in answer["pages"])


def _batch_query(
    config: Config,
    store: str | None,
    queries_path: str,
    input_path: str,
    output_path: str,
    distance: int,
) -> Iterator[str | Answer]:
    """Find the stored fingerprints near those of a file; never loads an archive whole."""
    if store is None and queries_path == input_path == _STANDARD_STREAM:
        raise ValueError("--queries and --input cannot both be standard input; name a file")
    check_join(distance, None)  # before reading the input
    queries = _read_fingerprints(queries_path)
    with (
        _open_chunks(config, store, input_path) as (count, chunks),
        show_steps("fingerprints", count) as advance,
    ):
        rows = batch_query(queries, chunks, distance, progress=advance)
    yield from _write(format_rows(rows), output_path)


@contextmanager
def _open_chunks(
    config: Config, store: str | None, input_path: str
) -> Iterator[tuple[int, Iterable[NDArray[np.uint64]]]]:
    """Open the stored fingerprints; yields their number, and chunks of them."""
    if store is None and _is_archive(input_path):
        with Archive(input_path) as archive:
            yield archive.count, archive.read_chunks()
        return
    stored = _read_stored(config, store, input_path)
    starts = range(0, stored.size, _FINGERPRINTS_PER_CHUNK)
    yield stored.size, (stored[start : start + _FINGERPRINTS_PER_CHUNK] for start in starts)


def _run_spark(config: Config, options: argparse.Namespace) -> Iterator[Answer]:
    check_join(options.distance, options.blocks)  # before starting Java
    try:
        from scrapy_simhash.batch.spark.tasks import Job  # noqa: PLC0415 - PySpark is optional
    except ImportError as error:
        raise InspectionError(str(error)) from None
    options.read_warc = read_warc
    job = call(Job, config, options)
    yield from job.run(options.task, options.output, options.master, options.checkpoints)


_DISTANCE = f"""
-d --distance BITS: how many bits of two fingerprints may differ (default: {PLAIN_DISTANCE_BITS})
"""
_BLOCKS = """
-b --blocks M: cut the 64 bits into M blocks, more than the distance (default: the fastest)
"""
_STREAMS = f"""
| -i --input FILE: an archive, or one decimal number a line (default: -, standard input)
| --store PATH: use the fingerprints of this store (folder or URL)
-o --output FILE: where to write JSON arrays, one a line (default: -, standard output)
{_DISTANCE}"""
_FIND = f"""{_STREAMS}{_BLOCKS}
--urls: show pages instead of fingerprints; needs --store
"""
_CLUSTERS = f"""{_FIND}
--representative: build each cluster around one fingerprint that all others are near: no chains
"""
_QUERY = f"""
--queries FILE: fingerprints to look up: an archive, or one decimal number a line
{_STREAMS}"""
_SPARK = f"""
TASK: fingerprint: make the fingerprints of pages; pairs: find all pairs of fingerprints within a
    distance; query: find fingerprints near those of --queries; clusters: group pairs into clusters;
    confirm: find which of --pairs are near-duplicate documents
INPUT...: Parquet; for the task fingerprint also WARC files or JSON Lines
-o --output FOLDER: for Parquet; must not exist yet
| --queries PATH: for the task query: Parquet
| --pairs PATH: for the task confirm: Parquet
{_DISTANCE}{_BLOCKS}
--seed N: seed of the token hash (default: 0)
--master URL: such as local[2] (default: Spark's own)
--checkpoints FOLDER: for data that must survive the loss of executors
"""
_TASKS = ("fingerprint", "pairs", "query", "clusters", "confirm")
_MORE: dict[str, dict[str, Any]] = {
    "input": {"default": _STANDARD_STREAM, "dest": "input_path", "type": str},
    "output": {"default": _STANDARD_STREAM, "dest": "output_path", "type": str},
    "queries": {"required": True, "dest": "queries_path", "type": str},
    "distance": {"default": PLAIN_DISTANCE_BITS},
    "blocks": {"type": int},
}


COMMANDS = {
    "find-all": Command(
        partial(_find, representative=None),
        _FIND,
        _print_pair,
        more=_MORE,
        stored=False,
        examples=(
            "find-all --blocks 4 --distance 3 < numbers.txt",
            "find-all --store .scrapy/simhash --urls",
        ),
        details=_INPUT_AND_OUTPUT,
    ),
    "find-clusters": Command(
        _find,
        _CLUSTERS,
        _print_cluster,
        more=_MORE,
        stored=False,
        examples=(
            "find-clusters -d 3 -i numbers.txt -o clusters.jsonl",
            "find-clusters --store .scrapy/simhash --urls",
        ),
        details=_INPUT_AND_OUTPUT,
    ),
    "batch-query": Command(
        _batch_query,
        _QUERY,
        more=_MORE,
        printer=None,
        stored=False,
        examples=("batch-query --queries numbers.txt --store .scrapy/simhash -d 3",),
    ),
    "spark": Command(
        _run_spark,
        _SPARK,
        more=_MORE
        | {
            "task": {"choices": _TASKS},
            "input": {"dest": "inputs"},
            # Perhaps on another file system, as hdfs://...
            "output": {"required": True, "type": str},
            "queries": {"dest": "second_input"},
            "pairs": {"dest": "second_input"},
            "seed": {"default": 0, "type": int},
            "checkpoints": {"type": str},
        },
        stored=False,
        examples=(
            "spark fingerprint crawl.warc.gz -o documents",
            "spark pairs documents -o pairs",
        ),
    ),
}


def read_numbers(file: IO[bytes], name: str) -> NDArray[np.uint64]:
    """Read newline-separated unsigned decimals; `name` is for error messages; shape (n,)."""
    # Lines may end in CR LF; the last one may have no end. Raises `ValueError`, with file and line,
    # if a line, even an empty one, is not a number from 0 to 2**64 - 1.
    parts = [np.empty(0, np.uint64)]
    rest, lines = b"", 0
    while text := file.read(_BYTES_PER_READ):
        whole, newline, rest_after = (rest + text).rpartition(b"\n")
        if newline:
            parts.append(_parse(whole, name, lines + 1))
            lines += parts[-1].size
        rest = rest_after
    if rest:
        parts.append(_parse(rest, name, lines + 1))
    return np.concatenate(parts)


def _parse(text: bytes, name: str, first_line: int) -> NDArray[np.uint64]:
    """Parse whole lines, without the last newline."""
    text = text.replace(b"\r\n", b"\n").removesuffix(b"\r")
    clean = not text.translate(None, b"0123456789\n")
    if clean and b"\n\n" not in text and text[:1].isdigit() and text[-1:].isdigit():
        numbers = np.fromstring(text, np.uint64, sep="\n")
        # numpy reads numbers that are too large as the largest one: check all lines with that.
        if not (numbers == _LARGEST).any():
            return numbers
    for line, number in enumerate(text.split(b"\n"), first_line):
        _check_line(number, f"{name}, line {line}")
    return np.fromstring(text, np.uint64, sep="\n")


def _check_line(number: bytes, where: str) -> None:
    shown = repr(number.decode("ascii", "backslashreplace")[:_SHOWN])
    cure = "each line holds one fingerprint, a whole number from 0 to 18446744073709551615"
    if not number:
        raise ValueError(f"{where}: is empty; {cure}")
    if not number.isdigit():
        raise ValueError(f"{where}: {shown} is not such a number; {cure}")
    if len(significant := number.lstrip(b"0")) > len(str(_LARGEST)) or (
        significant and int(significant) > _LARGEST
    ):
        raise ValueError(f"{where}: {shown} has more than 64 bits; {cure}")


def format_rows(rows: NDArray[np.uint64]) -> Iterator[str]:
    """Write rows of numbers, shape (n, columns), as lines of JSON arrays; yields many at a time."""
    pattern = f"[{', '.join(['%d'] * rows.shape[1])}]\n"
    for start in range(0, len(rows), _ROWS_PER_TEXT):
        some = rows[start : start + _ROWS_PER_TEXT]
        yield pattern * len(some) % tuple(some.ravel().tolist())
