"""Writes down which functions of a package are called, in every thread and process.

`structure.py` copies this file as `sitecustomize.py` into a folder on PYTHONPATH, so that it runs
at the start of each interpreter, the judge's process included, which inherit their environment and
end by SIGKILL. Each call and each return is a line of its own: thread, seconds of the monotonic
clock, which all processes share, event, file below the package, function. Does nothing
where STRUCTURE_PACKAGE and STRUCTURE_TRACE do not name the package's folder and the file.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import FrameType


def trace(package: str, path: str) -> None:
    """Trace this process from now on, in threads that start from now on, too.

    Args:
        package: folder of the package, with a separator at its end.
        path: of the file that the lines are added to.
    """
    output = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    process = os.getpid()

    def note(frame: FrameType, event: str, argument: Any) -> None:  # noqa: ARG001 - asked for
        if event not in {"call", "return"}:
            return
        code = frame.f_code
        if code.co_filename.startswith(package):
            thread = f"{process}.{threading.get_ident()}"
            file = code.co_filename[len(package) :]
            line = f"{thread}\t{time.monotonic():.6f}\t{event}\t{file}\t{code.co_qualname}\n"
            os.write(output, line.encode())

    threading.setprofile(note)
    sys.setprofile(note)


if "STRUCTURE_PACKAGE" in os.environ and "STRUCTURE_TRACE" in os.environ:
    trace(os.environ["STRUCTURE_PACKAGE"], os.environ["STRUCTURE_TRACE"])
