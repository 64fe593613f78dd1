"""Write the settings of docs/settings.md: `python -m tests.helpers.reference`."""

import re
import textwrap
from dataclasses import fields
from inspect import cleandoc

from scrapy_simhash.config import LOG_IN_STORE, Config
from tests.helpers.processes import ROOT

SETTINGS_PAGE = ROOT / "docs" / "settings.md"
_ENTRIES = re.compile(r"(?:^### SIMHASH_\w+\n(?:(?!#).*\n)*)+", re.MULTILINE)
_WIDTH = 120
_ADVANCED = "(advanced) "
# Defaults that depend on other settings.
_DEFAULTS = {"log": f"`{LOG_IN_STORE}` in the store's folder"}


def describe_settings() -> dict[str, str]:
    """Read what the docstring of `Config` says of each of its fields."""
    attributes = cleandoc(Config.__doc__ or "").partition("Attributes:\n")[2]
    entries = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", attributes, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}


def entries_of_code() -> list[str]:
    """Make the entries of everyday and of advanced settings: heading, default, meaning, range."""
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
    # Code stays on one line.
    glued = re.sub(r"`[^`]+`", lambda code: code[0].replace(" ", "\0"), f"{text.rstrip('.')}.")
    lines = textwrap.fill(glued[0].upper() + glued[1:], _WIDTH, break_on_hyphens=False)
    return f"### {setting}\n\nDefault: {default}\n\n{lines}\n\n".replace("\0", " ")


def entries_of_document(document: str) -> list[str]:
    """Find both groups of entries in a document."""
    return _ENTRIES.findall(document)


def main() -> None:
    """Write the entries."""
    document = SETTINGS_PAGE.read_text("utf-8")
    entries = iter(entries_of_code())
    SETTINGS_PAGE.write_text(_ENTRIES.sub(lambda _: next(entries), document), "utf-8")


if __name__ == "__main__":
    main()
