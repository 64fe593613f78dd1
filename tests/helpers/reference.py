"""Write the tables of settings of docs/reference.md: `python -m tests.helpers.reference`."""

import re
from dataclasses import fields
from inspect import cleandoc

from scrapy_simhash.config import LOG_IN_STORE, Config
from tests.helpers.processes import ROOT

REFERENCE = ROOT / "docs" / "reference.md"
_HEAD = "| setting | default | meaning and range |\n| --- | --- | --- |\n"
_TABLE = re.compile(rf"(?<={re.escape(_HEAD)})(?:\|.*\n)+")
# Defaults that depend on the machine or on other settings.
_ADVANCED = "(advanced) "
_DEFAULTS = {"workers": "cores - 1, at least 1", "log": f"`{LOG_IN_STORE}` in the store's folder"}


def describe_settings() -> dict[str, str]:
    """Read what the docstring of `Config` says of each of its fields."""
    attributes = cleandoc(Config.__doc__ or "").partition("Attributes:\n")[2]
    entries = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", attributes, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}


def settings_rows() -> list[list[str]]:
    """Make the rows of both tables, everyday and advanced: setting, default, meaning and range."""
    described, default = describe_settings(), Config()
    shown = {f.name: f"`{getattr(default, f.name)}`" for f in fields(Config)} | _DEFAULTS
    assert set(described) == set(shown), "fields of Config and their descriptions differ"
    return [
        [
            f"| `SIMHASH_{name.upper()}` | {shown[name]} | "
            f"{text.removeprefix(_ADVANCED).rstrip('.')} |"
            for name, text in described.items()
            if text.startswith(_ADVANCED) == advanced
        ]
        for advanced in (False, True)
    ]


def tables_of_settings(document: str) -> list[list[str]]:
    """Find the rows of both tables in a document."""
    return [table.splitlines() for table in _TABLE.findall(document)]


def main() -> None:
    """Write the tables."""
    document = REFERENCE.read_text("utf-8")
    tables = iter(settings_rows())
    written = _TABLE.sub(lambda _: "".join(f"{row}\n" for row in next(tables)), document)
    REFERENCE.write_text(written, "utf-8")


if __name__ == "__main__":
    main()
