"""What tests of the plugin beside other software need; they are skipped, or fail, without it."""

import importlib.util
import os
import re
import shutil
from typing import Any, NoReturn

import pytest

from tests.processes import ROOT
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


def run_block(document: str, pattern: str) -> dict[str, Any]:
    """Run the one block of Python in a document in which the pattern is found; get its names."""
    text = (ROOT / "docs" / document).read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (block,) = [block for block in blocks if re.search(pattern, block, re.MULTILINE)]
    names: dict[str, Any] = {}
    exec(compile(block, document, "exec"), names)  # noqa: S102 - our own document
    return names


def settings_of(document: str, name: str) -> dict[str, Any]:
    """Get the settings of the block that has this one."""
    names = run_block(document, f"^{name} =")
    return {key: value for key, value in names.items() if key.isupper()}
