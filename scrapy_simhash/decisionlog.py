"""The decision log: JSON Lines, one object a page, written by a thread of its own."""

from __future__ import annotations

import json
import logging
import logging.handlers
import os
import queue
import secrets
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

logger = logging.getLogger(__name__)

# Of the ids of crawls that were none, but an import of pages.
IMPORT_PREFIX = "import-"
_FILE_MODE = 0o600


def new_crawl(prefix: str = "") -> str:
    """Make the id of a crawl that begins now."""
    return f"{prefix}{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"


def new_decision(
    url: str, crawl: str, reason: str = "", body_bytes: int | None = None
) -> dict[str, Any]:
    """Make the decision of a page nobody has judged yet.

    Every decision has every key, in this order; it is what log, meta and signal carry.
    """
    return {
        "time": round(time.time(), 3),
        "url": url,
        "status": "unjudged",
        "reason": reason,
        "action": "",
        "match_url": None,
        "distance": None,
        "similarity": None,
        "tests": [],
        "new_links": None,
        "fingerprint": None,
        "features": 0,
        "words": 0,
        "links": 0,
        "body_bytes": body_bytes,
        "language": "",
        "scope": "",
        "extractor": "",
        "extract_ms": None,
        "fingerprint_ms": None,
        "store_ms": None,
        "crawl": crawl,
        "document": 0,
        "match_document": 0,
        "match_pending": False,
    }


class DecisionLog:
    """Appends decisions to a file; several processes may share it.

    Each line is one write to a file opened for appending, so lines of different processes do not
    mix and `tail -f` sees each soon. A write that fails is counted and warned of once; the
    crawl goes on.

    Args:
        path: of the file; its folder is made if need be.

    Raises:
        OSError: the file cannot be opened for writing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._handler = _AppendHandler(path)
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._listener = logging.handlers.QueueListener(self._queue, self._handler)
        self._listener.start()
        self._closed = False

    @property
    def lost(self) -> int:
        """Lines that could not be written."""
        return self._handler.lost

    def write(self, decision: dict[str, Any]) -> None:
        """Append a decision; returns at once."""
        # ASCII only: no line break, escape sequence or lone surrogate of a page gets through.
        line = json.dumps(decision, ensure_ascii=True, separators=(",", ":"))
        self._queue.put(logging.makeLogRecord({"msg": line}))

    def close(self) -> None:
        """Write what is left and close the file; blocks. Harmless when done twice."""
        if not self._closed:
            self._closed = True
            self._listener.stop()
            self._handler.close()


class _AppendHandler(logging.Handler):
    def __init__(self, path: Path) -> None:
        self.lost = 0
        # A line that a crash or a full disk cut is ended, so that it spoils no later one.
        self._ending = b"\n" if _ends_within_a_line(path) else b""
        self._path = path
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, _FILE_MODE)
        super().__init__()  # last: logging closes at exit what it knows of

    def emit(self, record: logging.LogRecord) -> None:
        line = self._ending + record.msg.encode("ascii") + b"\n"
        problem = ""
        try:
            written = os.write(self._file, line)
            if written < len(line):
                problem = f"{written} of {len(line)} bytes written"
                self._ending = b"\n"
            else:
                self._ending = b""
        except OSError as error:
            problem = str(error)
        if problem:
            if not self.lost:
                logger.warning("Decision log %s: %s; lines are missing", self._path, problem)
            self.lost += 1

    def close(self) -> None:
        if self._file >= 0:  # logging closes once more at exit
            os.close(self._file)
            self._file = -1
        super().close()


def _ends_within_a_line(path: Path) -> bool:
    if not path.is_file() or not path.stat().st_size:
        return False
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"
