"""The commands, run in this process as `scrapy` runs them, and a store to look at."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from scrapy.cmdline import execute

from tests.helpers.judging import fill
from tests.helpers.pages import edit_words, make_page, make_words, page

ONE, AGAIN, TWO, EMPTY = (
    f"http://site.example/{name}" for name in ("one", "again", "two", "empty")
)
HOSTILE = "http://site.example/\x1b[2J\u202egnp\x9b\x07\n\x00"
HOSTILE_TITLE = "\x1b]0;owned\x07\u202e \x9b A page"


@dataclass(frozen=True)
class Done:
    """A command that ended."""

    exit_code: int
    out: str
    err: str

    @property
    def answers(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


class Run:
    """Runs commands; `text`, `answers`, `failed` and `refused` require their exit code, too."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: object) -> Done:
        with pytest.raises(SystemExit) as ended:
            execute(["scrapy", "simhash", *map(str, arguments)])
        assert isinstance(ended.value.code, int)
        return Done(ended.value.code, *self._capsys.readouterr())

    def text(self, *arguments: object) -> str:
        """What a command prints that says nothing else."""
        done = self(*arguments)
        assert (done.exit_code, done.err) == (0, "")
        return done.out

    def answers(self, *arguments: object) -> list[dict[str, Any]]:
        """What it answers with `--json`."""
        return Done(0, self.text(*arguments, "--json"), "").answers

    def answer(self, *arguments: object) -> dict[str, Any]:
        """Its only answer."""
        (answer,) = self.answers(*arguments)
        return answer

    def failed(self, *arguments: object, exit_code: int = 1) -> str:
        """The error of a command that finds nothing."""
        done = self(*arguments)
        assert (done.exit_code, done.out) == (exit_code, "")
        return done.err

    def refused(self, *arguments: object) -> str:
        """The error of one that was asked wrongly."""
        return self.failed(*arguments, exit_code=2)


def crawl_into(store: Path) -> None:
    """Fill a store and its log with an original, a copy, a relation, a villain, an empty page."""
    pages = (
        (ONE, page(1, title=HOSTILE_TITLE)),
        (AGAIN, page(1, title=HOSTILE_TITLE, menu="Other menu")),
        (TWO, make_page(edit_words(make_words(1), 150))),
        (HOSTILE, page(3, title=HOSTILE_TITLE)),
        (EMPTY, ""),
    )
    fill(store, pages)


def assert_printable(text: str) -> None:
    assert all(line.isprintable() for line in text.split("\n")), text
