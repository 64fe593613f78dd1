"""Reads decision logs: filter, follow, summarise."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter, deque
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import msgspec

from scrapy_simhash.config import DEFAULT_LOG
from scrapy_simhash.inspection import InspectionError, PartlyFailedError
from scrapy_simhash.paths import find_default_log
from scrapy_simhash.report_input import Decision
from scrapy_simhash.untrusted import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy_simhash.config import Config

LAST_CRAWL = "last"
_IMPORTED = "(an imported fingerprint)"
_STATUSES = ("new", "near_duplicate", "revisit", "unjudged")
# How often `--follow` looks for new lines; a reader's patience, not the crawl's.
_FOLLOW_SECONDS = 0.2
# What of a line that is no decision shows what kind of file it is.
_CHARACTERS_SHOWN = 80


@dataclass(frozen=True)
class LogFilter:
    """Which decisions to read; None lets all pass.

    Attributes:
        status: exactly this one.
        url: text in the page's URL or in that of its match.
        distance: bits, exactly.
        crawl: id of the crawl; `last` for the one that began last.
    """

    status: str | None = None
    url: str | None = None
    distance: int | None = None
    crawl: str | None = None

    def accepts(self, decision: dict[str, Any]) -> bool:
        """Say whether a decision is wanted."""
        return (
            self.status in (None, decision.get("status"))
            and self.distance in (None, decision.get("distance"))
            and self.crawl in (None, decision.get("crawl"))
            and (
                self.url is None
                or self.url in str(decision.get("url"))
                or self.url in str(decision.get("match_url"))
            )
        )


def find_log(config: Config, log_path: str | None) -> Path:
    """Find the decision log: the one named, or that of the settings, or the store's.

    It need not be there.
    """
    if log_path:
        return Path(log_path)
    if config.log is not None and config.log != DEFAULT_LOG:
        return Path(config.log)
    return find_default_log(config.store)


def find_crawl(config: Config, crawl: str | None) -> str | None:
    """Get the id of the crawl that an argument names: `last` is the newest one of the log.

    Raises:
        InspectionError: there is no log.
        PartlyFailedError: no page was judged yet.
    """
    if crawl != LAST_CRAWL:
        return crawl
    path = find_log(config, None)
    _require(path)
    if not (crawls := _list_crawls(path)):
        raise PartlyFailedError(f"the decision log {path} has no whole line yet")
    return crawls[-1]


def show_log(  # noqa: PLR0913 - the arguments of the command
    config: Config,
    *,
    log_path: str | None,
    status: str | None,
    url: str | None,
    distance: int | None,
    crawl: str | None,
    last: int | None,
    follow: bool,
    summary: bool,
    top: int,
) -> Iterator[dict[str, Any]]:
    """Read, follow or summarise the decision log: `scrapy simhash log`.

    Raises:
        InspectionError: there is no log.
        PartlyFailedError: the log is empty.
        ValueError: no line is a decision; or both `follow` and `summary`.
    """
    if follow and summary:
        raise ValueError("--follow never ends, so --summary has to do without it")
    path = find_log(config, log_path)
    if follow and not path.exists():
        sys.stderr.write(f"waiting for the decision log {printable(path)}\n")
        while not path.exists():
            time.sleep(_FOLLOW_SECONDS)
    if not follow:
        _require(path)
    wanted = LogFilter(status, url, distance, crawl)
    decisions = read_log(path, wanted, last=last, follow=follow)
    yield from summarise(decisions, top) if summary else decisions


def _require(path: Path) -> None:
    if not path.exists():
        raise InspectionError(
            f"there is no decision log {path}: no crawl wrote one yet, or SIMHASH_LOG is None; "
            "name another with --log"
        )
    if not path.stat().st_size and path.is_file():
        raise PartlyFailedError(f"the decision log {path} is empty: no page was judged yet")


def _list_crawls(path: Path) -> list[str]:
    """List the crawls of a log in the order in which they began."""
    decisions = read_log(path, LogFilter(), quiet=True)
    return list(dict.fromkeys(_name_crawl(decision) for decision in decisions))


def _name_crawl(decision: dict[str, Any]) -> str:
    return str(decision.get("crawl", ""))


def read_log(
    path: Path,
    wanted: LogFilter,
    *,
    last: int | None = None,
    follow: bool = False,
    quiet: bool = False,
) -> Iterator[dict[str, Any]]:
    """Read the wanted decisions of a log, oldest first.

    Lines that are no decisions, as a full disk or a power cut leaves them, are passed over; how
    many stands on standard error in the end.

    Args:
        path: of the log.
        wanted: which decisions.
        last: only so many, from the end.
        follow: go on for ever, as `tail -f` does; a crawl that begins is the last one then.
        quiet: say nothing of damaged lines, because somebody else does.

    Raises:
        OSError: the file cannot be read.
        ValueError: no line is a decision; shows the first.
    """
    reading = _Reading(wanted, _list_crawls(path) if wanted.crawl == LAST_CRAWL else [])
    try:
        with path.open(encoding="ascii", errors="replace") as file:
            written = reading.choose(_read_lines(file, waiting=False))
            yield from written if last is None else deque(written, maxlen=last)
            if reading.damaged and not reading.sound:
                raise ValueError(f"{path}: {reading.first_damaged!r} is no decision")
            if follow:
                yield from reading.choose(_read_lines(file, waiting=True))
    finally:
        if reading.damaged and reading.sound and not quiet:
            lines = "line was" if reading.damaged == 1 else "lines were"
            sys.stderr.write(
                f"{reading.damaged:,} damaged {lines} passed over in {printable(path)}\n"
            )


class _Reading:
    """Chooses decisions, and counts lines.

    Args:
        wanted: which decisions.
        crawls: those of the log, the last one last, where `wanted` asks for that.

    Attributes:
        sound: lines that are decisions.
        damaged: lines that are none.
        first_damaged: how the first of them begins.
    """

    def __init__(self, wanted: LogFilter, crawls: Iterable[str]) -> None:
        self._wanted = wanted
        self._crawls = dict.fromkeys(crawls)
        self.sound = 0
        self.damaged = 0
        self.first_damaged = ""

    def choose(self, lines: Iterable[str]) -> Iterator[dict[str, Any]]:
        """Parse lines, and give on the decisions that are wanted."""
        for line in lines:
            decision = _parse(line)
            if decision is None:
                self.first_damaged = self.first_damaged or line[:_CHARACTERS_SHOWN]
                self.damaged += 1
                continue
            self.sound += 1
            if self._accepts(decision):
                yield decision

    def _accepts(self, decision: dict[str, Any]) -> bool:
        if self._wanted.crawl != LAST_CRAWL:
            return self._wanted.accepts(decision)
        self._crawls.setdefault(_name_crawl(decision))
        newest = next(reversed(self._crawls))
        return replace(self._wanted, crawl=newest).accepts(decision)


def _read_lines(file: TextIO, *, waiting: bool) -> Iterator[str]:
    """Read whole lines; at the end stop, or wait for more."""
    while True:
        line = file.readline()
        if line.endswith("\n"):
            yield line
            continue
        file.seek(file.tell() - len(line))  # half a line: its writer is not done
        if not waiting:
            return
        time.sleep(_FOLLOW_SECONDS)


def _parse(line: str) -> dict[str, Any] | None:
    """Read a decision; None where the line is none, or has values that none has."""
    try:
        decision: dict[str, Any] = json.loads(line)
        msgspec.convert(decision, Decision)
    except (ValueError, RecursionError):  # what msgspec raises is a ValueError, too
        return None
    return decision


def summarise(decisions: Iterable[dict[str, Any]], top: int = 10) -> Iterator[dict[str, Any]]:
    """Count decisions, crawl by crawl and together; name the pages with most near-duplicates.

    Args:
        decisions: as `read_log` yields them.
        top: how many of these pages.

    Yields:
        Nothing where there are no decisions, otherwise one object: `pages`, how many decisions;
        `crawls`, each with its id, times, pages and statuses; `statuses` with their reasons;
        `actions`: what was done with near-duplicates ("" for those of an import); their
        `distances` in bits; `largest_groups`: of which pages most are near-duplicates. A URL that
        was one in several crawls counts once in these.
    """
    crawls: dict[str, dict[str, Any]] = {}
    statuses: Counter[str] = Counter()
    actions: Counter[str] = Counter()
    distances: Counter[int] = Counter()
    near: dict[str, set[str]] = {}
    for decision in decisions:
        _count(crawls, decision)
        reason = f" ({decision['reason']})" if decision.get("reason") else ""
        statuses[f"{decision['status']}{reason}"] += 1
        if decision["status"] == "near_duplicate":
            actions[decision.get("action", "")] += 1
            if (bits := decision.get("distance")) is not None:
                distances[bits] += 1
            near.setdefault(decision.get("match_url") or _IMPORTED, set()).add(decision["url"])
    groups = Counter({original: len(urls) for original, urls in near.items()})
    if crawls:
        yield {
            "pages": statuses.total(),
            "crawls": list(crawls.values()),
            "statuses": dict(statuses.most_common()),
            "actions": dict(actions.most_common()),
            "distances": {str(bits): distances[bits] for bits in sorted(distances)},
            "largest_groups": dict(groups.most_common(top)),
        }


def _count(crawls: dict[str, dict[str, Any]], decision: dict[str, Any]) -> None:
    name, seconds = _name_crawl(decision), decision.get("time", 0)
    crawl = crawls.setdefault(
        name, {"crawl": name, "first_time": seconds, "pages": 0, **dict.fromkeys(_STATUSES, 0)}
    )
    crawl["last_time"] = seconds
    crawl["pages"] += 1
    if decision["status"] in _STATUSES:
        crawl[decision["status"]] += 1
