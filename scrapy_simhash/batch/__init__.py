"""Work without a crawl: import, export, merge, and batches on Spark."""

from typing import TYPE_CHECKING

from scrapy_simhash._faces import make_face

if TYPE_CHECKING:
    from scrapy_simhash.batch.exchange import merge_stores as merge_stores
    from scrapy_simhash.batch.importing import import_sources as import_sources

make_face(
    __name__,
    {"exchange": "merge_stores", "importing": "import_sources"},
    "exchange importing sources spark",
)
