"""Text from pages, URLs and user code, made fit for a log, a terminal or a report."""

from __future__ import annotations

import traceback

# Scrapy's own lines are as long; a URL may have megabytes.
MOST_LOGGED_CHARACTERS = 200
# A report has room for more, but not for all.
MOST_SHOWN_CHARACTERS = 500
# Of an error: the last calls and what was raised.
MOST_ERROR_CHARACTERS = 1_500
# Part of how Persian, Hindi or emoji are spelt; they move nothing.
_JOINERS = "\u200c\u200d"


def printable(text: object) -> str:
    """Escape what could steer a terminal or end a line; pages and URLs are hostile."""
    written = str(text)
    if written.isprintable():  # nearly always; a report asks a hundred thousand times
        return written
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in written)


def printable_text(text: str) -> str:
    """Escape what could steer a page's display, in text of any script; keeps joiners of letters."""
    return "".join(c if c.isprintable() or c in _JOINERS else repr(c)[1:-1] for c in text)


def show(text: object) -> str:
    """Make a URL or title fit to be shown on a page: escaped, its end left out beyond 500."""
    shown = printable(str(text)[: MOST_SHOWN_CHARACTERS + 1])
    return shown if len(shown) <= MOST_SHOWN_CHARACTERS else shown[:MOST_SHOWN_CHARACTERS] + "…"


def quote(text: object) -> str:
    """Make a text part of a log line: in quotes, escaped, its middle left out beyond 200.

    What is no text is written as in Python.
    """
    if not isinstance(text, str):
        return printable(repr(text)[:MOST_LOGGED_CHARACTERS])
    whole = text
    half = MOST_LOGGED_CHARACTERS // 2
    if len(whole) > MOST_LOGGED_CHARACTERS:
        return f"{whole[:half]!r}...{whole[-half:]!r}"
    return repr(whole)


def describe_error(error: BaseException) -> str:
    """Write an error and the last calls that led to it in one line, escaped."""
    return printable("".join(traceback.format_exception(error))[-MOST_ERROR_CHARACTERS:])
