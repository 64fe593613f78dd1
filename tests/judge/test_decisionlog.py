"""The decision log: whole lines whoever reads or writes at the same time, whatever a page says."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from scrapy_simhash.judge.log import CrawlLog
from tests.helpers.crawling import read_lines
from tests.helpers.processes import PATIENCE_SECONDS, ROOT, start_python

HOSTILE = [
    "two\nlines\r\nand\u2028more\u2029\x85\x0b\x0c",
    *("\x1b[2J\x1b]0;title\x07 escape", "lone \ud800 and \udfff surrogates", "nul \0 and \x7f"),
    *('"quoted" \\ {"status": "new"}', "\u202eright to left", "中文"),
]


def write(path: str | Path, *lines: dict[str, Any]) -> int:
    """Write a log; returns how many lines were lost."""
    log = CrawlLog(str(path))
    for line in lines:
        log.write(line)
    log.close()
    log.close()  # harmless
    return log.lost


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_one_line_of_ascii(tmp_path: Path, text: str) -> None:
    path = tmp_path / "log.jsonl"
    write(path, {"url": text, text: 1})
    octets = path.read_bytes()
    assert octets.count(b"\n") == 1
    assert octets.endswith(b"\n")
    assert set(octets[:-1]) <= set(range(0x20, 0x7F))
    assert json.loads(octets) == {"url": text, text: 1}


TWO_WRITERS = """
import sys, time
from pathlib import Path
from scrapy_simhash.judge.log import CrawlLog

path = Path(sys.argv[1])
other = {"a": b'"writer":"b"', "b": b'"writer":"a"'}[sys.argv[2]]
log = CrawlLog(str(path))
Path(sys.argv[1] + sys.argv[2]).touch()
while not all(Path(sys.argv[1] + writer).exists() for writer in "ab"):
    pass
for number in range(1500):
    while number == 750 and other not in path.read_bytes():
        time.sleep(0.01)  # the other one's lines come between
    log.write({"writer": sys.argv[2], "number": number, "text": "x" * (number % 900)})
log.close()
"""


def test_two_processes_append_to_one_log(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    with (
        start_python("-c", TWO_WRITERS, path, "a", cwd=ROOT) as first,
        start_python("-c", TWO_WRITERS, path, "b", cwd=ROOT) as second,
    ):
        assert first.wait(PATIENCE_SECONDS) == second.wait(PATIENCE_SECONDS) == 0
    lines = read_lines(path)
    for writer in "ab":
        numbers = [line["number"] for line in lines if line["writer"] == writer]
        assert numbers == list(range(1_500))
    assert len(lines) == 3_000
    turns = [line["writer"] for line in lines]
    assert "".join(turns) not in ("a" * 1_500 + "b" * 1_500, "b" * 1_500 + "a" * 1_500)


def test_full_disk_is_counted_and_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    assert write("/dev/full", *({"number": number} for number in range(5))) == 5
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "/dev/full" in record.getMessage()
    assert "No space left" in record.getMessage()


def test_line_cut_by_a_full_disk_spoils_no_later_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is room for six bytes of the second line."""
    path, write_as_ever, room = tmp_path / "log.jsonl", os.write, iter([99, 6])
    cut = lambda file, data: write_as_ever(file, data[: next(room, 99)])  # noqa: E731
    monkeypatch.setattr(os, "write", cut)
    assert write(path, *({"number": number} for number in range(3))) == 1
    assert path.read_bytes() == b'{"number":0}\n{"numb\n{"number":2}\n'


def test_line_cut_by_a_crash_is_ended_at_opening(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"number":0}\n{"numb')
    write(path, {"number": 2})
    assert path.read_bytes() == b'{"number":0}\n{"numb\n{"number":2}\n'
