"""Names that lead somewhere or nowhere."""

import json
from pathlib import Path

import pytest

from scrapy_simhash.pages.recipe import load_named


def test_short_names_win_and_import_paths_work() -> None:
    assert load_named("int", {"int": int}, callable, "anything") is int
    assert load_named("json.dumps", {"int": int}, callable, "anything") is json.dumps


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nonsense", r"'nonsense' is none of one, two, nor an import path"),
        ("", r"'' is none of one, two"),
        ("no_such_module.thing", r"cannot be imported: ModuleNotFoundError"),
        ("math.no_such_thing", r"cannot be imported: AttributeError"),
        ("math.", r"cannot be imported"),
        (".math", r"none of|cannot be imported"),
        ("math..pi", r"cannot be imported"),
        ("tests.broken_on_import.thing", r"cannot be imported"),
        ("math.pi", r"'math.pi' is 3.14\d+, not a number of apples"),
    ],
)
def test_names_that_lead_nowhere(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_named(name, {"one": 1, "two": 2}, callable, "a number of apples")


def test_a_module_that_fails_while_it_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "failing_features.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match="ZeroDivisionError"):
        load_named("failing_features.thing", {}, callable, "something")
