"""What benchmarks/structure.py counts in a small package."""

import json
from pathlib import Path
from typing import Any

from tests.helpers.processes import ROOT, run_python

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
    return json.loads(output.read_text())["packages"][str(package)]


def test_lines_are_counted_by_room(tmp_path: Path) -> None:
    rooms = measure(tmp_path, FILES)["rooms"]
    assert list(rooms) == ["ground", "other", "room", "total"]
    assert rooms["room"] == {
        "files": 3,
        "lines": 13,
        "docstring": 1,
        "import": 6,
        "comment": 1,
        "blank": 1,
        "code": 4,
    }
    assert (rooms["total"]["files"], rooms["total"]["lines"]) == (7, 23)


def test_circles_are_found_by_kind_of_import(tmp_path: Path) -> None:
    measured = measure(tmp_path, FILES)
    # A face's imports of its own room are no part of it; `from room import plain` is of the module.
    assert measured["imports"] == {"load": 3, "late": 3, "typed": 0}
    circles = measured["circles"]
    assert (circles["load"], circles["late"], circles["typed"]) == ([], [], [])
    assert circles["all"] == circles["load and late"] == [["addon.py", "room/plain.py"]]
    assert circles["rooms"] == [["addon.py", "other", "room"]]
