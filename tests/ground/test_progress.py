"""What people see while a command runs: on a terminal only, and gone at the end."""

import os
import pty
import subprocess
import sys
import termios
from contextlib import suppress

import pytest

SCRIPT = """
from scrapy_simhash._progress import show_progress, show_steps
with show_progress("looking through"):
    pass
with show_progress("tables") as show:
    show(3, 10)
with show_steps("pages", 20) as advance:
    advance()
    advance(6)
print("answers")
"""


@pytest.mark.parametrize("on_terminal", [False, True])
def test_progress_is_shown_on_terminals_only(on_terminal: bool) -> None:
    command = [sys.executable, "-c", SCRIPT]
    leader, terminal = pty.openpty() if on_terminal else os.pipe()
    if on_terminal:
        termios.tcsetwinsize(terminal, (24, 80))
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=terminal, check=True)
    os.close(terminal)
    told = b""
    with suppress(OSError):  # how a terminal tells its end
        while part := os.read(leader, 4096):
            told += part
    os.close(leader)
    assert done.stdout == b"answers\n"
    assert on_terminal or not told
    for shown in (b"looking through", b"3/10", b"tables", b"7/20", b"pages"):
        assert (shown in told) == on_terminal
