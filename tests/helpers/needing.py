"""What some tests need besides the extra `test`, and what of them the first tier leaves out."""

import importlib.util
import os
import shutil
from collections.abc import Iterable
from typing import Any, NoReturn

import pytest
from hypothesis import HealthCheck, settings

# Set by .ci/run: what is missing makes tests fail instead of being skipped.
EVERYTHING = "SIMHASH_TEST_ALL"
_EXAMPLES = 40


def require_modules(extra: str, *names: str) -> None:
    """Skip the test, or fail, where one of these modules of an extra is not installed."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            do_without(f"there is no {name}: pip install 'scrapy-simhash[{extra}]'")


def require_program(*names: str) -> str:
    """Get the path of the first program of these that is there; skip, or fail, without any."""
    found = next(filter(None, map(shutil.which, names)), None)
    return found or do_without(f"there is no {' or '.join(names)}")


def do_without(reason: str) -> NoReturn:
    """Skip the test, or fail where all have to run."""
    if os.environ.get(EVERYTHING):
        pytest.fail(f"{EVERYTHING} is set, and {reason}")
    pytest.skip(reason)


def slow_but(quick: Iterable[Any], values: Iterable[Any]) -> list[Any]:
    """Mark all values of a parameter slow but a few, which the first tier runs.

    Values of several parameters are tuples.
    """
    kept = list(quick)
    return [
        each
        if each in kept
        else pytest.param(*(each if isinstance(each, tuple) else [each]), marks=pytest.mark.slow)
        for each in values
    ]


def load_examples(*, few: bool) -> None:
    """Let hypothesis draw 40 examples a test, or a quarter of them."""
    # No deadline and no complaint about slow data: a busy machine must not make a test fail.
    settings.register_profile(
        "suite",
        deadline=None,
        max_examples=_EXAMPLES // 4 if few else _EXAMPLES,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("suite")


def examples(count: int) -> settings:
    """Let a test draw another number of examples than the others; fewer with the others, too."""
    return settings(max_examples=max(3, count * settings().max_examples // _EXAMPLES))
