"""What a crawl says of its pages: once a minute, of its first drops, and at its end."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from scrapy.extensions.logstats import LogStats

from scrapy_simhash._printable import plural, show_share
from scrapy_simhash.crawl.policy import LEFT_OUT
from scrapy_simhash.judge.log import FOLLOW, PASS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from logging import LogRecord

    from scrapy import Spider
    from scrapy.statscollectors import StatsCollector

    from scrapy_simhash.config import Config

_LOGGER = logging.getLogger(LogStats.__module__)
_NOT_JUDGED = "simhash/not_judged/"
# Of more pages than this share that were not judged, or did not come, a crawl warns.
_MANY = 0.01
_MOST_REASONS = 3
_GONE = {"HTTP 404", "HTTP 410"}  # pages that no crawl gets


class SimhashLogStats(LogStats):
    """Scrapy's own extension, with `near-duplicates N (x %)` at the end of its line."""

    # N counts near-duplicates whatever the action; x is their share of all pages judged so far. The
    # interval (`LOGSTATS_INTERVAL`), the logger and the final stats are Scrapy's.

    def log(self, spider: Spider) -> None:
        """Log the line; called at each interval."""
        # Scrapy has no way to extend its line, and a copy of its text would become outdated. The
        # line remains one message with arguments, for collectors of structured logs.
        _LOGGER.addFilter(self._extend)
        try:
            super().log(spider)
        finally:
            _LOGGER.removeFilter(self._extend)

    def _extend(self, record: LogRecord) -> bool:
        pages = self.stats.get_value("simhash/pages", 0)
        if pages and isinstance(record.args, dict):
            count = self.stats.get_value("simhash/near_duplicate", 0)
            record.msg += ", near-duplicates %(near_duplicates)d (%(near_duplicate_share).1f %%)"
            share = 100 * count / pages
            record.args |= {"near_duplicates": count, "near_duplicate_share": share}
        return True


class Said(NamedTuple):
    """A line at the end of a crawl."""

    level: int
    text: str


class Found(NamedTuple):
    """What the stats do not say of a crawl.

    Attributes:
        has_log: whether there is a log to report on.
        not_fetched: numbers of pages that did not come, by HTTP statuses and errors.
        doubts: what speaks against drops.
        look_alikes: kept pages that look like another one.
        links_of_lists: number of links that SIMHASH_FOLLOW_NEW_LINKS would have followed.
    """

    has_log: bool
    not_fetched: Mapping[str, int]
    doubts: str = ""
    look_alikes: str = ""
    links_of_lists: int = 0


