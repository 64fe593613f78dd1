"""What people see: text of pages, URLs and user code made safe; numbers; and progress."""

import re
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

# About the length of Scrapy's own lines; a URL may have megabytes.
MOST_LOGGED_CHARACTERS = 200
# A report has space for more, but not for everything.
MOST_SHOWN_CHARACTERS = 500
# Enough for an error and its last calls.
MOST_ERROR_CHARACTERS = 1_500
# A word may be as long as a page.
_MOST_WORDS, _MOST_CHARACTERS_OF_WORDS = 4, 80
# Persian, Hindi and emoji need them; they do not change the layout of a display.
JOINERS = "\u200c\u200d"
# Of a URL, up to the last @ before the path: a user may be a token, or have an escaped colon.
_USER = re.compile(r"([A-Za-z][\w+.-]*://)[^/?#\s\"]*@")


def mask_passwords(text: str) -> str:
    """Replace user and password in the URLs of a text by ***.

    >>> mask_passwords("http://me:secret@site.example/a@b")
    'http://***@site.example/a@b'
    """
    return _USER.sub(r"\1***@", text) if "@" in text else text


def printable(text: object) -> str:
    """Escape what controls a terminal or ends a line, and mask passwords in URLs."""
    return escape(mask_passwords(str(text)))


def escape(written: str, kept: str = "") -> str:
    """Escape characters that control a terminal or end a line, but for those that are `kept`.

    Pages and URLs may be hostile.
    """
    if written.isprintable():  # nearly always, and a report calls this a hundred thousand times
        return written
    return "".join(c if c.isprintable() or c in kept else repr(c)[1:-1] for c in written)


def show(text: object) -> str:
    """Make a URL or title safe for a page: escaped, cut after 500 characters."""
    shown = escape(mask_passwords(str(text))[: MOST_SHOWN_CHARACTERS + 1])
    return shown if len(shown) <= MOST_SHOWN_CHARACTERS else shown[:MOST_SHOWN_CHARACTERS] + "…"


def quote(text: object) -> str:
    """Make a text safe for a log line: quoted, escaped, its middle cut beyond 200 characters."""
    if not isinstance(text, str):
        return printable(repr(text)[:MOST_LOGGED_CHARACTERS])
    text = mask_passwords(text)
    half = MOST_LOGGED_CHARACTERS // 2
    if len(text) > MOST_LOGGED_CHARACTERS:
        return f"{text[:half]!r}...{text[-half:]!r}"
    return repr(text)


def show_words(words: Sequence[str]) -> str:
    """Show the first words of several."""
    return " ".join(words[:_MOST_WORDS])[:_MOST_CHARACTERS_OF_WORDS]


def plural(count: int | None, noun: str) -> str:
    """Format a count with its noun, such as `1 bit` and `1,204 pages`; None becomes `?`."""
    return f"{'?' if count is None else f'{count:,}'} {noun}{'s' * (count != 1)}"


def format_time(seconds: float) -> str:
    """Write seconds since 1970 in UTC: 2026-05-04 12:34:56, or `?` for no time of this calendar."""
    with suppress(OverflowError, ValueError):
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"
    return "?"


def show_share(share: float) -> str:
    """Format a share in whole percents."""
    return f"{100 * share:.0f} %" if share >= 0.01 else "under 1 %"  # noqa: PLR2004 - a percent


def describe_error(error: BaseException) -> str:
    """Format an error and the last calls that led to it in one line, escaped."""
    return printable("".join(traceback.format_exception(error))[-MOST_ERROR_CHARACTERS:])


@contextmanager
def show_progress(unit: str) -> Iterator[Callable[[int, int | None], None]]:
    """Show a bar; yields a function that takes the numbers of units (a plural) done, and of all.

    If that is never called, or with None, the bar shows that work of unknown length is running.
    """
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich import progress  # noqa: PLC0415 - for terminals only
    from rich.console import Console  # noqa: PLC0415

    with progress.Progress(
        progress.MofNCompleteColumn(),
        *progress.Progress.get_default_columns(),
        console=Console(stderr=True),  # the answers go to standard output
        transient=True,
        redirect_stdout=False,
    ) as bar:
        task = bar.add_task(unit, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
