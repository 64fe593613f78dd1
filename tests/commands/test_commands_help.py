"""All commands: what `--help` says, examples that work, Ctrl-C."""

import argparse
import io
import shlex
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest

from scrapy_simhash.commands import look
from scrapy_simhash.commands.command import add_commands
from tests.helpers.commanding import Run, crawl_into
from tests.helpers.pages import page

COMMANDS = add_commands(argparse.ArgumentParser())
# They need a certain crawl, a WARC or Spark.
NOT_RUN = ("report -o", "spark", "import crawl.warc.gz")
# What standard error says of the others when they run one after the other.
TOLD = {
    "prune --days": "scrapy simhash prune: no document meets all criteria\n",
    "urls": (
        "scrapy simhash urls: no rule is proposed: that takes two pairs of stored pages, each of "
        "one page at two addresses that differ in the same part\n"
    ),
    "undo http://site.example/again --dry-run": "1 page listed, nothing undone\n",
    "undo --original http://site.example/one": (
        "1 drop undone; what was dropped passes when it is fetched again\n"
    ),
}


def test_examples_run(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawl_into(Path(".scrapy/simhash"))
    (tmp_path / "page.html").write_text(page(1), encoding="utf-8")
    (tmp_path / "numbers.txt").write_text("1\n3\n7\n")
    parser = argparse.ArgumentParser()
    add_commands(parser)
    for name in COMMANDS:
        shown = run.text(name, "--help").partition("\nexamples:\n")[2].splitlines()
        examples = [line.removeprefix("  scrapy simhash ") for line in shown]
        assert examples
        for example in examples:
            words = shlex.split(example.partition(" < ")[0].partition(" >")[0], comments=True)
            assert parser.parse_args(words).simhash_command == name
            if not example.startswith(NOT_RUN):
                stdin = SimpleNamespace(buffer=io.BytesIO(b"1\n3\n7\n"))
                monkeypatch.setattr("sys.stdin", stdin)
                done = run(*words)
                told = [said for begin, said in TOLD.items() if example.startswith(begin)]
                assert done.err == "".join(told[-1:]) or example == "urls --output rules.json"
                nothing = done.out in {"", "nothing found\n"} and " -o " not in example
                assert done.exit_code == int(nothing), example


@pytest.mark.parametrize("name", COMMANDS)
def test_help(run: Run, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = run.text(name, "--help")
    assert out.startswith(f"usage: scrapy simhash {name} [-h] [--json]")
    every = run.text("--help")
    assert f"\n    {name} " in every
    assert max(map(len, f"{out}\n{every}".splitlines())) <= 80


@pytest.mark.parametrize("json_", [[], ["--json"]])
def test_interrupted(run: Run, monkeypatch: pytest.MonkeyPatch, json_: list[str]) -> None:
    """Nobody takes it for "nothing found"."""
    monkeypatch.setattr(look, "find_rules", lambda _: signal.raise_signal(signal.SIGINT))
    done = run("urls", *json_)
    assert (done.exit_code, done.out, done.err) == (130, "", "")