class End:
    """The end of a crawl, in at most seven lines; `acted` counts near-duplicates by action."""

    def __init__(self, stats: StatsCollector, config: Config, acted: Mapping[str, int]) -> None:
        self._stats = stats
        self._config = config
        self._acted = acted

    def _get(self, key: str) -> int:
        return int(self._stats.get_value(f"simhash/{key}", 0))

    def list_lines(self, found: Found, limits: str) -> Iterator[Said]:
        """Yield the lines that have something to say; `limits` cut the crawl off."""
        if pages := self._get("pages"):
            yield Said(logging.INFO, self._sum_up(pages, f" {limits}" * bool(limits)))
        if passed := self._describe_not_judged(pages):
            yield Said(logging.WARNING, passed)
        errors = found.not_fetched
        if failed := sum(errors[each] for each in errors.keys() - _GONE):
            level = logging.WARNING if failed > _MANY * (pages + failed) else logging.INFO
            yield Said(level, tell_not_fetched(errors))
        if links := self._get("links/only_on_dropped_pages"):
            advised = found.links_of_lists and not self._config.follow_new_links
            follows = f" (SIMHASH_FOLLOW_NEW_LINKS = True follows {found.links_of_lists:,})"
            said = f"{plural(links, 'link')} that only dropped pages had{follows * bool(advised)}"
            yield Said(logging.WARNING, f"Not followed: {said}.")
        if found.doubts:
            yield Said(logging.WARNING, f"Look at: {found.doubts}.")
        if found.look_alikes:
            yield Said(logging.INFO, f"Kept: {found.look_alikes}.")
        if pages and found.has_log:
            yield Said(logging.INFO, "Details: scrapy simhash report")

    def _sum_up(self, pages: int, limits: str) -> str:
        """Say how many pages were judged, and what became of them."""
        get, acted = self._get, self._acted
        again = sum(get(f"revisit/{how}") for how in ("unchanged", "changed"))
        changed = [f"{get('revisit/changed'):,} with new text"] * bool(get("revisit/changed"))
        changed += ["of the others only the links"] * (self._config.unchanged == "drop")
        how = f" ({'; '.join(changed)})" * bool(changed)
        parts = [f"{get('new'):,} new"] + [f"{again:,} fetched again{how}"] * bool(again)
        followed = acted.get(FOLLOW, 0)
        requests = plural(get("outlinks_ignored"), "request")
        done = {
            f"dropped with {plural(get('links_dropped'), 'link')}": get("dropped") - followed,
            "dropped, but their links followed": followed,
            f"kept without their {requests}": acted.get("ignore-outlinks", 0),
            "flagged": acted.get("flag", 0),
            "kept, because this crawl had not got what they repeat": acted.get(PASS, 0),
        }
        hows = [f"{number:,} {how}" for how, number in done.items() if number > 0]
        if number := sum(max(0, each) for each in done.values()):
            share = f"{plural(number, 'near-duplicate')} ({show_share(number / pages)})"
            single = hows[0].partition(" ")[2]
            parts.append(f"{share} {single}" if len(hows) == 1 else f"{share}: {', '.join(hows)}")
        prefix, told = "simhash/forgotten/", self._stats.get_stats().items()
        forgotten = sum(int(number) for name, number in told if name.startswith(prefix))
        failed = f" {forgotten:,} did not come through: no page is dropped for these."
        said = f"Judged {plural(pages, 'page')}{limits}: {', '.join(parts)}."
        return said + failed * bool(forgotten)

    def _describe_not_judged(self, pages: int) -> str:
        """Say how many pages were not judged and why, if they are many or the store failed."""
        reasons = {
            name.removeprefix(_NOT_JUDGED): int(count)
            for name, count in self._stats.get_stats().items()
            if name.startswith(_NOT_JUDGED) and name.removeprefix(_NOT_JUDGED) not in LEFT_OUT
        }
        passed = sum(reasons.values())
        no_store = not reasons.keys().isdisjoint(("store_unavailable", "no_store"))
        if not no_store and passed <= _MANY * (pages + passed):
            return ""
        ranked = sorted(reasons.items(), key=lambda reason: (-reason[1], reason[0]))
        named = [f"{count:,} {name.replace('_', ' ')}" for name, count in ranked[:_MOST_REASONS]]
        if others := sum(count for _, count in ranked[_MOST_REASONS:]):
            named.append(f"{others:,} for other reasons")
        return tell_not_judged(passed, f" ({', '.join(named)})")


def tell_not_judged(pages: int, reasons: str = "") -> str:
    """Tell that pages were not judged."""
    came = "all came through, even copies" if pages > 1 else "it came through, even if a copy"
    return f"Not judged: {plural(pages, 'page')}{reasons}; {came}."


def tell_not_fetched(errors: Mapping[str, int]) -> str:
    """Tell that pages did not come, and of the most frequent statuses and errors how many."""
    named = [f"{error}: {number:,}" for error, number in errors.items()]
    why = ", ".join(named[:_MOST_REASONS]) + ", ..." * (len(named) > _MOST_REASONS)
    pages = plural(sum(errors.values()), "page")
    return f"Did not come: {pages} ({why}); the plugin dropped none of them."


def describe_limits(stats: StatsCollector, reason: str, depth_limit: int) -> str:
    """Describe what cut a crawl off: its close reason, or `DEPTH_LIMIT`; "" for nothing."""
    within = 0 < depth_limit <= stats.get_value("request_depth_max", 0)
    limits = ["within DEPTH_LIMIT"] * within + [f"until {reason}"] * (reason != "finished")
    return " ".join(limits)
