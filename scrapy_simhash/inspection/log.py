"""Read decision logs: filter, count."""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter, deque
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from scrapy_simhash._printable import mask_passwords, printable
from scrapy_simhash.config import DEFAULT_LOG, Config
from scrapy_simhash.crawl.policy import LEFT_OUT
from scrapy_simhash.crawl.running import find_default_log
from scrapy_simhash.errors import InspectionError, PartlyFailedError
from scrapy_simhash.judge.log import CUT_OFF, FORGOTTEN, IMPORT_PREFIX, NOT_FOLLOWED, Decision

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

LAST_CRAWL, ALL_CRAWLS = "last", "all"
IMPORTED = "(an imported fingerprint)"
JUDGED = ("new", "near_duplicate", "revisit")
STATUSES = (*JUDGED, "not_judged")
# The beginning of a line that is not a decision shows what kind of file it is.
_CHARACTERS_SHOWN = 80
_LINES_PER_STEP = 1_000
_GROUPS_SHOWN = 10
_HOST = re.compile(r"[A-Za-z][\w+.-]*://([^/?#]*)")


@dataclass(frozen=True)
class LogFilter:
    """Selects decisions; a field that is None accepts all."""

    status: str | None = None
    url: str | None = None  # text in the URL of the page or of its match
    distance: int | None = None
    crawl: str | None = None  # an id

    def accepts(self, decision: Decision) -> bool:
        """Whether a decision is wanted."""
        return (
            self.status in (None, decision.status)
            and self.distance in (None, decision.distance)
            and self.crawl in (None, decision.crawl)
            and (
                self.url is None
                or (url := mask_passwords(self.url)) in decision.url
                or url in (decision.match_url or "")
            )
        )


def find_log(config: Config, log_path: str | None) -> Path:
    """Find the named decision log, or that of the settings or store; it need not exist."""
    if log_path:
        return Path(log_path)
    if config.log is not None and config.log != DEFAULT_LOG:
        return Path(config.log)
    return find_default_log(config.store)


def find_crawl(path: Path, crawl: str | None) -> str | None:
    """Return the id of the crawl that an argument names; `last` is the newest one of the log."""
    if crawl != LAST_CRAWL:
        return crawl
    require_log(path)
    crawls = dict.fromkeys(decision.crawl for decision, _ in LogReader(path).read())
    for each in reversed(crawls):
        if not each.startswith(IMPORT_PREFIX):
            return each
    raise PartlyFailedError(
        f"the decision log {path} has no page of a crawl yet; --crawl all takes imports, too"
    )


def find_requested(config: Config, urls: Collection[str]) -> dict[str, str]:
    """Find in the log which addresses were asked for where redirects led from them to these."""
    path, wanted = find_log(config, None), {*map(mask_passwords, urls)}
    lines = read_log(path, LogFilter(), quiet=True) if wanted and path.is_file() else ()
    last = {each.url: each.requested_url for each, _ in lines if each.url in wanted}
    return {url: requested for url, requested in last.items() if requested}


def show_log(
    path: Path, wanted: LogFilter, *, last: int | None, summary: bool
) -> Iterator[dict[str, Any]]:
    """Read or summarise the wanted decisions of a log, whose crawl may be `last` or `all`."""
    require_log(path)
    named = LAST_CRAWL if summary and wanted.crawl is None else wanted.crawl
    crawl = None if named == ALL_CRAWLS else find_crawl(path, named)
    lines = read_log(path, replace(wanted, crawl=crawl), last=last)
    if summary:
        yield from summarise(decision for decision, _ in lines)
    else:
        yield from (json.loads(line) for _, line in lines)


def require_log(path: Path) -> None:
    """Raise an InspectionError if there is no log, a PartlyFailedError if it is empty."""
    if not path.exists():
        raise InspectionError(
            f"there is no decision log {path}: no crawl has written it, or SIMHASH_LOG is None; "
            "name another with --log"
        )
    if not path.stat().st_size and path.is_file():
        raise PartlyFailedError(f"the decision log {path} is empty: no page was judged yet")


def read_log(
    path: Path, wanted: LogFilter, *, last: int | None = None, quiet: bool = False
) -> Iterator[tuple[Decision, bytes]]:
    """Read the wanted decisions of a log, oldest first, each with its line."""
    # Lines that are not decisions, as a full disk or a power cut leaves them, are skipped; unless
    # `quiet`, standard error reports their number at the end.
    reader = LogReader(path, wanted)
    yield from reader.read() if last is None else deque(reader.read(), maxlen=last)
    if reader.damaged and not reader.sound:
        raise ValueError(f"{path}: {reader.first_damaged!r} is not a decision")
    if reader.damaged and not quiet:
        lines = "line was" if reader.damaged == 1 else "lines were"
        sys.stderr.write(f"{reader.damaged:,} damaged {lines} skipped in {printable(path)}\n")


