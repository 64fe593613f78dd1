"""Answers of a person: single keys on a terminal, otherwise lines, which a script can give."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

KEYS = {"s": "same", "d": "different", "u": "unknown", "n": "skip", "b": "undo", "q": "quit"}
PROMPT = "s same, d different, u unknown, n skip (next), b undo (back), q quit?"
# An arrow key is an escape sequence that ends in a letter; read at once it is no single key.
_LONGEST_KEY_BYTES = 32
_END_OF_INPUT = b"\x04"


def read_answer() -> str | None:
    """Wait for an answer: a key or a line.

    Returns:
        As it was given; None at the end of the input.
    """
    if not sys.stdin.isatty():
        return sys.stdin.readline() or None
    with _single_keys(sys.stdin.fileno()) as terminal:
        octets = os.read(terminal, _LONGEST_KEY_BYTES)
    # Several keys at once were typed ahead, before anybody can have seen the pair.
    return None if octets in {b"", _END_OF_INPUT} else octets.decode(errors="replace")


@contextmanager
def _single_keys(terminal: int) -> Iterator[int]:
    """Let a terminal hand over each key at once, and not show it."""
    import termios  # noqa: PLC0415 - not on every system
    import tty  # noqa: PLC0415

    before = termios.tcgetattr(terminal)
    try:
        tty.setcbreak(terminal)
        yield terminal
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def understand(answer: str) -> str | None:
    """Get what an answer means, one of the values of `KEYS`; None if it means nothing."""
    word = answer.strip().lower()
    return KEYS.get(word, word if word in KEYS.values() else None)
