"""Commands for many fingerprints: find-all, batch-query, spark, plan.

The first two have the input and output of the programs of these names in seomoz/simhash-cpp.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from scrapy_simhash._printable import plural, show_progress
from scrapy_simhash.batch import inputs, joins, list_recorded_pairs, planner
from scrapy_simhash.batch.joins.selfjoin import merge_pairs
from scrapy_simhash.batch.joins.tables import check_join
from scrapy_simhash.errors import InspectionError, PartlyFailedError
from scrapy_simhash.judging.documents import PLAIN_DISTANCE_BITS
from scrapy_simhash.pages.facts import FINGERPRINT_BITS
from scrapy_simhash.stores.opening import open_as_it_is
from scrapy_simhash.tables import MOST_TABLES
from scrapy_simhash.transfer import read_warc

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from scrapy_simhash.commands.answering import Answer
    from scrapy_simhash.commands.command import Make
    from scrapy_simhash.config import Config


def _find(config: Config, options: Namespace) -> Iterator[str]:
    """Find pairs of fingerprints, or their clusters."""
    check_join(options.distance, options.blocks)  # before reading the input
    fingerprints = inputs.read_stored(config, options.store, options.input_path)
    with show_progress("tables") as show:
        pairs = joins.find_all(fingerprints, options.distance, options.blocks, show)
    lines = inputs.format_rows(pairs)
    if options.clusters or options.representative:
        if options.store is not None:  # add recorded near-duplicates to their originals
            with open_as_it_is(config.store) as opened:
                pairs = merge_pairs(pairs, list_recorded_pairs(opened))
        cluster = (
            joins.representative_clusters if options.representative else joins.connected_clusters
        )
        lines = (f"{group.tolist()}\n" for group in cluster(pairs))
    yield from lines
    if not pairs.size:
        raise PartlyFailedError(
            f"no two of {plural(fingerprints.size, 'fingerprint')} are within "
            f"{plural(options.distance, 'bit')}"
            if fingerprints.size
            else "the input is empty: there are no fingerprints to compare"
        )


def _batch_query(config: Config, options: Namespace) -> Iterator[str]:
    """Find the stored fingerprints near those of a file; never loads an archive whole."""
    store, input_path = options.store, options.input_path
    if store is None and options.queries_path == input_path == inputs.STANDARD_STREAM:
        raise ValueError("--queries and --input cannot both be standard input; name a file")
    check_join(options.distance, None)  # before reading the input
    queries = inputs.read_fingerprints(options.queries_path)
    with (
        inputs.open_chunks(config, store, input_path) as (count, chunks),
        show_progress("fingerprints") as show,
    ):
        rows = joins.batch_query(
            queries, chunks, options.distance, progress=lambda done: show(done, count)
        )
    yield from inputs.format_rows(rows)


def _run_spark(config: Config, options: Namespace) -> Iterator[Answer]:
    check_join(options.distance, options.blocks)  # before starting Java
    try:
        from scrapy_simhash.batch.spark.tasks import Job  # noqa: PLC0415 - PySpark is optional
    except ImportError as error:
        raise InspectionError(str(error)) from None
    given = options.inputs, options.second_input, options.distance, options.blocks, options.seed
    yield from Job(config, *given, read_warc).run(options.task, options.output, options.master)


def _plan(config: Config, options: Namespace) -> Iterator[Answer]:
    """Compare the designs for a number of documents, and choose the fastest."""
    if not 1 <= options.documents <= 2**FINGERPRINT_BITS:
        raise ValueError(f"--documents {options.documents:g}: must be 1 to 2**64, such as 8e6")
    documents = int(options.documents)
    bits = config.distance if options.distance is None else options.distance
    if bits < 0:
        raise ValueError(f"--distance {bits}: must be 0 or more bits")
    estimates = planner.compare_designs(documents, bits)
    choice = min(estimates, key=lambda one: one.microseconds).design
    optimum, narrowest = [], 0  # each number of tables that makes the narrowest prefix wider
    while (
        tables := planner.fewest_tables(narrowest + 1, bits)
    ) is not None and tables <= MOST_TABLES:
        narrowest = planner.widest_prefix(tables, bits)
        candidates = documents / (1 << narrowest)
        optimum.append(
            {"tables": tables, "narrowest_bits": narrowest, "prefix_candidates": candidates}
        )
    yield {
        "documents": documents,
        "log2_documents": round(math.log2(documents), 2),
        "distance": bits,
        "designs": [asdict(one) for one in estimates],
        "optimum": optimum,
        "extremes": planner.list_extremes(documents, bits),
        "choice": choice,
        "setting": f"SIMHASH_TABLES = {json.dumps(choice)}",
    }


_TASKS = {
    "fingerprint": "make the fingerprints of pages",
    "pairs": "find all pairs of fingerprints within a distance",
    "query": "find fingerprints near those of --queries",
    "clusters": "group pairs into clusters",
    "confirm": "find which of --pairs are near-duplicate documents",
}


def add_commands(make: Make) -> None:
    """Add the commands for many fingerprints."""
    find = make(
        "find-all",
        "Find all pairs of near fingerprints, or their clusters, as JSON arrays, one a line. Input "
        "and output have the format of seomoz/simhash-cpp.",
        _find,
        takes="",
    )
    add = find.add_argument
    add("--clusters", action="store_true", help="find the clusters that such pairs connect")
    about = "build each cluster around one fingerprint that all others are near: no chains"
    add("--representative", action="store_true", help=about)
    query = make(
        "batch-query",
        "Look up many fingerprints among many others",
        _batch_query,
        takes="",
    )
    about = "fingerprints to look up: an archive, or one decimal number a line"
    query.add_argument("--queries", dest="queries_path", required=True, metavar="FILE", help=about)
    stream: dict[str, Any] = {"default": inputs.STANDARD_STREAM, "metavar": "FILE"}
    for parser in (find, query):
        add = parser.add_mutually_exclusive_group().add_argument
        about = "an archive, or one decimal number a line (default: -, standard input)"
        add("-i", "--input", dest="input_path", help=about, **stream)
        add("--store", metavar="PATH", help="use the fingerprints of this store (folder or URL)")
    spark = make(
        "spark",
        "Fingerprint, join and cluster billions of pages on Spark",
        _run_spark,
        takes="",
    )
    add = spark.add_argument
    about = "; ".join(f"{task}: {does}" for task, does in _TASKS.items())
    add("task", choices=_TASKS, metavar="TASK", help=about)
    about = "Parquet; for the task fingerprint also WARC files or JSON Lines"
    add("inputs", nargs="+", metavar="INPUT", help=about)
    # The output may be on another file system, as hdfs://...
    add("-o", "--output", required=True, metavar="FOLDER", help="for Parquet; must not exist yet")
    second = spark.add_mutually_exclusive_group().add_argument
    for name, task in ("queries", "query"), ("pairs", "confirm"):
        about = f"for the task {task}: Parquet"
        second(f"--{name}", dest="second_input", metavar="PATH", help=about)
    add("--seed", type=int, default=0, help="seed of the token hash (default: %(default)s)")
    add("--master", metavar="URL", help="such as local[2] (default: Spark's own)")
    distance: dict[str, Any] = {"type": int, "default": PLAIN_DISTANCE_BITS, "metavar": "BITS"}
    for parser in (find, query, spark):
        about = "how many bits of two fingerprints may differ (default: %(default)s)"
        parser.add_argument("-d", "--distance", help=about, **distance)
    for parser in (find, spark):
        about = "cut the 64 bits into M blocks, more than the distance (default: the fastest)"
        parser.add_argument("-b", "--blocks", type=int, metavar="M", help=about)
    add = make(
        "plan",
        "Compare table designs for a number of documents, and choose one",
        _plan,
        takes="",
    ).add_argument
    about = "how many documents, such as 8e9"
    add("--documents", type=float, required=True, metavar="COUNT", help=about)
    about = "how many bits may differ (default: SIMHASH_DISTANCE)"
    add("--distance", type=int, metavar="BITS", help=about)
