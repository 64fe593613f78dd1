"""Read decision logs."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from scrapy_simhash._printable import mask_passwords, printable
from scrapy_simhash.crawl.running import find_log
from scrapy_simhash.errors import InspectionError, PartlyFailedError
from scrapy_simhash.judge.log import IMPORT_PREFIX, Decision

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

    from scrapy_simhash.config import Config

LAST_CRAWL, ALL_CRAWLS = "last", "all"
STATUSES = ("new", "near_duplicate", "revisit", "not_judged")
# The beginning of a line that is not a decision shows what kind of file it is.
_CHARACTERS_SHOWN = 80
_LINES_PER_STEP = 1_000


def find_crawl(path: Path, crawl: str | None) -> str | None:
    """Return the id of the crawl that an argument names; `last` is the newest one of the log."""
    if crawl != LAST_CRAWL:
        return crawl
    require_log(path)
    crawls = dict.fromkeys(decision.crawl for decision, _ in read_log(path, damaged=[]))
    for each in reversed(crawls):
        if not each.startswith(IMPORT_PREFIX):
            return each
    raise PartlyFailedError(
        f"the decision log {path} has no page of a crawl yet; --crawl all takes imports, too"
    )


def find_requested(config: Config, urls: Collection[str]) -> dict[str, str]:
    """Find in the log which addresses were asked for where redirects led from them to these."""
    path, wanted = find_log(config), {*map(mask_passwords, urls)}
    lines = read_log(path, damaged=[]) if wanted else ()
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
    path: Path,
    crawl: str | None = None,
    *,
    damaged: list[str] | None = None,
    progress: Callable[[int, int], object] = lambda *_: None,
) -> Iterator[tuple[Decision, bytes]]:
    """Read the decisions of a log, or of one of its crawls, oldest first, each with its line.

    Lines that are not decisions, as a full disk or a power cut leaves them, are skipped; a log that
    is not there has none.

    Args:
        path: of the log.
        crawl: id of the crawl; None for all.
        damaged: gets the beginnings of these lines; None: standard error reports their number.
        progress: called with the number of bytes read, and of all bytes.

    Raises:
        ValueError: no line of the file is a decision.
    """
    found = [] if damaged is None else damaged
    sound = done = 0
    if not path.exists():
        return
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        for number, line in enumerate(file):
            if not line.endswith(b"\n"):  # its writer is not done
                break
            done += len(line)
            if number % _LINES_PER_STEP == 0:
                progress(done, max(size, done))
            decision = _parse(line)
            if decision is None:
                found.append(line.decode("utf-8", "replace")[:_CHARACTERS_SHOWN])
                continue
            sound += 1
            if crawl in {None, decision.crawl}:
                yield decision, line
    if found and not sound:
        raise ValueError(f"{path}: {found[0]!r} is not a decision")
    if found and damaged is None:
        lines = "line was" if len(found) == 1 else "lines were"
        sys.stderr.write(f"{len(found):,} damaged {lines} skipped in {printable(path)}\n")


# An address may have half of a pair of surrogates, which the first one refuses.
_DECODERS = (
    msgspec.json.Decoder(Decision).decode,
    lambda line: msgspec.convert(json.loads(line), Decision),
)


def _parse(line: bytes) -> Decision | None:
    """Read a decision, or return None if a line is none or has impossible values."""
    for decode in _DECODERS:
        with suppress(ValueError, RecursionError):  # the errors of msgspec are ValueErrors, too
            return decode(line)
    return None
