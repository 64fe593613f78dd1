"""From an empty folder to the three answers a new user wants, by commands alone."""

import importlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.helpers.commanding import Run
from tests.helpers.examples import ExampleCrawl
from tests.helpers.processes import ROOT, run_scrapy

Ask: TypeAlias = Callable[..., str]


@pytest.fixture
def ask(
    example_crawl: ExampleCrawl, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Ask:
    """Ask in the project of the example; in this process, because to start another takes long."""
    monkeypatch.chdir(example_crawl.project)
    monkeypatch.syspath_prepend(example_crawl.project)
    monkeypatch.setenv("SCRAPY_SETTINGS_MODULE", "example.settings")
    run = Run(capsys)

    def ask(*command: str) -> str:
        done = run(*command)
        assert (done.exit_code, done.err) == (0, "")
        return done.out

    return ask


def test_which_ten_pages_caused_the_most_drops_and_why(ask: Ask) -> None:
    said = ask("log", "--summary")
    worst_pages = re.findall(r"^  (http\S+): (\d+)$", said, re.MULTILINE)
    assert 1 <= len(worst_pages) <= 10
    worst, drops = worst_pages[0]
    assert int(drops) >= 2
    listed = ask("log", "--status", "near_duplicate", "--json")
    decisions = [json.loads(line) for line in listed.splitlines()]
    dropped = [each["url"] for each in decisions if each["match_url"] == worst]
    assert len(set(dropped)) == int(drops)

    said = ask("explain", dropped[0])
    assert said.startswith(f"{dropped[0]}: near-duplicate of {worst}, ")
    assert re.search(r"\ndecided +\w+", said)


@pytest.mark.slow
def test_what_would_another_k_change(ask: Ask) -> None:
    answer = json.loads(ask("evaluate", "--distance", "5", "--json"))
    assert (answer["distance"], answer["confirm"]) == (5, 0.9)
    assert answer["dropped_before"] > answer["documents"] / 4
    assert answer["dropped_then"] > 0
    difference = answer["kept_to_dropped"] - answer["dropped_to_kept"]
    assert answer["dropped_then"] == answer["dropped_before"] + difference
    assert len(answer["changes"]) == answer["kept_to_dropped"] + answer["dropped_to_kept"]
    same = json.loads(ask("evaluate", "--json"))
    assert (same["changes"], same["dropped_then"]) == ([], same["dropped_before"])


@pytest.mark.slow
def test_a_project_as_scrapy_makes_it_needs_one_line(tmp_path: Path) -> None:
    folder = tmp_path / "bot"
    made = run_scrapy("startproject", "bot", cwd=folder.parent)
    assert made.returncode == 0, made.stderr
    made = run_scrapy("genspider", "-t", "crawl", "docs", "127.0.0.1", cwd=folder)
    assert made.returncode == 0, made.stderr
    settings = folder / "bot" / "settings.py"
    with settings.open("a", encoding="utf-8") as file:
        file.write('ADDONS = {"scrapy_simhash.Addon": 500}\n')
    spider = folder / "bot" / "spiders" / "docs.py"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "example_project")
        docsite = importlib.import_module("docsite")
    with docsite.serve() as url:
        text = spider.read_text(encoding="utf-8").replace(r'allow=r"Items/"', 'allow=r""')
        text = re.sub(r'start_urls = \[".*"\]', f'start_urls = ["{url}"]', text)
        spider.write_text(text, encoding="utf-8")
        # The site is on this machine, and 40 pages do as well as all.
        quick = {"DOWNLOAD_DELAY": 0, "CLOSESPIDER_PAGECOUNT": 40, "LOG_LEVEL": "WARNING"}
        options = [word for name, value in quick.items() for word in ("-s", f"{name}={value}")]
        done = run_scrapy("crawl", "docs", *options, cwd=folder)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "Error" not in done.stderr
    said = json.loads(run_scrapy("simhash", "stats", "--json", cwd=folder).stdout)
    assert said["documents"] > 20
