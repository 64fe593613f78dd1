"""Write the lists of settings of docs/reference.md: `python -m tests.helpers.reference`."""

import re
import textwrap
from dataclasses import fields
from inspect import cleandoc

from scrapy_simhash.config import LOG_IN_STORE, Config
from tests.helpers.processes import ROOT

REFERENCE = ROOT / "docs" / "reference.md"
_LIST = re.compile(r"(?:^- \*\*`SIMHASH_.*\n(?: {2}.*\n)*)+", re.MULTILINE)
_WIDTH = 120
_ADVANCED = "(advanced) "
# Defaults that depend on other settings.
_DEFAULTS = {"log": f"`{LOG_IN_STORE}` in the store's folder"}


def describe_settings() -> dict[str, str]:
    """Read what the docstring of `Config` says of each of its fields."""
    attributes = cleandoc(Config.__doc__ or "").partition("Attributes:\n")[2]
    entries = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", attributes, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}


def lists_of_code() -> list[str]:
    """Make both lists, everyday and advanced: setting, default, meaning and range."""
    described, default = describe_settings(), Config()
    shown = {f.name: f"`{getattr(default, f.name)}`" for f in fields(Config)} | _DEFAULTS
    assert set(described) == set(shown), "fields of Config and their descriptions differ"
    return [
        "".join(
            _write_entry(f"SIMHASH_{name.upper()}", shown[name], text.removeprefix(_ADVANCED))
            for name, text in described.items()
            if text.startswith(_ADVANCED) == advanced
        )
        for advanced in (False, True)
    ]


def _write_entry(setting: str, default: str, text: str) -> str:
    entry = f"- **`{setting}`** ({default}): {text.rstrip('.')}."
    # Code stays on one line.
    glued = re.sub(r"`[^`]+`", lambda code: code[0].replace(" ", "\0"), entry)
    lines = textwrap.fill(glued, _WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    return lines.replace("\0", " ") + "\n"


def lists_of_document(document: str) -> list[str]:
    """Find both lists in a document."""
    return _LIST.findall(document)


def main() -> None:
    """Write the lists."""
    document = REFERENCE.read_text("utf-8")
    lists = iter(lists_of_code())
    REFERENCE.write_text(_LIST.sub(lambda _: next(lists), document), "utf-8")


if __name__ == "__main__":
    main()
