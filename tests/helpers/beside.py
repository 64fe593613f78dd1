"""Blocks of the documents, as tests of the plugin beside other software take them."""

import re
from typing import Any

from tests.helpers.processes import ROOT


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
