"""The public face: names, version, entry point, and documents that say what the code does."""

import argparse
import doctest
import importlib
import re
import tomllib
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import entry_points, files, version
from pathlib import Path
from typing import Any

import pytest

import scrapy_simhash
from scrapy_simhash.commands.command import SimhashCommand, add_commands
from scrapy_simhash.judging.documents import VERDICT, Decision
from tests.helpers.processes import ROOT, run_python
from tests.helpers.reference import SETTINGS_PAGE, write_entries
from tests.project.test_rooms import MODULES, PACKAGE

COMMANDS = add_commands(argparse.ArgumentParser())


def entries(heading: str) -> list[str]:
    """List what a section explains: names in headings, or bold ones in front of a colon."""
    page = (ROOT / "docs" / "meta.md").read_text()
    section = re.split(r"\n## ", page.partition(f"\n## {heading}\n")[2])[0]
    heads = re.findall(r"^### (.+)$|^- \*\*`(.+)`\*\*: ", section, re.MULTILINE)
    return [name for head in heads for name in "".join(head).split("`**, **`")]


def source() -> str:
    return "\n".join(path.read_text() for path in MODULES.values())


def test_public_names_exist() -> None:
    public = vars(scrapy_simhash)["__all__"]
    assert public == ["Addon", "NearDuplicate", "fingerprint_page", "open_store"]
    for name in public:
        assert getattr(scrapy_simhash, name).__module__.startswith("scrapy_simhash.")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(scrapy_simhash, "nothing")  # noqa: B009


def test_version_and_entry_point() -> None:
    assert version("scrapy-simhash") == scrapy_simhash.__version__
    (entry,) = [e for e in entry_points(group="scrapy.commands") if e.name == "simhash"]
    assert entry.load() is SimhashCommand


def test_the_settings_page_is_made_of_the_code() -> None:
    page = SETTINGS_PAGE.read_text("utf-8")
    assert page == write_entries(page), "run python -m tests.helpers.reference"


def test_reference_has_every_key_of_a_decision() -> None:
    documented = entries("Response meta: the verdict")
    assert set(Decision.__struct_fields__) <= {*documented, *entries("In the log only")}
    assert documented == list(VERDICT)


def test_reference_has_every_reason() -> None:
    documented = set(entries("Reasons of pages not judged"))
    raised = set(re.findall(r'(?:NotJudgedError\(|\.fail\(|reason, detail = )\s*"(\w+)"', source()))
    policy = (PACKAGE / "crawl/policy.py").read_text()
    skipped = set(re.findall(r'^ +"(\w+)": ', policy, re.MULTILINE))
    assert len(raised) > 8
    assert {"no_callback", "not_html", "status", "truncated", "never_drop", "too_large"} <= skipped
    assert raised | skipped <= documented


def test_reference_has_every_stat() -> None:
    documented = {re.sub(r"\{.*", "", name) for name in entries("Stats")}
    counted = {re.sub(r"[{].*", "", name) for name in re.findall(r'"(simhash/[^"]*)"', source())}
    assert len(counted) > 15
    families = tuple(name for name in documented if name.endswith("/"))
    for name in counted - {"simhash/"}:
        assert name in documented or name.startswith(families)
    for status in ("simhash/new", "simhash/near_duplicate", "simhash/revisit/"):
        assert status in documented


def test_reference_has_every_command() -> None:
    page = (ROOT / "docs" / "commands.md").read_text()
    assert sorted(re.findall(r"^## ([a-z-]+)$", page, re.MULTILINE)) == sorted(COMMANDS)


def test_messages_and_pages_name_commands_that_exist() -> None:
    files = [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.html"), *ROOT.glob("docs/*.md")]
    for path in (*files, ROOT / "README.md", ROOT / "CONTRIBUTING.md"):
        text = re.sub(r'"\n +f?"', "", path.read_text("utf-8"))
        for name in re.findall(r"scrapy simhash (?:-s \S+ )*([a-z][a-z-]+)", text):
            assert name in COMMANDS, f"{path}: scrapy simhash {name}"


# Those of Spark have none: it takes long to install.
@pytest.mark.parametrize("module", [name for name in MODULES if ".spark" not in name])
def test_doctests(module: str) -> None:
    loaded = importlib.import_module(f"{PACKAGE.name}.{module}".rstrip("."))
    assert doctest.testmod(loaded).failed == 0


def test_what_is_needed_is_installed_and_nothing_else() -> None:
    """Where it is installed as a user would: an editable one has a file that names the checkout."""
    names = [path for path in files("scrapy-simhash") or () if path.suffix != ".pth"]
    assert {path.parts[0].partition("-")[0] for path in names} <= {"..", "scrapy_simhash"}
    kinds = {path.suffix for path in names if path.parts[0] == "scrapy_simhash"}
    assert kinds <= {".py", ".pyc", ".typed", ".html", ".css", ".js", ".lua"}
    assert "LICENSE" in {path.name for path in names}
    assert (PACKAGE / "py.typed").exists()


def test_the_changelog_begins_with_this_version() -> None:
    released = scrapy_simhash.__version__.partition(".dev")[0]
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    assert newest[1] == released


@pytest.mark.skipif(not (ROOT / "scrapy_simhash").is_dir(), reason="holds a checkout, not a wheel")
def test_nothing_is_larger_than_is_held(tmp_path: Path) -> None:
    done = run_python(ROOT / "benchmarks" / "structure.py", "--check", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def jobs() -> Iterator[tuple[dict[str, Any], dict[str, list[str]]]]:
    """Read each job, and the lists of its matrix."""
    for path in WORKFLOWS:
        # PyYAML ships no types.
        for job in import_module("yaml").safe_load(path.read_text())["jobs"].values():
            yield job, job.get("strategy", {}).get("matrix", {})


def test_all_that_is_run_is_run_here_too() -> None:
    gate, readme = ((ROOT / name).read_text() for name in (".ci/run", "README.md"))
    parts = " | ".join(re.findall(r"^  ([a-z| ]+)\) make_uv", gate, re.MULTILINE)).split(" | ")
    known = {".ci/release", *(f".ci/run {part}" for part in parts)}
    for job, matrix in jobs():
        for command in [step["run"] for step in job["steps"] if "run" in step]:
            for part in matrix.get("part", [""]):
                run = command.replace("${{ matrix.part }}", part)
                assert run in known or f"`{run}`" in readme, run


def test_actions_are_pinned() -> None:
    used = [step["uses"] for job, _ in jobs() for step in job["steps"] if "uses" in step]
    assert [name for name in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", name)] == []


def test_each_python_of_the_metadata_is_tried() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = re.findall(r":: (3\.\d+)", "\n".join(project["classifiers"]))
    assert [matrix["python"] for _, matrix in jobs() if "python" in matrix] == [named]
