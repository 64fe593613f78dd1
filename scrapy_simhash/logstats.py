"""The line that Scrapy logs once a minute, with the near-duplicates in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.extensions import logstats

if TYPE_CHECKING:
    from logging import LogRecord

    from scrapy import Spider


class SimhashLogStats(logstats.LogStats):
    """Scrapy's own extension; its line ends with `near-duplicates N (x %)`.

    N counts near-duplicates whatever the action, the share is of all pages judged so far. As long
    as none was judged the line is Scrapy's. Interval (`LOGSTATS_INTERVAL`), logger and final stats
    are Scrapy's too.
    """

    def log(self, spider: Spider) -> None:
        """Log the line; called at each interval."""
        # Scrapy offers no place for more than it says, and a copy of its text would grow stale. The
        # line stays one message with arguments, for those who collect structured logs.
        logstats.logger.addFilter(self._extend)
        try:
            super().log(spider)
        finally:
            logstats.logger.removeFilter(self._extend)

    def _extend(self, record: LogRecord) -> bool:
        pages = self.stats.get_value("simhash/pages", 0)
        if pages and isinstance(record.args, dict):
            count = self.stats.get_value("simhash/near_duplicate", 0)
            record.msg += ", near-duplicates %(near_duplicates)d (%(near_duplicate_share).1f %%)"
            record.args |= {
                "near_duplicates": count,
                "near_duplicate_share": 100 * count / pages,
            }
        return True
