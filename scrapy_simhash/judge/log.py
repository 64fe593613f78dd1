"""The decision log: JSON Lines, one object a page; written by crawls, read by commands."""

from __future__ import annotations

import json
import logging
import os
import secrets
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from scrapy_simhash._printable import mask_passwords, printable
from scrapy_simhash.errors import InspectionError, PartlyFailedError, StoreUnusableError
from scrapy_simhash.judging.documents import Decision
from scrapy_simhash.pages.addresses import bound_url

if TYPE_CHECKING:
    from collections.abc import Iterator


logger = logging.getLogger(__name__)

# Ids of imports, which count as crawls, begin with it.
IMPORT_PREFIX = "import-"
_FILE_MODE = 0o600


def new_crawl(prefix: str = "") -> str:
    """Make the id of a crawl that starts now."""
    return f"{prefix}{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"


# Actions that lose something of a page, so that its original must have come through.
LOSING = {"drop", "ignore-outlinks"}
FOLLOW = "follow"  # a drop of the items only: the links are followed
DROPPING = {"drop", FOLLOW}
PASS = "pass"  # noqa: S105 - a near-duplicate that is kept
NOT_FOLLOWED = "not_followed"  # the status of a link, in the log only
FORGOTTEN = "forgotten"  # the status of a page that is no original after all, in the log only


class CrawlLog:
    """Appends the decisions of one crawl to its log, if there is one; processes may share it.

    Args:
        path: of the log, or None.
        crawl: id of the crawl; "" while it has none.
        spider: its name.
        seed: of the store, for addresses that are too long.

    Attributes:
        lost: number of lines that could not be written.

    Raises:
        StoreUnusableError: the log cannot be written.
    """

    # Each line is one write to a file opened for appending, so lines of different processes do not
    # mix, and `tail -f` shows each at once. If a write fails, the line is counted as lost, with one
    # warning, and the crawl goes on.

    def __init__(
        self, path: str | None = None, crawl: str = "", spider: str = "", seed: int = 0
    ) -> None:
        self.path, self._crawl, self._spider, self._seed = path, crawl, spider, seed
        self.lost, self._file = 0, -1
        if path is None:
            return
        try:
            file = Path(path)
            file.parent.mkdir(parents=True, exist_ok=True)
            # A line cut by a crash or a full disk is ended, so that it spoils no later one.
            self._ending = b""
            if file.is_file() and file.stat().st_size:
                with file.open("rb") as there:
                    there.seek(-1, os.SEEK_END)
                    self._ending = b"\n" * (there.read(1) != b"\n")
            self._file = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, _FILE_MODE)
        except OSError as error:
            raise StoreUnusableError(
                f"decision log {path} cannot be written ({error}); set SIMHASH_LOG to another "
                "path, or to None"
            ) from error

    def pass_over(self, url: str, **fields: Any) -> Decision:
        """Make the line of a page that is not judged, with these fields of a decision."""
        fields = {"crawl": self._crawl, "spider": self._spider, "body_bytes": 0, **fields}
        fields.setdefault("status", "not_judged")
        return Decision(time=round(time.time(), 3), url=bound_url(url, self._seed), **fields)

    def write(self, decision: Decision | dict[str, Any]) -> None:
        """Write a line, once the action is known."""
        if self._file < 0:
            return
        data, problem = self._ending + make_line(decision) + b"\n", ""
        try:
            written = os.write(self._file, data)
            self._ending = b"\n" if written < len(data) else b""
            if self._ending:
                problem = f"{written} of {len(data)} bytes written"
        except OSError as error:
            problem = str(error)
        if problem:
            if not self.lost:
                logger.warning("Decision log %s: %s; lines are missing", self.path, problem)
            self.lost += 1

    def close(self) -> None:
        """Close the file; harmless if closed twice."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def make_line(decision: Decision | dict[str, Any]) -> bytes:
    """Make the line of a decision, or of what one was; without its end."""
    # ASCII only: no line break, escape sequence or lone surrogate of a page gets through. People
    # send logs to each other, so there are no passwords in it, either.
    with suppress(UnicodeEncodeError):  # a lone surrogate
        line = msgspec.json.encode(decision)
        if line.isascii() and b"\x7f" not in line and b"@" not in line:
            return line
    plain = msgspec.to_builtins(decision)
    return mask_passwords(json.dumps(plain, ensure_ascii=True, separators=(",", ":"))).encode()


LAST_CRAWL, ALL_CRAWLS = "last", "all"
STATUSES = ("new", "near_duplicate", "revisit", "not_judged", FORGOTTEN, NOT_FOLLOWED)
# The beginning of a line that is not a decision shows what kind of file it is.
_CHARACTERS_SHOWN = 80


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
) -> Iterator[tuple[Decision, bytes]]:
    """Read the decisions of a log, or of one of its crawls, oldest first, each with its line.

    Lines that are not decisions, as a full disk or a power cut leaves them, are skipped; a log that
    is not there has none.

    Args:
        path: of the log.
        crawl: id of the crawl; None for all.
        damaged: gets the beginnings of these lines; None: standard error reports their number.

    Raises:
        ValueError: no line of the file is a decision.
    """
    found = [] if damaged is None else damaged
    sound = 0
    if not path.exists():
        return
    with path.open("rb") as file:
        for line in file:
            if not line.endswith(b"\n"):  # its writer is not done
                break
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
