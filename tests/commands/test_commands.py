"""`scrapy simhash COMMAND`: answers for people and for programs, exit codes, refusals."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scrapy_simhash.commands import look
from scrapy_simhash.config import Config
from scrapy_simhash.pages.fingerprint import fingerprint_page
from scrapy_simhash.stores.opening import open_store
from tests.helpers.commanding import AGAIN, ONE, Run, assert_printable
from tests.helpers.crawling import read_files
from tests.helpers.pages import edit_words, make_page, make_words, page


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    first, second = tmp_path / "first.html", tmp_path / "second.html"
    first.write_text(page(1), encoding="utf-8")
    second.write_text(make_page(edit_words(make_words(1), 30)), encoding="utf-8")
    return first, second


def test_stats(run: Run, store: Path) -> None:
    out = run.text("stats", "--store", store)
    assert "documents: 4\n" in out
    assert "near duplicates: 1\n" in out
    assert "design: 4\n" in out
    assert AGAIN not in out
    for text in (out, run("stats", "--help").out):
        assert "stubs: too short for a simhash" in text
    assert_printable(out)
    answer = run.answer("stats", "--store", store)
    with open_store(str(store), readonly=True) as opened:
        assert answer == opened.stats()
    assert answer["distances"] == {"0": 1}


def test_query_by_url_file_hex_and_stdin(
    run: Run, store: Path, files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    by_url = run.answers("query", ONE, "--store", store)
    # By its main text and by its whole text; the duplicate is not in the tables.
    found = {(each["url"], each["distance"], each["state"]) for each in by_url}
    assert found == {(ONE, 0, "done")}
    assert len({each["query"] for each in by_url}) == len(by_url) <= 2
    answer = run.answer("query", files[0], "--store", store)
    assert answer in by_url
    for text in (answer["fingerprint"], "0x" + answer["fingerprint"].upper()):
        assert run.answer("query", text, "--store", store) == answer
    with files[0].open(encoding="utf-8") as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert run.answer("query", "-", "--store", store) == answer
    lines = run.text("query", AGAIN, "--store", store).splitlines()
    assert f" 0 bits  done         {ONE}" in lines
    assert all(line.endswith(f" bits  done         {ONE}") for line in lines)


def test_query_distance(run: Run, store: Path) -> None:
    near = run.answer("query", ONE, "--store", store, "--distance", "0")
    with open_store(str(store), readonly=True) as opened:
        document = opened.get_document(near["document"])  # the answer names one fingerprint of it
    assert document
    flipped = f"{document.facts.fingerprint ^ 3:016x}"
    found = run.answers("query", flipped, "--store", store)
    assert [(answer["url"], answer["distance"]) for answer in found] == [(ONE, 2)]
    assert run("query", flipped, "--store", store, "--distance", "1").exit_code == 1


def test_fingerprint_of_files(run: Run, files: tuple[Path, Path]) -> None:
    answers = run.answers("query", "--fingerprint", *files)
    assert [answer["file"] for answer in answers] == [str(path) for path in files]
    made = fingerprint_page(files[0].read_bytes())
    answer = answers[0]
    assert answer["fingerprint"] == f"{made.facts.fingerprint:016x}"
    assert (answer["features"], answer["words"]) == (made.facts.features, made.facts.words)
    assert answer["extract_ms"] > 0
    out = run.text("query", "--fingerprint", files[0])
    assert out.isascii()
    assert json.loads(out)["fingerprint"] == answer["fingerprint"]


def test_an_unknown_setting_is_named(run: Run, store: Path) -> None:
    done = run("-s", "SIMHASH_DIR=x", "stats", "--store", store)
    assert done.exit_code == 0
    assert done.err == "ignored settings that do not exist: SIMHASH_DIR\n"


@pytest.mark.parametrize("json_", [[], ["--json"]])
@pytest.mark.parametrize(
    ("arguments", "exit_code"), [(["stats"], 130), (["log"], 130), (["log", "--follow"], 0)]
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

    for name in ("stats", "log"):
        monkeypatch.setitem(look.COMMANDS, name, look.COMMANDS[name]._replace(runner=interrupt))
    done = run(*arguments, *json_)
    assert (done.exit_code, done.out, done.err) == (exit_code, "", "")


def test_looking_changes_nothing(run: Run, store: Path) -> None:
    before = read_files(store)
    for arguments in (["stats"], ["log"], ["query", ONE], ["explain", AGAIN]):
        assert run(*arguments, "--store", store).exit_code == 0
    assert read_files(store) == before
