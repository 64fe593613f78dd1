"""The `scrapy` command that this process runs, if it runs one.

Scrapy tells components nothing of it, and removes its name from `sys.argv`; so its frames are
looked for among those that lead to the caller.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from typing import TYPE_CHECKING, Any

from scrapy.commands import ScrapyCommand

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from scrapy_simhash.errors import SettingError

logger = logging.getLogger(__name__)

# Commands that fetch single pages for a look; a later crawl must not count these pages as seen.
_LOOKING_COMMANDS = {
    f"scrapy.commands.{name}" for name in ("shell", "fetch", "view", "parse", "check")
}


def is_looking() -> bool:
    """Whether this runs under `scrapy shell`, `fetch`, `view`, `parse` or `check`."""
    return any(frame.f_globals.get("__name__") in _LOOKING_COMMANDS for frame in _list_frames())


def fail_command() -> None:
    """Have the command end with exit code 1; nothing happens if a script runs the crawl."""
    # Scrapy itself does that only for crawls that raise before they begin.
    for frame in _list_frames():
        command = frame.f_locals.get("self") if frame.f_code.co_name == "run" else None
        if isinstance(command, ScrapyCommand):
            command.exitcode = 1


def tell_bad_setting(error: SettingError) -> None:
    """Log in one line what keeps a crawl from beginning; scripts get the exception, too."""
    # Nobody asks the task of a process of Scrapy's for its exception, of which asyncio then logs
    # three lines, the error in the last of them.
    try:
        task = asyncio.current_task()
    except RuntimeError:  # another reactor
        return
    name = getattr(task.get_coro(), "__qualname__", "") if task is not None else ""
    if task is not None and name == "AsyncCrawlerRunner._crawl_and_track":
        logger.error("The crawl does not begin: %s", error)
        task.add_done_callback(_take_exception)


def _take_exception(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()


def _list_frames() -> Iterator[FrameType]:
    frame = inspect.currentframe()
    while frame is not None:
        yield frame
        frame = frame.f_back
