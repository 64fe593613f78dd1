"""Write the table of settings of docs/reference.md: `python -m tests.helpers.reference`."""

import re
from dataclasses import fields
from inspect import cleandoc

from scrapy_simhash.config import LOG_IN_STORE, Config
from tests.helpers.processes import ROOT

REFERENCE = ROOT / "docs" / "reference.md"
_HEAD = "| setting | default | meaning and range |\n| --- | --- | --- |\n"
_TABLE = re.compile(rf"(?<={re.escape(_HEAD)})(?:\|.*\n)+")
# Defaults that depend on the machine or on other settings.
_DEFAULTS = {"workers": "cores - 1, at least 1", "log": f"`{LOG_IN_STORE}` in the store's folder"}


def describe_settings() -> dict[str, str]:
    """Read what the docstring of `Config` says of each of its fields."""
    attributes = cleandoc(Config.__doc__ or "").partition("Attributes:\n")[2]
    entries = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", attributes, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}


def settings_rows() -> list[str]:
    """Make the rows of the table: setting, default, meaning and range."""
    described, default = describe_settings(), Config()
    shown = {f.name: f"`{getattr(default, f.name)}`" for f in fields(Config)} | _DEFAULTS
    assert set(described) == set(shown), "fields of Config and their descriptions differ"
    return [
        f"| `SIMHASH_{name.upper()}` | {shown[name]} | {text.rstrip('.')} |"
        for name, text in described.items()
    ]


def table_of_settings(document: str) -> list[str]:
    """Find the rows of the table in a document."""
    found = _TABLE.search(document)
    return found[0].splitlines() if found else []


def main() -> None:
    """Write the table."""
    document = REFERENCE.read_text("utf-8")
    rows = "".join(f"{row}\n" for row in settings_rows())
    REFERENCE.write_text(_TABLE.sub(lambda _: rows, document), "utf-8")


if __name__ == "__main__":
    main()
