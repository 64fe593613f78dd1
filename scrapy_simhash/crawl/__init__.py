"""Connect to Scrapy: choose responses and actions, follow pages until done, fetch lost ones."""

from typing import TYPE_CHECKING

from scrapy_simhash._faces import make_face

if TYPE_CHECKING:
    from scrapy_simhash.crawl.delivery import Delivery as Delivery
    from scrapy_simhash.crawl.idle import IdleWork as IdleWork
    from scrapy_simhash.crawl.links import LostLinks as LostLinks
    from scrapy_simhash.crawl.logstats import SimhashLogStats as SimhashLogStats
    from scrapy_simhash.crawl.refetch import read_requests as read_requests

make_face(
    __name__,
    {
        "delivery": "Delivery",
        "idle": "IdleWork",
        "links": "LostLinks",
        "logstats": "SimhashLogStats",
        "refetch": "read_requests",
    },
    "logstats paths policy running walls",
)
