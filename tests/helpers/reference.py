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


def write_entries(page: str) -> str:
    """Write both groups of entries into the page: everyday settings, and advanced ones."""
    groups = iter((_make_entries(advanced=False), _make_entries(advanced=True)))
    return _ENTRIES.sub(lambda _: next(groups), page)


def _make_entries(*, advanced: bool) -> str:
    """Make the entry of each setting: heading, default, meaning and range."""
    attributes = cleandoc(Config.__doc__ or "").partition("Attributes:\n")[2]
    found = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", attributes, re.MULTILINE)
    described = {name: " ".join(text.split()) for name, text in found}
    shown = {f.name: f"`{getattr(Config(), f.name)}`" for f in fields(Config)} | _DEFAULTS
    assert set(described) == set(shown), "fields of Config and their descriptions differ"
    return "".join(
        _make_entry(f"SIMHASH_{name.upper()}", shown[name], text.removeprefix(_ADVANCED))
        for name, text in described.items()
        if text.startswith(_ADVANCED) == advanced
    )


def _make_entry(setting: str, default: str, text: str) -> str:
    # Code stays on one line.
    glued = re.sub(r"`[^`]+`", lambda code: code[0].replace(" ", "\0"), f"{text.rstrip('.')}.")
    lines = textwrap.fill(glued[0].upper() + glued[1:], _WIDTH, break_on_hyphens=False)
    return f"### {setting}\n\nDefault: {default}\n\n{lines}\n\n".replace("\0", " ")


if __name__ == "__main__":
    SETTINGS_PAGE.write_text(write_entries(SETTINGS_PAGE.read_text("utf-8")), "utf-8")
