"""The project may not grow unseen: nothing is larger than benchmarks/structure.json holds."""

from importlib import util
from pathlib import Path
from types import ModuleType

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
