"""Reads decision logs: filter, follow, summarise."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter, deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from scrapy_simhash.config import DEFAULT_LOG, LOG_IN_STORE
from scrapy_simhash.inspection import InspectionError, PartlyFailedError
from scrapy_simhash.store_urls import store_folder
from scrapy_simhash.untrusted import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy_simhash.config import Config

LAST_CRAWL = "last"
_IMPORTED = "(an imported fingerprint)"
_STATUSES = ("new", "near_duplicate", "revisit", "unjudged")
# How often `--follow` looks for new lines; a reader's patience, not the crawl's.
_FOLLOW_SECONDS = 0.2


@dataclass(frozen=True)
class LogFilter:
    """Which decisions to read; None lets all pass.

    Attributes:
        status: exactly this one.
        url: text in the page's URL or in that of its match.
        distance: bits, exactly.
        crawl: id of the crawl.
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
    """Find the decision log: the one named, or that of the settings, or the store's."""
    if log_path:
        return Path(log_path)
    if config.log is not None and config.log != DEFAULT_LOG:
        return Path(config.log)
    return store_folder(config.store) / LOG_IN_STORE


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
        ValueError: a line is no decision; or both `follow` and `summary`.
    """
    if follow and summary:
        raise ValueError("--follow never ends, so --summary has to do without it")
    path = find_log(config, log_path)
    if follow and not path.exists():
        sys.stderr.write(f"waiting for the decision log {printable(path)}\n")
        while not path.exists():
            time.sleep(_FOLLOW_SECONDS)
    if not path.exists():
        raise InspectionError(
            f"there is no decision log {path}: no crawl wrote one yet, or SIMHASH_LOG is None; "
            "name another with --log"
        )
    if not path.stat().st_size and path.is_file() and not follow:
        raise PartlyFailedError(f"the decision log {path} is empty: no page was judged yet")
    if crawl == LAST_CRAWL:
        crawl = _find_last_crawl(path)
    wanted = LogFilter(status, url, distance, crawl)
    decisions = read_log(path, wanted, last=last, follow=follow)
    yield from summarise(decisions, top) if summary else decisions


def _find_last_crawl(path: Path) -> str:
    newest = deque(read_log(path, LogFilter()), maxlen=1)
    return str(newest[0].get("crawl")) if newest else ""


def read_log(
    path: Path, wanted: LogFilter, *, last: int | None = None, follow: bool = False
) -> Iterator[dict[str, Any]]:
    """Read the wanted decisions of a log, oldest first.

    Args:
        path: of the log.
        wanted: which decisions.
        last: only so many, from the end.
        follow: go on for ever, as `tail -f` does.

    Raises:
        OSError: the file cannot be read.
        ValueError: a line is no decision; shows the line.
    """
    with path.open(encoding="ascii", errors="replace") as file:

        def decisions(*, waiting: bool) -> Iterator[dict[str, Any]]:
            for line in _read_lines(file, waiting=waiting):
                decision = _parse(path, line)
                if wanted.accepts(decision):
                    yield decision

        written = decisions(waiting=False)
        yield from written if last is None else deque(written, maxlen=last)
        if follow:
            yield from decisions(waiting=True)


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


def _parse(path: Path, line: str) -> dict[str, Any]:
    try:
        decision: dict[str, Any] = json.loads(line)
    except ValueError as error:
        raise ValueError(f"{path}: {line[:80]!r} is no decision: {error}") from None
    known = isinstance(decision, dict) and {"url", "status"} <= decision.keys()
    if not known or not isinstance(decision.get("time", 0), int | float):
        raise ValueError(f"{path}: {line[:80]!r} is no decision")
    return decision


def summarise(decisions: Iterable[dict[str, Any]], top: int = 10) -> Iterator[dict[str, Any]]:
    """Count decisions, crawl by crawl and together, and name the pages that caused most drops.

    Args:
        decisions: as `read_log` yields them.
        top: how many of these pages.

    Yields:
        Nothing where there are no decisions, otherwise one object: `pages`, how many decisions;
        `crawls`, each with its id, times, pages and statuses; `statuses` with their reasons;
        `distances` of near-duplicates in bits; `largest_groups`: for which pages most were
        dropped. A URL that was dropped in several crawls counts once in these.
    """
    crawls: dict[str, dict[str, Any]] = {}
    statuses: Counter[str] = Counter()
    distances: Counter[int] = Counter()
    dropped: dict[str, set[str]] = {}
    for decision in decisions:
        _count(crawls, decision)
        reason = f" ({decision['reason']})" if decision.get("reason") else ""
        statuses[f"{decision['status']}{reason}"] += 1
        if decision["status"] == "near_duplicate":
            distances[int(decision["distance"])] += 1
            original = decision["match_url"]
            dropped.setdefault(_IMPORTED if original is None else str(original), set()).add(
                str(decision["url"])
            )
    groups = Counter({original: len(urls) for original, urls in dropped.items()})
    if crawls:
        yield {
            "pages": statuses.total(),
            "crawls": list(crawls.values()),
            "statuses": dict(statuses.most_common()),
            "distances": {str(bits): distances[bits] for bits in sorted(distances)},
            "largest_groups": dict(groups.most_common(top)),
        }


def _count(crawls: dict[str, dict[str, Any]], decision: dict[str, Any]) -> None:
    name, seconds = str(decision.get("crawl", "")), decision.get("time", 0)
    crawl = crawls.setdefault(
        name, {"crawl": name, "first_time": seconds, "pages": 0, **dict.fromkeys(_STATUSES, 0)}
    )
    crawl["last_time"] = seconds
    crawl["pages"] += 1
    crawl[decision["status"]] = crawl.get(decision["status"], 0) + 1
