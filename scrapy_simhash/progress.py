"""Progress bars of the commands: on a terminal only."""

from __future__ import annotations

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
