"""What tests of the plugin beside other software need; they are skipped, or fail, without it."""

import importlib.util
import os
import shutil
from typing import NoReturn

import pytest

from tests.tracing import EVERYTHING


def require_modules(*names: str) -> None:
    """Skip the test, or fail, where one of these cannot be imported (extra `beside`)."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            _do_without(f"there is no {name}: pip install 'scrapy-simhash[beside]'")


def require_program(*names: str) -> str:
    """Get the path of the first program of these that is there; skip, or fail, without any."""
    found = next(filter(None, map(shutil.which, names)), None)
    return found or _do_without(f"there is no {' or '.join(names)}")


def _do_without(reason: str) -> NoReturn:
    if os.environ.get(EVERYTHING):
        pytest.fail(f"{EVERYTHING} is set, and {reason}")
    pytest.skip(reason)
