"""Show the progress of commands, only on a terminal; it disappears at the end."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Leaves space for a count of millions and everything else in 80 columns.
_BAR_CHARACTERS = 12


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
        progress.TaskProgressColumn(show_speed=True),
        progress.BarColumn(_BAR_CHARACTERS),
        progress.MofNCompleteColumn(),
        progress.TextColumn("{task.description}"),
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
        console=Console(stderr=True),  # the answers go to standard output
        transient=True,
        redirect_stdout=False,
    ) as bar:
        task = bar.add_task(unit, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
