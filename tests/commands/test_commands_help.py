"""All commands: what `--help` says, examples that work, Ctrl-C."""

import argparse
import io
import shlex
import signal
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy.cmdline import ScrapyArgumentParser
from scrapy.commands import ScrapyHelpFormatter
from scrapy.settings import Settings

from scrapy_simhash.commands import look
from scrapy_simhash.commands.command import COMMANDS, SimhashCommand
from scrapy_simhash.config import Config
from tests.helpers.commanding import AGAIN, Run, crawl_into
from tests.helpers.crawling import read_files
from tests.helpers.pages import edit_words, make_page, make_words, page

EXAMPLES = [
    (name, example)
    for name, (module, _) in COMMANDS.items()
    for example in import_module(f"scrapy_simhash.commands.{module}").COMMANDS[name].examples
]
# They need a certain crawl, a WARC or Spark.
NOT_RUN = {"report -o", "spark", "import crawl.warc.gz"}

# What standard error says when they run one after the other: of a command that finds nothing, too.
TOLD = {
    "prune": "scrapy simhash prune: no document meets all criteria\n",
    "urls": (
        "scrapy simhash urls: no rule is proposed: that takes two pairs of stored pages, each of "
        "one page at two addresses that differ in the same part\n"
    ),
    "find-all --clusters --store .scrapy/simhash": (
        "scrapy simhash find-all: no two of 2 fingerprints are within 3 bits\n"
    ),
    "undo http://site.example/again --dry-run": "1 page listed, nothing undone\n",
    "undo --original http://site.example/one -o urls.txt": (
        "1 drop undone; what was dropped passes when it is fetched again\n"
    ),
    "undo --distance 7": "scrapy simhash undo: nothing to undo: no drop meets all criteria\n",
}


@pytest.fixture(scope="module")
def parser() -> argparse.ArgumentParser:
    made = ScrapyArgumentParser(formatter_class=ScrapyHelpFormatter, conflict_handler="resolve")
    command = SimhashCommand()
    command.settings = Settings()
    command.add_options(made)
    return made


def split(example: str) -> list[str]:
    return shlex.split(example.partition(" < ")[0], comments=True)


@pytest.mark.parametrize(("name", "example"), EXAMPLES)
def test_examples_can_be_parsed(parser: argparse.ArgumentParser, name: str, example: str) -> None:
    found, unknown = parser.parse_known_args(split(example))
    assert (found.simhash_command, unknown, split(example)[0]) == (name, [], name)


def test_examples_run(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawl_into(Path(".scrapy/simhash"))
    (tmp_path / "page.html").write_text(page(1), encoding="utf-8")
    other = make_page(edit_words(make_words(1), 30))
    (tmp_path / "other.html").write_text(other, encoding="utf-8")
    (tmp_path / "numbers.txt").write_text("1\n3\n7\n")
    for name, example in EXAMPLES:
        if not {name, " ".join(split(example)[:2])} & NOT_RUN:
            stdin = SimpleNamespace(buffer=io.BytesIO(b"1\n3\n7\n"))
            monkeypatch.setattr("sys.stdin", stdin)
            done = run(*split(example))
            nothing = done.out in {"nothing found\n", ""}
            said = TOLD.get(example, TOLD.get(name, "") if nothing else "")
            assert (done.exit_code, done.err) == (int(nothing and " -o " not in example), said), (
                example
            )


@pytest.mark.parametrize("name", COMMANDS)
def test_help(run: Run, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = run.text(name, "--help")
    assert out.startswith(f"usage: scrapy simhash {name} [-h] [--json]")
    assert f"examples:\n  scrapy simhash {name}" in out
    assert max(map(len, out.splitlines())) <= 80


def test_help_lists_all_commands(run: Run) -> None:
    done = run("--help")
    assert all(f"\n    {name} " in done.out for name in COMMANDS)
    assert max(map(len, done.out.splitlines())) <= 80


def test_an_unknown_setting_is_named(run: Run, store: Path) -> None:
    done = run("-s", "SIMHASH_DIR=x", "log", "--store", store)
    assert done.exit_code == 0
    assert done.err == "ignored settings that do not exist: SIMHASH_DIR\n"


@pytest.mark.parametrize("json_", [[], ["--json"]])
def test_interrupted(run: Run, monkeypatch: pytest.MonkeyPatch, json_: list[str]) -> None:
    """Nobody takes it for "nothing found"."""

    def interrupt(config: Config, _: argparse.Namespace) -> Iterator[dict[str, Any]]:
        signal.raise_signal(signal.SIGINT)
        yield {"distance": config.distance}

    interrupted = look.COMMANDS["urls"]._replace(run=interrupt)
    monkeypatch.setitem(look.COMMANDS, "urls", interrupted)
    done = run("urls", *json_)
    assert (done.exit_code, done.out, done.err) == (130, "", "")


def test_looking_changes_nothing(run: Run, store: Path) -> None:
    before = read_files(store)
    for arguments in (["check"], ["log"], ["explain", AGAIN]):
        assert run(*arguments, "--store", store).exit_code == 0
    assert read_files(store) == before