class LogReader:
    """Reads the wanted decisions of a log, and counts its good and damaged lines."""

    def __init__(self, path: Path, wanted: LogFilter | None = None) -> None:
        self._path = path
        self._wanted = wanted or LogFilter()
        self.sound = self.damaged = 0
        self.first_damaged = ""

    def read(
        self, progress: Callable[[int, int], object] = lambda *_: None
    ) -> Iterator[tuple[Decision, bytes]]:
        """Read the wanted decisions, oldest first, each with its line.

        `progress` is called with the number of bytes read, and of all bytes.
        """
        done = 0
        with self._path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            for number, line in enumerate(file):
                if not line.endswith(b"\n"):  # its writer is not done
                    break
                done += len(line)
                if number % _LINES_PER_STEP == 0:
                    progress(done, max(size, done))
                decision = _parse(line)
                if decision is None:
                    self.first_damaged = self.first_damaged or _show_beginning(line)
                    self.damaged += 1
                    continue
                self.sound += 1
                if self._wanted.accepts(decision):
                    yield decision, line
        progress(done, done)


def _show_beginning(line: bytes) -> str:
    return line.decode("utf-8", "replace")[:_CHARACTERS_SHOWN]


_decode = msgspec.json.Decoder(Decision).decode


def _parse(line: bytes) -> Decision | None:
    """Read a decision, or return None if a line is none or has impossible values."""
    try:
        return _decode(line)
    except (ValueError, RecursionError):  # the errors of msgspec are ValueErrors, too
        pass
    try:  # an address may have half of a pair of surrogates, which msgspec refuses
        return msgspec.convert(json.loads(line), Decision)
    except (ValueError, RecursionError):
        return None


class Counts:
    """Counts decisions; `log --summary` and the report show them."""

    def __init__(self) -> None:
        self.crawls: dict[str, dict[str, Any]] = {}  # in the order of their beginning
        self.cut_off: dict[str, str] = {}  # what cut crawls off
        self.statuses: Counter[tuple[str, str]] = Counter()  # with their reasons
        self.actions: Counter[str] = Counter()  # on near-duplicates; "" for an import
        # How many links nobody followed, by crawl; the log lists the first ones.
        self._links: dict[str, int] = {}
        # By the URL of the original, "" for bulk-loaded fingerprints; a page counts once.
        self.groups: Counter[str] = Counter()
        # Hashes of page and original: the URLs would take several times the memory.
        self._grouped: set[int] = set()

    def add(self, decision: Decision) -> None:
        """Count a decision."""
        status, reason = decision.status, decision.reason
        if status == CUT_OFF:
            self.cut_off[decision.crawl] = reason
            return
        if status == NOT_FOLLOWED:
            before = self._links.get(decision.crawl, 0)
            self._links[decision.crawl] = max(decision.links, before)
            return
        self.statuses[status, reason] += 1
        if status != FORGOTTEN and reason not in LEFT_OUT:
            self._count_page(decision)
        if status == "near_duplicate":
            self.actions[decision.action] += 1
            original = decision.match_url or ""
            if (grouped := hash((decision.url, original))) not in self._grouped:
                self._grouped.add(grouped)
                self.groups[original] += 1

    def _count_page(self, decision: Decision) -> None:
        """Count a page that was judged, or should have been."""
        crawl = self.crawls.get(decision.crawl)
        if crawl is None:
            crawl = self.crawls[decision.crawl] = {
                "crawl": decision.crawl,
                "spider": decision.spider,
                "first_time": decision.time,
                "last_time": decision.time,
                **dict.fromkeys(("pages", *STATUSES), 0),
            }
        crawl["first_time"] = min(crawl["first_time"], decision.time)
        crawl["last_time"] = max(crawl["last_time"], decision.time)
        crawl["pages"] += 1
        if decision.status in STATUSES:
            crawl[decision.status] += 1

    def describe(self) -> dict[str, Any]:
        """Return the counts that summary and report share, ready for JSON."""
        pages, judged = (
            sum(crawl[name] for crawl in self.crawls.values() for name in names)
            for names in (("pages",), JUDGED)
        )
        return {
            "pages": pages,
            "not_judged": pages - judged,
            "statuses": {
                ("left_out" if reason in LEFT_OUT else status)
                + f" ({reason})" * bool(reason): number
                for (status, reason), number in self.statuses.most_common()
            },
        }

    def count_links(self) -> int:
        """Count the links that nobody followed."""
        return sum(self._links.values())


def find_host(url: str) -> str:
    """Return the host of a URL, with its port, or "" if it has none."""
    found = _HOST.match(url)
    return found[1].rpartition("@")[2].lower() if found else ""


def summarise(decisions: Iterable[Decision]) -> Iterator[dict[str, Any]]:
    """Yield counts and the ten pages with most near-duplicates; nothing if there are none."""
    counts = Counts()
    for decision in decisions:
        counts.add(decision)
    links = counts.count_links()
    if counts.statuses or links:
        limits = counts.cut_off
        yield {
            **counts.describe(),
            "crawls": [
                crawl | ({"cut_off": limits[name]} if name in limits else {})
                for name, crawl in counts.crawls.items()
            ],
            "actions": dict(counts.actions.most_common()),
            "largest_groups": {
                original or IMPORTED: pages
                for original, pages in counts.groups.most_common(_GROUPS_SHOWN)
            },
            "links_not_followed": links,
        }
