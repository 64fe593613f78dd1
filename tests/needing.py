"""What some tests need besides the extra `test`: they are skipped without it, or fail."""

import importlib.util
import os
import shutil
from typing import NoReturn

import pytest

# Set by .ci/run: what is missing makes tests fail instead of being skipped.
EVERYTHING = "SIMHASH_TEST_ALL"


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
