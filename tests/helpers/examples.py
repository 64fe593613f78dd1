"""Crawls of the example project, as a user would run them."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.helpers.processes import PATIENCE_SECONDS, ROOT, run_python

PROJECT = ROOT / "example_project"


@dataclass(frozen=True)
class ExampleCrawl:
    """What a run of `scrapy crawl docs` left behind.

    Attributes:
        project: the copy of the example project in which it ran.
        output: what it printed.
        figures: of its summary.
        urls: of its items.
    """

    project: Path
    output: str
    figures: dict[str, Any]
    urls: set[str]


def crawl_example(project: Path, *options: str) -> ExampleCrawl:
    """Crawl the example in a copy of the project, which is made where there is none."""
    if not project.exists():
        ignored = shutil.ignore_patterns(".scrapy", "__pycache__", ".*_cache")
        shutil.copytree(PROJECT, project, ignore=ignored)
    outputs = ["-a", "summary=summary.json", "-O", "items.jsonl"]
    command = ("-m", "scrapy", "crawl", "docs", *outputs, *options)
    # Of 544 pages: where ten others compute, too, it takes two minutes.
    done = run_python(*command, cwd=project, seconds=2 * PATIENCE_SECONDS)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    # The last that is written: a crawl that has it is whole.
    (project / "output.txt").write_text(done.stdout, encoding="utf-8")
    crawl = read_crawl(project)
    assert crawl is not None
    return crawl


def read_crawl(project: Path) -> ExampleCrawl | None:
    """Read what the last crawl in a project left, or None where there was none."""
    if not (project / "output.txt").exists():
        return None
    lines = (project / "items.jsonl").read_text(encoding="utf-8").splitlines()
    return ExampleCrawl(
        project,
        (project / "output.txt").read_text(encoding="utf-8"),
        json.loads((project / "summary.json").read_text(encoding="utf-8")),
        {json.loads(line)["url"] for line in lines},
    )
