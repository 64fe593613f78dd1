"""The errors that users of the package may meet; each message names the cure.

`NearDuplicate`, which a spider gets, is not an error: see `spidermiddlewares`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType


class StoreError(Exception):
    """A store cannot do what it was asked to do."""


class StoreUnusableError(StoreError):
    """The store cannot be opened, or not so, and is unchanged. The message names the cure."""


class StoreUnavailableError(StoreError):
    """A read or a write failed, and nothing was changed; the next one may succeed."""


class DamagedError(StoreError):
    """A record cannot be read; `what` says which one and why, the message names the cure."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}; restore the store from a backup (`scrapy simhash check` lists all damage)"
        )
        self.what = what


class ArchiveError(StoreError):
    """A file is not an archive, or is damaged; the message says which file, and where."""


class SettingError(ValueError):
    """A setting has an invalid value; the message names setting, value and range."""

    # Scrapy's log prints what ended a crawl with all frames, seventy lines that say nothing about a
    # setting. Whoever catches the error still finds them by `sys.exc_info`.
    @property
    def __traceback__(self) -> TracebackType | None:
        """Hide the frames from those who print the error."""
        return None

    @__traceback__.setter
    def __traceback__(self, frames: TracebackType | None) -> None:
        BaseException.with_traceback(self, frames)


class InspectionError(Exception):
    """A command cannot answer what it was asked, or read a source; the message says why."""


class PartlyFailedError(Exception):
    """A command found nothing, or did only part of its work; the message says what is missing."""


class NotJudgedError(Exception):
    """A page cannot be judged; it goes to the spider unchanged.

    Args:
        reason: a word for stats and log: `binary`, `bad_encoding`, `no_text`, ...
        detail: details for the log.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason, detail)  # both, so that it pickles
        self.reason = reason
        self.detail = detail
