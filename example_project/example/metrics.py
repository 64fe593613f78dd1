"""Shows the stats of a running crawl to Prometheus. Needs the package prometheus-client."""

from collections.abc import Iterator
from typing import Self

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import Metric, UntypedMetricFamily
from prometheus_client.registry import Collector
from scrapy import Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured


class Metrics(Collector):
    """Extension: every number among the stats, as `scrapy_stats{spider="docs",stat="..."}`.

    Serves `http://localhost:METRICS_PORT/metrics`; with port 0, any free one, see `port`.
    """

    def __init__(self, crawler: Crawler, port: int) -> None:
        self.port = port
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Called by Scrapy."""
        if crawler.settings.get("METRICS_PORT") is None:
            raise NotConfigured
        extension = cls(crawler, crawler.settings.getint("METRICS_PORT"))
        crawler.signals.connect(extension.spider_opened, signals.spider_opened)
        crawler.signals.connect(extension.spider_closed, signals.spider_closed)
        return extension

    def spider_opened(self, spider: Spider) -> None:
        """Serve from a thread, for this crawl only."""
        self._name = spider.name
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        self._server, self._thread = start_http_server(self.port, "127.0.0.1", registry)
        self.port = self._server.server_port

    def collect(self) -> Iterator[Metric]:
        """Called in the server's thread, whenever Prometheus asks."""
        family = UntypedMetricFamily(
            "scrapy_stats", "Stats of a Scrapy crawl.", labels=("spider", "stat")
        )
        # The crawl goes on meanwhile; a copy is made in one piece.
        stats = self._crawler.stats.get_stats().copy() if self._crawler.stats else {}
        for stat, value in stats.items():
            if isinstance(value, int | float):
                family.add_metric((self._name, stat), value)
        yield family

    def spider_closed(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
