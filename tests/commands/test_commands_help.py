"""All commands: what `--help` says, Ctrl-C."""

import argparse
import signal

import pytest

from scrapy_simhash.commands import look
from scrapy_simhash.commands.command import add_commands
from tests.helpers.commanding import Run

COMMANDS = add_commands(argparse.ArgumentParser())


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
