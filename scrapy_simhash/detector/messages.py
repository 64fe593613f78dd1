"""What a crawl and its judge say to each other: MessagePack, one message a frame.

::

    to the judge        Open, Begin (the crawl has the lease), then in any order Asked, Noted, Line,
                        Question, Forget; Close is the last one
    from the judge      Opened, Begun, or Failed; then Decided for each Asked, Answered for each
                        Question, Settled, Told; Closed is the last one
"""

from __future__ import annotations

import logging
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from scrapy_simhash import errors
from scrapy_simhash._printable import describe_error, plural
from scrapy_simhash.config import Config  # noqa: TC001 - msgspec reads it
from scrapy_simhash.detector.log import Decision  # noqa: TC001 - msgspec reads it
from scrapy_simhash.detector.worker import ReadPage  # noqa: TC001 - msgspec reads it
from scrapy_simhash.errors import StoreError, StoreUnusableError
from scrapy_simhash.judging.documents import Marked  # noqa: TC001 - msgspec reads it
from scrapy_simhash.pages.facts import Page  # noqa: TC001 - msgspec reads it
from scrapy_simhash.pages.recipe import Recipe  # noqa: TC001 - msgspec reads it

logger = logging.getLogger(__name__)


class Mark(NamedTuple):
    """What became of a document, or of a request: one of these."""

    done: Marked = 0  # its items came through
    withdrawn: Marked = 0  # they did not
    lost: int = 0  # a dropped page, whose original has changed since
    found: bytes = b""  # key of a lost page that came through, or is gone
    packed: tuple[bytes, bytes] | None = None  # key of a lost page, and how to request it now

    @property
    def about_lost(self) -> bool:
        """Whether it is about pages that are lost, or may be."""
        return bool(self.lost or self.found or self.packed)


def warn_of_pending(marks: list[Mark], error: object) -> None:
    """Warn of marks that will not be written."""
    if marks:
        logger.warning(
            "%s pending, to be fetched and judged again: %s",
            f"{plural(len(marks), 'document')} stay{'s' * (len(marks) == 1)}",
            error,
        )


class _Message(msgspec.Struct, array_like=True, tag=True, frozen=True):
    pass


class Open(_Message, frozen=True):
    """Open the store and the log."""

    config: Config
    recipe: Recipe
    log: str | None  # its path
    crawl: str
    spider: str
    leased: bool  # the judge has a process of its own, and the crawl takes the lease
    seed: int | None = None  # of the store, in place of a judge that died; the store is there then


class Begin(_Message, frozen=True):
    """Begin the crawl, or go on with it."""


class Asked(_Message, frozen=True):
    """Judge a page."""

    number: int
    page: Page  # without its body
    decision: Decision  # as far as it is known
    read: ReadPage
    more: bool = False  # others are on their way
    sent: float = 0.0  # `time.monotonic`, one clock for all processes


class Noted(_Message, frozen=True):
    """Write down what became of something, in the commit of a later group."""

    number: int
    mark: Mark


class Line(_Message, frozen=True):
    """Append a line to the log."""

    number: int
    line: bytes


QuestionName: TypeAlias = Literal[
    "find_due", "take_lost", "count_left", "describe_doubts", "settle"
]


class Question(_Message, frozen=True):
    """Answer a question once earlier marks are written; `settle` asks whether they are."""

    number: int
    name: QuestionName
    keys: list[bytes] = []


class Forget(_Message, frozen=True):
    """Do not judge a page: nobody waits for it any more."""

    number: int


class Close(_Message, frozen=True):
    """Write what is left, and end."""


class Opened(_Message, frozen=True):
    """The store is open."""

    seed: int
    distance: int


class Begun(_Message, frozen=True):
    """The crawl has begun."""

    lost: int  # number of pages that may be lost


class Failed(_Message, frozen=True):
    """The store or the log cannot be used."""

    kind: str
    text: str


class Decided(_Message, frozen=True):
    """A page was judged, and that is on disk; or why it was not."""

    number: int
    decision: Decision | None
    reason: str = ""
    detail: str = ""


class Answered(_Message, frozen=True):
    """The answer to a question, in MessagePack; or else why there is none."""

    number: int
    value: bytes
    error: str = ""


class Settled(_Message, frozen=True):
    """All marks and lines up to these numbers were dealt with."""

    mark: int
    line: int
    lost_lines: int  # that this judge could not write so far


class Told(_Message, frozen=True):
    """Something for the crawl's own log."""

    logger: str
    level: int
    text: str


class Closed(_Message, frozen=True):
    """All is written, and the store is closed."""


ToJudge: TypeAlias = Open | Begin | Asked | Noted | Line | Question | Forget | Close
FromJudge: TypeAlias = Opened | Begun | Failed | Decided | Answered | Settled | Told | Closed
pack = msgspec.msgpack.Encoder().encode
unpack_to_judge = msgspec.msgpack.Decoder(ToJudge).decode
unpack_from_judge = msgspec.msgpack.Decoder(FromJudge).decode


def describe_failure(error: Exception) -> Failed:
    """Describe an error, for `make_error`."""
    kind = type(error).__name__
    return Failed(kind, str(error) if kind == "ValueError" else explain(error))


def explain(error: Exception) -> str:
    """Return the message of a store's error; of any other one also the last calls."""
    return str(error) if isinstance(error, StoreError) else describe_error(error)


def make_error(failed: Failed) -> Exception:
    """Make the error that the judge met."""
    kind = getattr(errors, failed.kind, None)
    if isinstance(kind, type) and issubclass(kind, StoreUnusableError):
        return kind(failed.text)
    if isinstance(kind, type) and issubclass(kind, StoreError):
        return StoreError(failed.text)
    return (ValueError if failed.kind == "ValueError" else RuntimeError)(failed.text)
