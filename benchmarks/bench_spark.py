"""How long does Spark in local mode take beside one process: all pairs, clusters, queries?

Every subject runs in a process of its own, once, Spark from Parquet to Parquet, its start not
counted. Both must find the same. `--skewed` draws a fifth of all with one prefix of 28 bits. Needs
the extra `spark`, and Java. Not measured: networks, other machines, extraction.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
from machine import write_result
from subjects import draw_with_near

if TYPE_CHECKING:
    from numpy.typing import NDArray

DISTANCE = 3
CORES = 2
# A fifth of all have so many leading bits in common; no prefix at 10 million is longer.
CROWD_PREFIX_BITS = 28
_EVEN, _SKEWED = "even", "skewed"


def draw_kind(count: int, kind: str) -> NDArray[np.uint64]:
    """Draw fingerprints as bench_batch does; `skewed`: a fifth of them have one prefix."""
    values = draw_with_near(count)
    if kind == _SKEWED:
        values[: count // 5] >>= np.uint64(CROWD_PREFIX_BITS)
    return values


def digest(pairs: NDArray[np.uint64]) -> str:
    """Sum up pairs, in whatever order they come."""
    ordered = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
    return hashlib.sha256(np.ascontiguousarray(ordered).tobytes()).hexdigest()


def run_one(count: int, kind: str, queries: int) -> dict[str, Any]:
    """Be the process without Spark."""
    from scrapy_simhash.batch.joins import (  # noqa: PLC0415
        batch_query,
        connected_clusters,
        find_all,
    )

    values = draw_kind(count, kind)
    started = time.perf_counter()
    pairs = find_all(values, DISTANCE)
    joined = time.perf_counter()
    clusters = connected_clusters(pairs)
    clustered = time.perf_counter()
    result = {
        "seconds": joined - started,
        "cluster_seconds": clustered - joined,
        "clusters": len(clusters),
        "pairs": len(pairs),
        "digest": digest(pairs),
    }
    if queries:
        asked = np.random.default_rng(7).choice(values, queries) ^ np.uint64(1)
        started = time.perf_counter()
        result["matches"] = len(batch_query(asked, [values], DISTANCE))
        result["batch_seconds"] = time.perf_counter() - started
    return result


def run_spark(count: int, kind: str, queries: int) -> dict[str, Any]:
    """Be the process with Spark: from Parquet to Parquet, its start not counted."""
    import pyarrow as pa  # noqa: PLC0415 - an extra
    import pyarrow.parquet as pq  # noqa: PLC0415

    from scrapy_simhash.batch.spark.pairs import (  # noqa: PLC0415
        batch_query,
        find_clusters,
        find_pairs,
    )

    with TemporaryDirectory() as folder:
        values = draw_kind(count, kind)
        table = pa.table({"fingerprint": values.view(np.int64)})
        # As many groups as cores can share.
        pq.write_table(table, f"{folder}/input.parquet", row_group_size=1 + count // (2 * CORES))
        asked = np.random.default_rng(7).choice(values, queries) ^ np.uint64(1)
        del table, values
        spark = start(folder)
        frame = spark.read.parquet(f"{folder}/input.parquet").repartition(2 * CORES)
        frame.limit(1).count()  # Java loads what it needs
        started = time.perf_counter()
        find_pairs(frame, DISTANCE).write.parquet(f"{folder}/pairs")
        joined = time.perf_counter()
        rounds: list[int] = []
        found = find_clusters(spark.read.parquet(f"{folder}/pairs"), progress=rounds.append)
        found.write.parquet(f"{folder}/clusters")
        clustered = time.perf_counter()
        clusters = spark.read.parquet(f"{folder}/clusters")
        result = {
            "seconds": joined - started,
            "cluster_seconds": clustered - joined,
            "cluster_rounds": len(rounds),
            "clusters": clusters.select("cluster").distinct().count(),
        }
        if queries:
            frame_asked = spark.createDataFrame(pa.table({"fingerprint": asked.view(np.int64)}))
            started = time.perf_counter()
            batch_query(frame_asked, frame, DISTANCE).write.parquet(f"{folder}/matches")
            result["batch_seconds"] = time.perf_counter() - started
            result["matches"] = spark.read.parquet(f"{folder}/matches").count()
        spark.stop()
        pairs = pq.read_table(f"{folder}/pairs")
        columns = [pairs[name].to_numpy().view(np.uint64) for name in ("first", "second")]
        rows = np.stack(columns, axis=1)
        return {**result, "pairs": len(rows), "digest": digest(rows)}


def start(folder: str) -> Any:
    """Start Spark on this machine."""
    from pyspark.sql import SparkSession  # noqa: PLC0415

    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "3g",
        "spark.sql.shuffle.partitions": str(4 * CORES),
        "spark.local.dir": folder,
    }
    builder = SparkSession.builder.master(f"local[{CORES}]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def call(subject: str, count: int, kind: str, queries: int) -> dict[str, Any]:
    """Run a subject in a process of its own."""
    print(f"{count:,} {kind}: {subject}", file=sys.stderr, flush=True)
    arguments = ["--subject", subject, "--sizes", str(count), "--kind", kind]
    command = [sys.executable, __file__, *arguments, "--queries", str(queries)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def measure(count: int, kind: str, queries: int) -> dict[str, Any]:
    """Measure one size; ends the run if the subjects find different things."""
    one, spark = (call(subject, count, kind, queries) for subject in ("one", "spark"))
    for name in ("digest", "pairs", "clusters", "matches"):
        if one.get(name) != spark.get(name):
            raise SystemExit(f"{count:,} {kind}: different {name}: {one} {spark}")
    row: dict[str, Any] = {
        "fingerprints": count,
        "kind": kind,
        "pairs": one["pairs"],
        "clusters": one["clusters"],
        "load": round(os.getloadavg()[1], 1),
        **{f"one_{name}": round(one[name], 2) for name in one if name.endswith("seconds")},
        **{f"spark_{name}": round(spark[name], 2) for name in spark if name.endswith("seconds")},
        "cluster_rounds": spark["cluster_rounds"],
    }
    if queries:
        row |= {"queries": queries, "matches": one["matches"]}
    return row


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="1000000", help="numbers of fingerprints")
    parser.add_argument("--skewed", default="", help="sizes with a fifth of all in one prefix")
    parser.add_argument("--queries", type=int, default=0, help="a batch of so many, at each size")
    parser.add_argument("--subject", choices=["one", "spark"], help=argparse.SUPPRESS)
    parser.add_argument("--kind", default=_EVEN, help=argparse.SUPPRESS)
    parser.add_argument("--output", type=Path, help="write the results as JSON")
    given = parser.parse_args()
    sizes, skewed = (
        [int(size) for size in text.split(",") if size] for text in (given.sizes, given.skewed)
    )
    if given.subject:
        run = run_one if given.subject == "one" else run_spark
        print(json.dumps(run(sizes[0], given.kind, given.queries)))
        return
    rows = []
    for kind, counts in ((_EVEN, sizes), (_SKEWED, skewed)):
        for count in counts:
            rows.append(measure(count, kind, given.queries))
            print(json.dumps(rows[-1]), flush=True)
            names = ["scrapy-simhash", "numpy", "pyspark", "pyarrow"]
            write_result(given.output, names, sizes=rows)


if __name__ == "__main__":
    main()
