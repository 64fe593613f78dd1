"""Names that lead nowhere; a setting says which one it was."""

from pathlib import Path

import pytest

from scrapy_simhash.pages.scopes import load_named


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", r"'' is none of one, two, nor an import path"),
        ("math.no_such_thing", r"cannot be imported: AttributeError"),
        *(("math.", r"cannot be imported"), (".math", r"none of|cannot be imported")),
        ("math..pi", r"cannot be imported"),
        ("math.pi", r"'math.pi' is 3.14\d+, not a number of apples"),
        ("failing_features.thing", r"cannot be imported: ZeroDivisionError"),
    ],
)
def test_names_that_lead_nowhere(
    name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "failing_features.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=message):
        load_named(name, {"one": 1, "two": 2}, callable, "a number of apples")
