"""Text from pages, URLs and user code, made fit for one line of a log or a terminal."""

from __future__ import annotations

import traceback

# Scrapy's own lines are as long; a URL may have megabytes.
MOST_LOGGED_CHARACTERS = 200
# Of an error: the last calls and what was raised.
MOST_ERROR_CHARACTERS = 1_500


def printable(text: object) -> str:
    """Escape what could steer a terminal or end a line; pages and URLs are hostile."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(text))


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
