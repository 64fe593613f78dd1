"""The example crawl, one request at a time, on a clock that ticks by itself.

As a script it crawls: `python crawl.py FOLDER`, a copy of the example project.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.golden.lines import Line

PROJECT = Path(__file__).parents[2] / "example_project"
SEED = 1


def run_crawl(url: str = "") -> Iterator[Line]:
    """Crawl the example with a new store; gives a line for each page, as the decision log has it.

    Args:
        url: of the store; "" for a folder of the project.
    """
    from tests.golden.lines import Line, show_tests  # noqa: PLC0415 - the script needs none of it

    with TemporaryDirectory() as name:
        project = Path(name) / "project"
        ignored = shutil.ignore_patterns(".scrapy", "__pycache__", ".*_cache")
        shutil.copytree(PROJECT, project, ignore=ignored)
        subprocess.run(
            [sys.executable, __file__, project, url or project / "store"],
            cwd=project,
            check=True,
            stdout=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(project), *sys.path])},
        )
        numbers: dict[str, int] = {}
        for entry in map(json.loads, (project / "log.jsonl").read_text().splitlines()):
            page = numbers.setdefault(entry["url"], len(numbers))
            text = f"{page} {entry['status']} {entry['reason']}".rstrip()
            if entry["status"] == "near_duplicate":
                text += (
                    f" {numbers[entry['match_url']]} {entry['distance']} "
                    f"{entry['similarity']:.3f} [{show_tests(entry['tests'])}]"
                )
            yield Line(text, entry["url"])


class _Clock(datetime):
    """Each time that it is read a little later."""

    _now = datetime(2026, 11, 22, 12, tzinfo=UTC)

    @classmethod
    def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
        """Read it."""
        del tz
        cls._now += timedelta(seconds=0.731_207)
        return cls._now


def main() -> None:
    """Crawl."""
    from docsite import HOST, templates  # noqa: PLC0415
    from scrapy.crawler import AsyncCrawlerProcess  # noqa: PLC0415
    from scrapy.utils.project import get_project_settings  # noqa: PLC0415

    from scrapy_simhash import open_store  # noqa: PLC0415

    vars(templates)["datetime"] = _Clock
    url = sys.argv[2]
    open_store(url, seed=SEED).close()
    settings = get_project_settings()
    settings.setdict(
        {
            "SIMHASH_STORE": url,
            "SIMHASH_LOG": str(Path.cwd() / "log.jsonl"),
            "SIMHASH_PROCESSES": 0,
            "CONCURRENT_REQUESTS": 1,
            "DOWNLOAD_SLOTS": {HOST: {"delay": 0, "concurrency": 1, "jitter": 0}},
            "LOG_LEVEL": "WARNING",
            "TELNETCONSOLE_ENABLED": False,
        },
        priority="cmdline",
    )
    process = AsyncCrawlerProcess(settings)
    process.crawl("docs")
    process.start()


if __name__ == "__main__":
    main()
