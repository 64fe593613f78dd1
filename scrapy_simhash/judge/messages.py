"""What a crawl and a judge of it say to each other: MessagePack, one message a frame.

::

    to the judge        Open; then in any order Ask, Again, Settled, Gone, EndWaits; Close is the
                        last one
    from the judge      Opened or Failed; then Said for each Ask, before it perhaps Waits;
                        Refetch and Told at any time; Closed is the last one

Which page a judge is at stands in memory that both share: one that hangs in native code runs no
Python any more, so nothing in its process can bound its time. The crawl looks there, and kills it.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from typing import IO, Literal, TypeAlias

import msgspec

from scrapy_simhash.config import Config  # noqa: TC001 - msgspec reads it
from scrapy_simhash.judging.documents import Decision  # noqa: TC001 - msgspec reads it
from scrapy_simhash.pages.facts import (  # noqa: TC001 - msgspec reads them
    Fetched,
    PageFingerprint,
    Reader,
    Share,
)

# A judge exits with it if its page took too much memory. Above the codes of Python and the shell,
# below those of signals.
OUT_OF_MEMORY_EXIT_CODE = 97


class _Message(msgspec.Struct, array_like=True, tag=True, frozen=True):
    """What all messages have in common."""


class Open(_Message, frozen=True):
    """Open the store; the first message."""

    config: Config
    crawl: str = ""  # its id
    spider: str = ""  # its name
    seed: int | None = None  # of the store, for a judge in place of one that died


class Ask(_Message, frozen=True):
    """Judge a page, or read it."""

    number: int  # of the page in the crawl; no other has it
    page: Fetched
    body: bytes
    action: str = "flag"  # what happens to it if it is a near-duplicate
    young: bool = False  # the crawl will tell what becomes of it: an original perhaps, and may wait
    wanted: str = "verdict"  # or its "fingerprint", or a text to hand over, by its reader


# What became of a young page: its callback ended, and its items came through; they did not, or will
# not; or pipelines drop all items of its callback: it counts, but is not written yet.
Outcome: TypeAlias = Literal["done", "failed", "unwanted"]


class Settled(_Message, frozen=True):
    """What became of a young page, by its number in the crawl."""

    number: int
    outcome: Outcome


class Gone(_Message, frozen=True):
    """Forget the document of an identity: its address answered 404 or 410."""

    identity: bytes


class Again(_Message, frozen=True):
    """The second answer to the address of a page, see `Refetch`."""

    document: int  # number of the page's document
    page: Fetched | None = None  # None if it did not come, or proves nothing
    body: bytes = b""


class EndWaits(_Message, frozen=True):
    """Answer all pages that wait: the spider closes."""


class Close(_Message, frozen=True):
    """Write what is left, and end."""


class Opened(_Message, frozen=True):
    """The store is open; `readers` got what it has, `shares` is what their last crawls counted."""

    seed: int
    readers: tuple[Reader, ...]
    shares: tuple[Share, ...] = ()


class Failed(_Message, frozen=True):
    """The store cannot be used, or the judge failed; `unusable`, see `StoreUnusableError`."""

    text: str
    unusable: bool = False


class Said(_Message, frozen=True):
    """The answer on a page: its decision, fingerprint or text, as was wanted."""

    number: int
    decision: Decision | None = None
    young: bool = False  # the judge waits for what becomes of the page
    waited_seconds: float = 0.0  # for a young page, or a second answer
    fingerprint: PageFingerprint | None = None
    text: str = ""
    reason: str = ""  # why the page was not judged or read; "" if it was
    detail: str = ""  # more of that, for the crawl's own log


class Waits(_Message, frozen=True):
    """A page waits for what becomes of a young one, or for a second answer."""

    number: int


class Refetch(_Message, frozen=True):
    """A page is to be asked for once more, to see what changes there by itself."""

    number: int  # of the page whose request is the model; 0 for that of the last time
    document: int  # number of its document, or of a page that has none
    url: str  # its address
    pause_seconds: float = 0.0  # to be waited before


class Told(_Message, frozen=True):
    """Something for the crawl's own log."""

    logger: str
    level: int
    text: str


class LeftLink(_Message, frozen=True):
    """A link that only dropped pages had."""

    url: str
    page_url: str  # address of one of these pages
    original_url: str  # address of the page that this one was dropped for
    new_links: float  # share of this page's links that are new, from 0 to 1


class Closed(_Message, frozen=True):
    """The store is closed."""

    left: list[LeftLink] = []  # links that only dropped pages had
    beyond: int = 0  # how many more there were that are not remembered
    has_kept_links: bool = False  # whether pages that were kept had links
    unwritten: int = 0  # number of changes that could not be written


ToJudge: TypeAlias = Ask | Again | Settled | Gone | EndWaits | Close
FromJudge: TypeAlias = Opened | Failed | Said | Waits | Refetch | Told | Closed
pack = msgspec.msgpack.Encoder().encode
unpack_to_judge = msgspec.msgpack.Decoder(ToJudge).decode
unpack_from_judge = msgspec.msgpack.Decoder(FromJudge).decode


def make_status() -> IO[bytes]:
    """Make a file without a name for the status of a judge, see `map_status`."""
    if hasattr(os, "memfd_create"):
        file = os.fdopen(os.memfd_create("scrapy_simhash-status", os.MFD_CLOEXEC), "r+b")
    else:
        file = tempfile.TemporaryFile()  # noqa: SIM115 - for as long as the judge
    os.pwrite(file.fileno(), bytes(mmap.PAGESIZE), 0)  # so that no write to the memory fails
    return file


def map_status(file: int) -> memoryview[float]:
    """Map the status of a judge, in the memory that its crawl shares.

    It is the number of the page that the judge is at, or 0; since when (`time.monotonic`, one clock
    for all processes), with 0 as of the last second; and 1 while it asks the store.
    """
    # Memory, because a message for each page would wake the crawl's process each time.
    return memoryview(mmap.mmap(file, mmap.PAGESIZE)).cast("d")
