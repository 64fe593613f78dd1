"""What a host runs is what people run: the README's command, a part of the gate, the release."""

import re
import tomllib
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from tests.helpers.processes import ROOT

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
