"""Reading decision logs back, and filters."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scrapy_simhash.judge import log as log_module
from tests.helpers.commanding import Run


def decide(url: str, status: str, crawl: str, **fields: Any) -> dict[str, Any]:
    return {"url": f"http://{url}", "status": status, "reason": "", "crawl": crawl, **fields}


ORIGINAL = "http://a.example/1"
DECISIONS = [
    decide("a.example/1", "new", "one"),
    decide("a.example/2", "near_duplicate", "one", distance=0, match_url=ORIGINAL),
    decide("b.example/3", "near_duplicate", "two", distance=3, match_url=ORIGINAL),
    decide("b.example/4", "not_judged", "two", reason="empty"),
    decide("b.example/1", "revisit", "two", reason="unchanged"),
]


def read_log(path: Path, **options: Any) -> Iterator[dict[str, Any]]:
    return (json.loads(line) for _, line in log_module.read_log(path, **options))


def write(path: Path, *decisions: dict[str, Any], end: str = "") -> None:
    with path.open("a", encoding="ascii") as file:
        file.write("".join(json.dumps(decision) + "\n" for decision in decisions) + end)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.jsonl"
    write(path, *DECISIONS)
    return path


@pytest.mark.parametrize(
    ("options", "numbers"),
    [
        *(("", [0, 1, 2, 3, 4]), ("--status near_duplicate", [1, 2]), ("--status not_judged", [3])),
        *(("--url b.example", [2, 3, 4]), ("--url a.example/1", [0, 1, 2])),
        *(("--crawl one", [0, 1]), ("--crawl last", [2, 3, 4])),
        ("--status near_duplicate --crawl two --url b.", [2]),
        ("--status near_duplicate --url /4", []),
    ],
)
def test_filters(run: Run, log: Path, options: str, numbers: list[int]) -> None:
    done = run("log", "--log", log, "--json", *options.split())
    assert done.answers == [DECISIONS[number] for number in numbers]
    assert (done.exit_code, done.err) == (0 if numbers else 1, "")


NO_DECISIONS = ["no JSON", "[1, 2]", '"text"', '{"half":', "\x1b[2J\xff", "[" * 100_000]


@pytest.mark.parametrize("line", NO_DECISIONS)
def test_a_file_without_decisions_is_refused_and_shown_escaped(
    tmp_path: Path, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.jsonl"
    log.write_bytes(2 * (line.encode("latin-1") + b"\n"))
    with pytest.raises(ValueError, match=r"log\.jsonl: .* is not a decision") as raised:
        list(read_log(log))
    assert str(raised.value).isprintable()
    assert line[:4].encode("unicode_escape").decode() in str(raised.value)
    assert capsys.readouterr().err == ""


def test_damaged_lines_are_passed_over_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong: list[dict[str, Any]] = [
        *({"time": time} for time in ("noon", float("inf"), float("nan"), 1e300)),
        *({"url": url} for url in (1, None)),
        *({"distance": distance} for distance in ("3", 1.5)),
        *({"status": ["new"]}, {"similarity": "alike"}, {"match_url": {}}, {"crawl": 7}),
    ]
    lines = [*NO_DECISIONS, *(json.dumps({**DECISIONS[1], **fields}) for fields in wrong)]
    log = tmp_path / "log.jsonl"
    for line in lines:
        write(log, DECISIONS[0])
        with log.open("ab") as file:
            file.write(line.encode("latin-1") + b"\n")
    assert list(read_log(log)) == [DECISIONS[0]] * len(lines)
    assert capsys.readouterr().err == f"{len(lines)} damaged lines were skipped in {log}\n"
    assert list(read_log(log, damaged=[])) == [DECISIONS[0]] * len(lines)
    assert capsys.readouterr().err == ""
