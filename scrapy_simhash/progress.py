"""Progress of the commands: on a terminal only."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tqdm import tqdm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def show_progress(unit: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar while something runs whose extent it tells itself.

    Args:
        unit: what is counted, in the plural.

    Yields:
        To be called with how many are done, and how many there are.
    """
    with tqdm(unit=f" {unit}", disable=None) as bar:

        def show(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        yield show


@contextmanager
def show_busy(what: str) -> Iterator[None]:
    """Show that something runs, and for how long, that does not tell how far it is.

    Args:
        what: is done, for people.
    """
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console  # noqa: PLC0415 - for terminals only
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        shown.add_task(what, total=None)
        yield
