"""Show the progress of commands, only on a terminal; it disappears at the end."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rich.progress import Progress, ProgressColumn

T = TypeVar("T")
# Leaves space for a count of millions and everything else in 80 columns.
_BAR_CHARACTERS = 12


@contextmanager
def show_progress(unit: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar; yields a function that takes the numbers of units (a plural) done, and of all."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    with _make_bar() as bar:
        task = bar.add_task(unit, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def show_steps(unit: str, total: int) -> Iterator[Callable[..., None]]:
    """Show a bar; yields a function that takes the number of units done since its last call (1)."""
    all_done = 0
    with show_progress(unit) as show:

        def advance(done: int = 1) -> None:
            nonlocal all_done
            all_done += done
            show(all_done, total)

        yield advance


def track(items: Iterable[T], unit: str, total: int) -> Iterator[T]:
    """Show a bar while items are consumed one by one."""
    with show_steps(unit, total) as advance:
        for item in items:
            yield item
            advance()


@contextmanager
def show_busy(what: str) -> Iterator[None]:
    """Show that work of unknown length is running, and the time it has taken."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    with _on_stderr(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()) as bar:
        bar.add_task(what, total=None)
        yield


def _make_bar() -> Progress:
    """Show share, bar, count, unit, elapsed time, remaining time and speed."""
    from rich import progress  # noqa: PLC0415 - for terminals only
    from rich.text import Text  # noqa: PLC0415

    class Speed(progress.ProgressColumn):
        def render(self, task: progress.Task) -> Text:
            speed = task.finished_speed or task.speed
            shown = "" if speed is None else f"{speed:,.{1 if speed < 10 else 0}f}/s"  # noqa: PLR2004
            return Text(shown, "progress.data.speed")

    return _on_stderr(
        progress.TaskProgressColumn(),
        progress.BarColumn(_BAR_CHARACTERS),
        progress.MofNCompleteColumn(),
        progress.TextColumn("{task.description}"),
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
        Speed(),
    )


def _on_stderr(*columns: ProgressColumn) -> Progress:
    """Show columns on standard error, because the answers go to standard output."""
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import Progress  # noqa: PLC0415

    return Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
