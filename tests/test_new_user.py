"""From an empty folder to the three answers a new user wants, by commands alone."""

import importlib
import json
import re
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.processes import ROOT, run_scrapy


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project as Scrapy makes it, plus the line of the add-on, after a crawl of the example."""
    folder = tmp_path_factory.mktemp("new") / "bot"
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
        # The site is on this machine, and 100 pages answer as well as all.
        quick = {"DOWNLOAD_DELAY": 0, "CLOSESPIDER_PAGECOUNT": 100, "LOG_LEVEL": "WARNING"}
        options = [word for name, value in quick.items() for word in ("-s", f"{name}={value}")]
        done = run_scrapy("crawl", "docs", *options, cwd=folder)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "Error" not in done.stderr
    return folder


def ask(project: Path, *command: str) -> CompletedProcess[str]:
    done = run_scrapy("simhash", *command, cwd=project)
    assert (done.returncode, done.stderr) == (0, "")
    return done


def test_which_ten_pages_caused_the_most_drops_and_why(project: Path) -> None:
    said = ask(project, "log", "--summary").stdout
    table = said.partition("\nPages that caused the most drops:\n")[2].splitlines()
    assert re.fullmatch(r"drops  page", table[0])
    assert 2 <= len(table) <= 11
    drops, worst = table[1].split()
    assert int(drops) >= 2
    listed = ask(project, "log", "--status", "near_duplicate", "--json").stdout
    decisions = [json.loads(line) for line in listed.splitlines()]
    dropped = [each["url"] for each in decisions if each["match_url"] == worst]
    assert len(set(dropped)) == int(drops)

    said = ask(project, "explain", dropped[0]).stdout
    assert said.startswith(f"{dropped[0]}: near-duplicate of {worst}, ")
    assert "\ntest: main text " in said
    assert "\nblock  its bits" in said


def test_what_would_another_k_change(project: Path) -> None:
    answer = json.loads(ask(project, "what-if", "--distance", "5", "--json").stdout)
    assert (answer["distance"], answer["confirm"]) == (5, 0.8)
    assert answer["dropped_before"] > answer["documents"] / 4
    assert answer["dropped_then"] > 0
    difference = answer["kept_to_dropped"] - answer["dropped_to_kept"]
    assert answer["dropped_then"] == answer["dropped_before"] + difference
    assert len(answer["changes"]) == answer["kept_to_dropped"] + answer["dropped_to_kept"]
    same = json.loads(ask(project, "what-if", "--json").stdout)
    assert (same["changes"], same["dropped_then"]) == ([], same["dropped_before"])
