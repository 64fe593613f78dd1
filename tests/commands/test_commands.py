"""`scrapy simhash COMMAND`: answers for people and for programs, exit codes, refusals."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scrapy_simhash.commands import look
from scrapy_simhash.config import Config
from tests.helpers.commanding import AGAIN, ONE, Run
from tests.helpers.crawling import read_files
from tests.helpers.pages import edit_words, make_page, make_words, page


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    first, second = tmp_path / "first.html", tmp_path / "second.html"
    first.write_text(page(1), encoding="utf-8")
    second.write_text(make_page(edit_words(make_words(1), 30)), encoding="utf-8")
    return first, second


def test_near_pages_by_file_hex_text_and_stdin(
    run: Run, store: Path, files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = run.answer("explain", files[0], "--store", store)
    assert (answer["url"], answer["distance"], answer["state"]) == (ONE, 0, "done")
    for text in (answer["fingerprint"], "0x" + answer["fingerprint"].upper()):
        assert run.answer("explain", text, "--store", store) == answer
    with files[0].open(encoding="utf-8") as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert run.answer("explain", "-", "--store", store) == answer
    assert run.text("explain", files[0], "--store", store) == f" 0 bits  done         {ONE}\n"
    assert run("explain", "words that no page has", "--store", store).exit_code == 1
    far = ("explain", f"{int(answer['fingerprint'], 16) ^ 3:016x}", "--store", store)
    assert [(each["url"], each["distance"]) for each in run.answers(*far)] == [(ONE, 2)]
    assert run("-s", "SIMHASH_DISTANCE=1", *far).exit_code == 1


def test_an_unknown_setting_is_named(run: Run, store: Path) -> None:
    done = run("-s", "SIMHASH_DIR=x", "log", "--store", store)
    assert done.exit_code == 0
    assert done.err == "ignored settings that do not exist: SIMHASH_DIR\n"


@pytest.mark.parametrize("json_", [[], ["--json"]])
@pytest.mark.parametrize(
    ("arguments", "exit_code"), [(["urls"], 130), (["log"], 130), (["log", "--follow"], 0)]
)
def test_interrupted(
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    exit_code: int,
    json_: list[str],
) -> None:
    """Ctrl-C is the only end of `--follow`; elsewhere nobody takes it for "nothing found"."""

    def interrupt(config: Config) -> Iterator[dict[str, Any]]:
        signal.raise_signal(signal.SIGINT)
        yield {"distance": config.distance}

    for name in ("urls", "log"):
        monkeypatch.setitem(look.COMMANDS, name, look.COMMANDS[name]._replace(runner=interrupt))
    done = run(*arguments, *json_)
    assert (done.exit_code, done.out, done.err) == (exit_code, "", "")


def test_looking_changes_nothing(run: Run, store: Path) -> None:
    before = read_files(store)
    for arguments in (["check"], ["log"], ["explain", AGAIN]):
        assert run(*arguments, "--store", store).exit_code == 0
    assert read_files(store) == before
