"""Find all pairs, or answer many queries at once: self-join, clusters, batches (section 3.3).

The functions take arrays of fingerprints, such as `store.fingerprints()`.

If very many fingerprints share a prefix, as pages of one template do (section 4.2), comparing each
with each is slow. Such a *crowd* is joined with tables of its own, made of the other bits. Three
places do this, with different inputs, and share the code in `tables`: the self-join for a sorted
run (`selfjoin._join_crowd`), the batch for queries and values with one prefix
(`batch._QueryTable._match_crowd`), and the cells for a sample, before the join
(`tables.CellPlan`).
"""

from scrapy_simhash.batch.joins.batch import batch_query
from scrapy_simhash.batch.joins.selfjoin import (
    connected_clusters,
    find_all,
    representative_clusters,
)

__all__ = ["batch_query", "connected_clusters", "find_all", "representative_clusters"]
