"""Connect to Scrapy: choose responses and actions, follow pages until done, fetch lost ones."""

from typing import TYPE_CHECKING

from scrapy_simhash._faces import make_face

if TYPE_CHECKING:
    from scrapy_simhash.crawl.logstats import SimhashLogStats as SimhashLogStats
    from scrapy_simhash.crawl.refetch import read_requests as read_requests

make_face(
    __name__,
    {"logstats": "SimhashLogStats", "refetch": "read_requests"},
    "delivery followers links logstats parking policy refetch running walls",
)
