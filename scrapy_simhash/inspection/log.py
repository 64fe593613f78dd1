"""Read decision logs."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from scrapy_simhash._printable import mask_passwords, printable
from scrapy_simhash.config import DEFAULT_LOG, Config
from scrapy_simhash.crawl.running import find_default_log
from scrapy_simhash.errors import InspectionError, PartlyFailedError
from scrapy_simhash.judge.log import IMPORT_PREFIX, Decision

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

LAST_CRAWL, ALL_CRAWLS = "last", "all"
JUDGED = ("new", "near_duplicate", "revisit")
STATUSES = (*JUDGED, "not_judged")
# The beginning of a line that is not a decision shows what kind of file it is.
_CHARACTERS_SHOWN = 80
_LINES_PER_STEP = 1_000


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
    lines = read_log(path, quiet=True) if wanted and path.is_file() else ()
    last = {each.url: each.requested_url for each, _ in lines if each.url in wanted}
    return {url: requested for url, requested in last.items() if requested}


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
    path: Path, crawl: str | None = None, *, quiet: bool = False
) -> Iterator[tuple[Decision, bytes]]:
    """Read the decisions of a log, or of one of its crawls, oldest first, each with its line."""
    # Lines that are not decisions, as a full disk or a power cut leaves them, are skipped; unless
    # `quiet`, standard error reports their number at the end.
    reader = LogReader(path, crawl)
    yield from reader.read()
    if reader.damaged and not reader.sound:
        raise ValueError(f"{path}: {reader.first_damaged!r} is not a decision")
    if reader.damaged and not quiet:
        lines = "line was" if reader.damaged == 1 else "lines were"
        sys.stderr.write(f"{reader.damaged:,} damaged {lines} skipped in {printable(path)}\n")


class LogReader:
    """Reads the decisions of a log, or of a crawl, and counts its good and damaged lines."""

    def __init__(self, path: Path, crawl: str | None = None) -> None:
        self._path, self._crawl = path, crawl
        self.sound = self.damaged = 0
        self.first_damaged = ""

    def read(
        self, progress: Callable[[int, int], object] = lambda *_: None
    ) -> Iterator[tuple[Decision, bytes]]:
        """Read the decisions, oldest first, each with its line.

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
                    shown = line.decode("utf-8", "replace")[:_CHARACTERS_SHOWN]
                    self.first_damaged = self.first_damaged or shown
                    self.damaged += 1
                    continue
                self.sound += 1
                if self._crawl in {None, decision.crawl}:
                    yield decision, line
        progress(done, done)


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
