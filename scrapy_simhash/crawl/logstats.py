"""Log lines on near-duplicates during a crawl, once a minute, and at its end."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy.extensions.logstats import LogStats

from scrapy_simhash._printable import plural, printable, quote, show_bytes
from scrapy_simhash.crawl.policy import FOLLOW, LOSING, PASS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from logging import LogRecord

    from scrapy import Spider
    from scrapy.statscollectors import StatsCollector

    from scrapy_simhash.detector.log import Decision

_LOGGER = logging.getLogger(LogStats.__module__)
# Pages that nobody would have got without the plugin, either.
_WITHOUT_CALLBACK = ("skipped/no_callback", "skipped/status")
_LEAST_PAGES = 10  # of fewer, a share means nothing
# What a crawl leaves owed, by the names of stats.
_OWED = (
    ("lost", "lost page", ""),
    ("waiting", "dropped page", " that wait for what another crawl is at work on"),
)

# What a look at a page finds, and what a crawl would do with a near-duplicate.
_FINDS = {
    "new": "like none that the store has",
    "near_duplicate": "a near-duplicate",
    "revisit": "in the store from an earlier visit",
    "unjudged": "not judged",
}
_DOES = {"drop": "drop it", "ignore-outlinks": "keep its items and drop its requests"}


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


def _say_why(stats: StatsCollector) -> str:
    """Describe why no page was judged, by reasons."""
    kind = "simhash/unjudged/"
    reasons = {
        name.removeprefix(kind): count
        for name, count in stats.get_stats().items()
        if name.startswith(kind)
    }
    parts = [f"{count:,} {reason}" for reason, count in sorted(reasons.items())]
    return "No page was judged" + f" ({', '.join(parts)})" * bool(parts)


def describe_end(stats: StatsCollector, acted: Mapping[str, int]) -> str:
    """Summarize a crawl in one line; `acted` counts the near-duplicates by their actions."""

    def get(key: str) -> int:
        return int(stats.get_value(f"simhash/{key}", 0))

    pages, saved = get("pages"), f"{show_bytes(get('bytes_dropped'))}, "
    saved += plural(get("links_dropped"), "link")
    if followed := acted.get(FOLLOW, 0):
        saved += f"; followed the links of {followed:,} of them"
    done = (
        ("dropped {}", get("dropped"), f" ({saved})"),
        (
            "ignored the outlinks of {}",
            acted.get("ignore-outlinks", 0),
            f" ({plural(get('outlinks_ignored'), 'request')})",
        ),
        ("flagged {}", acted.get("flag", 0), ""),
        ("kept {} for another callback or spider", acted.get(PASS, 0), ""),
    )
    parts: list[str] = []
    for what, number, more in done:
        if number:
            first = f"{plural(number, 'near-duplicate')} of {plural(pages, 'page')}"
            parts.append(what.format(f"{number:,}" if parts else first) + more)
    if not parts:
        parts = [f"No near-duplicates among {plural(pages, 'page')}" if pages else _say_why(stats)]
    if whole := get("failed/text"):
        parts.append(f"found no main text in {plural(whole, 'page')}")
    line = ", ".join(parts)
    owed = {
        f"{plural(number, what)}{more}": number
        for name, what, more in _OWED
        if (number := get(f"owed/{name}"))
    }
    if owed:
        line += f"; {plural(sum(owed.values()), 'request')} owed: {', '.join(owed)} "
        line += "(`scrapy simhash owed`)"
    return line[0].upper() + line[1:]


def list_warnings(
    stats: StatsCollector, acted: Mapping[str, int], unseen: Mapping[str, Sequence[str]]
) -> list[str]:
    """List what somebody should look at after a crawl; `unseen` has links by dropped pages."""

    def get(key: str) -> int:
        return int(stats.get_value(f"simhash/{key}", 0))

    pages, dropped, unchanged = map(get, ("pages", "dropped", "revisit/unchanged"))
    not_judged = {
        name: count
        for name, count in stats.get_stats().items()
        if name.startswith(("simhash/skipped/", "simhash/unjudged/"))
    }
    passed = sum(not_judged.values()) - sum(map(get, _WITHOUT_CALLBACK))
    warnings = []
    if dropped and not passed and dropped + unchanged == pages:
        warnings.append(
            f"no page was new: {unchanged:,} did not change, {dropped:,} repeat one that is in "
            "the store (`scrapy simhash log --crawl last`)"
        )
    elif pages >= _LEAST_PAGES and 2 * dropped > pages:
        warnings.append(
            f"{dropped / pages:.0%} of the pages were dropped (`scrapy simhash log --summary "
            "--crawl last` shows for which ones)"
        )
    if lost := get("unjudged/store_unavailable"):
        warnings.append(
            f"{plural(lost, 'page')} passed unjudged, because the store failed (`scrapy simhash "
            "check`, `scrapy simhash log --status unjudged`)"
        )
    if links := get("links/only_on_dropped_pages"):
        page, named = max(unseen.items(), key=lambda found: len(found[1]), default=("", ()))
        some, part = plural(links, "link"), f"{len(named):,} of them " * (len(named) < links)
        losing = not acted.keys().isdisjoint(LOSING)
        warnings.append(
            (f"{some} of near-duplicates stayed" if losing else f"dropping them would leave {some}")
            + f" unseen{f', {part}on {quote(page)}' * bool(page)} (listed at level DEBUG; `scrapy "
            "simhash report` shows pages of mostly new links; SIMHASH_FOLLOW_NEW_LINKS = True "
            "follows these)"
        )
    return warnings


def describe_look(decision: Decision, action: str) -> str:
    """Describe what a crawl with this action would do with a page that somebody looks at."""
    found, would = _FINDS[decision.status], "keep it"
    if decision.status == "near_duplicate":
        found += f" of {quote(decision.match_url)} ({printable('; '.join(decision.tests))})"
        would = f"{_DOES.get(action, 'flag it')}, if its callback got that"
    elif decision.reason:
        found += f", {decision.reason}"
    return f"{quote(decision.url)}: {found}; a crawl would {would}"
