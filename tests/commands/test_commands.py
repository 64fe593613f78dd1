"""`scrapy simhash COMMAND`: answers for people and for programs, exit codes, refusals."""

import signal
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scrapy_simhash.commands import look
from scrapy_simhash.config import Config
from tests.helpers.commanding import AGAIN, Run
from tests.helpers.crawling import read_files


def test_an_unknown_setting_is_named(run: Run, store: Path) -> None:
    done = run("-s", "SIMHASH_DIR=x", "log", "--store", store)
    assert done.exit_code == 0
    assert done.err == "ignored settings that do not exist: SIMHASH_DIR\n"


@pytest.mark.parametrize("json_", [[], ["--json"]])
def test_interrupted(run: Run, monkeypatch: pytest.MonkeyPatch, json_: list[str]) -> None:
    """Nobody takes it for "nothing found"."""

    def interrupt(config: Config, _: Namespace) -> Iterator[dict[str, Any]]:
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
