"""Many fingerprints at once, without a crawl: joins, clusters, archives, plans, Spark.

An island: of the package, only `commands` imports it.
"""

from scrapy_simhash.batch.stored import (
    batch_query,
    export_archive,
    find_all,
    find_clusters,
    list_recorded_pairs,
)

__all__ = ["batch_query", "export_archive", "find_all", "find_clusters", "list_recorded_pairs"]
