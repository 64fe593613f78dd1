"""A spider whose crawl is killed at the one moment after which Scrapy's job never ends.

In a module of its own: `crawlscript`, which loads it, must not be imported by its name there.
"""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from tests.helpers.crawling import PagesSpider


class KilledError(Exception):
    """Stands for `kill -9` where the process is to go on."""


class DyingSpider(PagesSpider):
    """Is killed while Scrapy removes the first empty queue of requests, before the last file."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        Path.unlink = dying_unlink(_die)  # type: ignore[method-assign]


def dying_unlink(die: Callable[[], Exception]) -> Callable[..., None]:
    """Make a `Path.unlink` that dies before it removes a queue's `info.json`.

    Args:
        die: does not return, or returns what is to be raised.
    """
    unlink = Path.unlink

    def unlink_or_die(path: Path, *, missing_ok: bool = False) -> None:
        if path.name == "info.json":
            raise die()
        unlink(path, missing_ok=missing_ok)

    return unlink_or_die


def _die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("lived on")
