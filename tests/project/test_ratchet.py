"""The project may not grow unseen: nothing is larger than benchmarks/structure.json holds."""

import json
from importlib import util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.helpers.processes import ROOT, run_python

SCRIPT = ROOT / "benchmarks" / "structure.py"


@pytest.fixture
def ratchet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module that holds, with files of its own."""
    spec = util.spec_from_file_location("ratchet", SCRIPT.with_name("ratchet.py"))
    assert spec
    assert spec.loader
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "HELD", tmp_path / "held.json")
    return module


@pytest.mark.skipif(not (ROOT / "scrapy_simhash").is_dir(), reason="holds a checkout, not a wheel")
def test_nothing_has_risen(tmp_path: Path) -> None:
    done = run_python(SCRIPT, "--check", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_no_page_takes_a_longer_way(tmp_path: Path) -> None:
    done = run_python(SCRIPT, "--check", "--trips", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| moves of a near-duplicate page, steady | " in done.stdout


def test_a_number_may_only_fall(ratchet: ModuleType) -> None:
    ratchet.HELD.write_text("{}")
    ratchet.write_held({"files": 100, "settings": 20})
    ratchet.write_held({"files": 90, "settings": 20})
    assert ratchet.read_held() == {"files": 90, "settings": 20}
    assert ratchet.list_risen({"files": 91, "settings": 19}, ratchet.read_held()) == [
        "files: 91, held at 90"
    ]
    with pytest.raises(SystemExit, match="files: 91, held at 90"):
        ratchet.write_held({"files": 91, "settings": 19})
    assert ratchet.read_held() == {"files": 90, "settings": 20}


FILES = {
    "__init__.py": '"""A package."""\n\nfrom made.addon import go\n',
    "addon.py": "from made.room import Name\nfrom made.room import plain\n\ngo = Name, plain\n",
    "room/__init__.py": (
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from made.room.named import Name\n\n"
        'def __getattr__(name):\n    """Load it."""\n    from made.room import named\n'
    ),
    "room/named.py": "# A comment.\nfrom made.other import Other\nclass Name: ...\n",
    "room/plain.py": "def late():\n    from . import named\n    from .. import addon\n",
    "other/__init__.py": "from .deep import Other\n",
    "other/deep.py": "def late():\n    import made.room.plain\n",
}


def measure(folder: Path, files: dict[str, str]) -> Any:
    package, output = folder / "made", folder / "structure.json"
    for name, text in files.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    script = ROOT / "benchmarks" / "structure.py"
    done = run_python(script, package, "--output", output, cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(output.read_text())


def test_lines_are_counted_by_room(tmp_path: Path) -> None:
    rooms = measure(tmp_path, FILES)["rooms"]
    assert list(rooms) == ["ground", "other", "room", "total"]
    assert rooms["room"] == {"files": 3, "lines": 13}
    assert (rooms["total"]["files"], rooms["total"]["lines"]) == (7, 23)


def test_circles_are_found_by_kind_of_import(tmp_path: Path) -> None:
    measured = measure(tmp_path, FILES)
    # A face's imports of its own room are no part of it; `from room import plain` is of the module.
    assert measured["imports"] == {"load": 3, "late": 3, "typed": 0}
    circles = measured["circles"]
    assert (circles["load"], circles["late"], circles["typed"]) == ([], [], [])
    assert circles["all"] == circles["load and late"] == [["addon.py", "room/plain.py"]]
    assert circles["rooms"] == [["addon.py", "other", "room"]]
