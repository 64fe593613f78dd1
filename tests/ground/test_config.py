"""Every setting: its default, its range, values given as text, and the message for a bad one."""

from pathlib import Path
from typing import Any

import pytest
from scrapy.settings import Settings

from scrapy_simhash.config import Config, read_config
from scrapy_simhash.errors import SettingError

AS_MK = "or name a design for it, as 'm:k' or '4+2', in SIMHASH_TABLES"


def read(name: str, value: Any) -> Any:
    config = read_config(Settings({f"SIMHASH_{name}": value}))
    return getattr(config, name.lower())


def test_defaults() -> None:
    """Which are those of docs/settings.md, see `test_package`."""
    assert read_config(Settings()) == Config()


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        *(("ENABLED", False, False), ("ENABLED", "False", False), ("ENABLED", "true", True)),
        ("STORE", "folder", "folder"),
        ("STORE", Path("folder") / "inner", str(Path("folder") / "inner")),
        ("ACTION", "ignore-outlinks", "ignore-outlinks"),
        *(("DISTANCE", "2", 2), ("DISTANCE", 3.0, 3), ("TABLES", 4, "4"), ("TABLES", "4:3", "4:3")),
        *(("RULE", "plain", "plain"), ("SCOPE", "host", "host"), ("PROCESSES", "0", 0)),
        *(("INCREMENTAL", "True", True), ("UNCHANGED", "drop", "drop")),
        ("LOG", "decisions.jsonl", "decisions.jsonl"),
        ("LOG", Path("decisions.jsonl"), "decisions.jsonl"),
        *(("LOG", None, None), ("LOG", "", None), ("FOLLOW_NEW_LINKS", "true", True)),
        ("FOLLOW_NEW_LINKS", 0, False),
        ("IGNORE", ".stock, #clock", (".stock, #clock",)),
        ("IGNORE", [".stock", "p > b"], (".stock", "p > b")),
        (
            "IGNORE",
            {"www.Shop.example": [".stock"], "shop.example": "p", "b.example": "b"},
            {"shop.example": (".stock", "p"), "b.example": ("b",)},
        ),
        *(("HAND_OVER_TEXT", "True", True), ("HAND_OVER_TEXT", "html2txt", "html2txt")),
    ],
)
def test_valid_values(name: str, value: Any, expected: Any) -> None:
    result = read(name, value)
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("ENABLED", "perhaps", "'perhaps': must be True or False"),
        ("ENABLED", None, "None: must be True or False"),
        ("ENABLED", ["True"], "['True']: must be True or False"),
        ("STORE", "", "'': must be a folder or URL"),
        ("STORE", True, "True: must be a folder or URL"),
        ("ACTION", "delete", "'delete': must be 'drop' or 'ignore-outlinks' or 'flag'"),
        ("DISTANCE", "three", "'three': must be a whole number, 0 or more bits"),
        ("DISTANCE", True, "True: must be a whole number, 0 or more bits"),
        ("DISTANCE", None, "None: must be a whole number, 0 or more bits"),
        ("DISTANCE", float("nan"), "nan: must be a whole number, 0 or more bits"),
        ("DISTANCE", -1, "-1: must be 0"),
        ("DISTANCE", "8", "8: must be 0 to 7 bits with SIMHASH_TABLES = 'auto'; " + AS_MK),
        ("PROCESSES", "65", "'65': must be 0 to 64 processes"),
        ("PROCESSES", "auto", "'auto': must be 0 to 64 processes"),
        ("FOLLOW_NEW_LINKS", "late", "'late': must be True or False"),
        ("IGNORE", "", "'': must be a list of CSS selectors, or a dict of such lists by host"),
        ("IGNORE", ["b", ""], "['b', '']: must be a list of CSS selectors, or a dict"),
        ("IGNORE", {"a.example": 1}, "{'a.example': 1}: must be a list of CSS selectors, or a"),
        ("IGNORE", None, "None: must be a list of CSS selectors, or a dict"),
        ("HAND_OVER_TEXT", 2, "2: must be True or False, or the name of a reader"),
    ],
)
def test_bad_value_names_setting_value_and_range(name: str, value: Any, complaint: str) -> None:
    with pytest.raises(SettingError) as raised:
        read(name, value)
    assert f"SIMHASH_{name} = {complaint}" in str(raised.value)


SELECTORS = ["p..", "p,", " ", "p::text", "p:empty()", "\ud800"]
HOSTS = ["*.shop.example", "http://shop.example", "shop.example:80", "shop.example/a", "b\u00fc"]


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        *((["b", each], f"{each!r} is not a CSS selector (") for each in SELECTORS),
        *(({"shop.example": [each]}, f"{each!r} is not a CSS selector (") for each in SELECTORS),
        *(({host: ["b"]}, f"{host!r} is no host; ") for host in HOSTS),
    ],
)
def test_what_is_no_selector_or_no_host_is_named(value: Any, complaint: str) -> None:
    with pytest.raises(SettingError) as raised:
        read("IGNORE", value)
    assert f"SIMHASH_IGNORE: {complaint}" in str(raised.value)


@pytest.mark.parametrize(
    ("rule", "tables", "distance"),
    [
        *(("plain", "auto", 3), ("plain", "10", 3), ("words", "4", 7), ("words", "10", 4)),
        *(("words", "20", 4), ("words", "12:2", 3)),
    ],
)
def test_the_default_distance_is_that_of_the_paper_or_within_the_reach_of_the_design(
    rule: str, tables: str, distance: int
) -> None:
    config = read_config({"SIMHASH_RULE": rule, "SIMHASH_TABLES": tables})
    assert (config.rule, config.distance, config.tables) == (rule, distance, tables)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("SIMHASH_REFETHC", r"no such setting; did you mean SIMHASH_REFETCH\?$"),
        ("SIMHASH_DIR", "^SIMHASH_DIR: there is no such setting$"),
    ],
)
def test_a_setting_that_there_is_not_is_refused(name: str, said: str) -> None:
    with pytest.raises(SettingError, match=said):
        read_config({"SIMHASH_STORE": "x", name: "x"})
