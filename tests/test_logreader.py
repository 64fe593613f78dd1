"""Reading decision logs back: filters, the last few, following a crawl, summaries."""

import json
from collections import deque
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scrapy_simhash.logreader import LogFilter, read_log, summarise

DECISIONS: list[dict[str, Any]] = [
    {"url": "http://a.example/1", "status": "new", "reason": "", "crawl": "one"},
    {
        "url": "http://a.example/2",
        "status": "near_duplicate",
        "reason": "",
        "crawl": "one",
        "distance": 0,
        "match_url": "http://a.example/1",
    },
    {
        "url": "http://b.example/3",
        "status": "near_duplicate",
        "reason": "",
        "crawl": "two",
        "distance": 3,
        "match_url": "http://a.example/1",
    },
    {"url": "http://b.example/4", "status": "unjudged", "reason": "empty", "crawl": "two"},
    {"url": "http://b.example/1", "status": "revisit", "reason": "unchanged", "crawl": "two"},
]


def write(path: Path, *decisions: dict[str, Any], end: str = "") -> None:
    with path.open("a", encoding="ascii") as file:
        file.write("".join(json.dumps(decision) + "\n" for decision in decisions) + end)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.jsonl"
    write(path, *DECISIONS)
    return path


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        (LogFilter(), [0, 1, 2, 3, 4]),
        (LogFilter(status="near_duplicate"), [1, 2]),
        (LogFilter(status="unjudged"), [3]),
        (LogFilter(url="b.example"), [2, 3, 4]),
        (LogFilter(url="a.example/1"), [0, 1, 2]),
        (LogFilter(distance=0), [1]),
        (LogFilter(distance=3), [2]),
        (LogFilter(crawl="one"), [0, 1]),
        (LogFilter(status="near_duplicate", crawl="two", distance=3, url="b."), [2]),
        (LogFilter(status="near_duplicate", crawl="two", distance=0), []),
    ],
)
def test_filter(log: Path, wanted: LogFilter, numbers: list[int]) -> None:
    assert list(read_log(log, wanted)) == [DECISIONS[number] for number in numbers]


@pytest.mark.parametrize(("last", "numbers"), [(1, [2]), (2, [1, 2]), (9, [1, 2]), (0, [])])
def test_last_counts_what_is_wanted(log: Path, last: int, numbers: list[int]) -> None:
    wanted = LogFilter(status="near_duplicate")
    assert list(read_log(log, wanted, last=last)) == [DECISIONS[number] for number in numbers]


def test_line_that_is_being_written_is_left_out(log: Path) -> None:
    write(log, end='{"url": "http://a.exam')
    assert list(read_log(log, LogFilter())) == DECISIONS


def test_empty_log_has_no_decisions(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").touch()
    assert list(read_log(tmp_path / "log.jsonl", LogFilter())) == []


def test_missing_log_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list(read_log(tmp_path / "log.jsonl", LogFilter()))


@pytest.mark.parametrize("line", ["no JSON", "[1, 2]", '"text"', '{"half":', "\x1b[2J\xff"])
def test_line_that_is_no_decision_is_shown_escaped(log: Path, line: str) -> None:
    with log.open("ab") as file:
        file.write(line.encode("latin-1") + b"\n")
    with pytest.raises(ValueError, match=r"log\.jsonl: .* is no decision") as raised:
        list(read_log(log, LogFilter()))
    assert str(raised.value).isprintable()
    assert line[:4].encode("unicode_escape").decode() in str(raised.value)


@pytest.fixture
def at_the_end(monkeypatch: pytest.MonkeyPatch) -> deque[Callable[[], None]]:
    """What happens each time a follower has read all there is and would sleep."""
    script: deque[Callable[[], None]] = deque()
    sleeping = SimpleNamespace(sleep=lambda _: script.popleft()())
    monkeypatch.setattr("scrapy_simhash.logreader.time", sleeping)
    return script


def follow(log: Path, count: int, last: int | None = None) -> list[dict[str, Any]]:
    return list(islice(read_log(log, LogFilter(), last=last, follow=True), count))


def test_follow_goes_on_with_what_is_written_later(
    log: Path, at_the_end: deque[Callable[[], None]]
) -> None:
    at_the_end += [
        lambda: write(log, DECISIONS[1], DECISIONS[2]),
        lambda: None,
        lambda: write(log, DECISIONS[0]),
    ]
    assert follow(log, 5, last=2) == [*DECISIONS[3:], *DECISIONS[1:3], DECISIONS[0]]
    assert not at_the_end


def test_follow_waits_for_the_rest_of_a_line(
    log: Path, at_the_end: deque[Callable[[], None]]
) -> None:
    line = json.dumps(DECISIONS[0])
    at_the_end += [
        lambda: write(log, end=line[:10]),
        lambda: write(log, end=line[10:30]),
        lambda: write(log, end=line[30:]),
        lambda: write(log, end="\n"),
        lambda: write(log, DECISIONS[1]),
    ]
    assert follow(log, 7) == [*DECISIONS, *DECISIONS[:2]]


def test_follow_may_begin_within_a_line(log: Path, at_the_end: deque[Callable[[], None]]) -> None:
    line = json.dumps(DECISIONS[0])
    write(log, end=line[:20])
    at_the_end.append(lambda: write(log, end=line[20:] + "\n"))
    assert follow(log, 6) == [*DECISIONS, DECISIONS[0]]


def test_follow_sleeps_between_looks(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Slept(Exception):  # noqa: N818
        pass

    def sleep(seconds: float) -> None:
        assert 0.01 <= seconds <= 1
        raise Slept

    monkeypatch.setattr("scrapy_simhash.logreader.time", SimpleNamespace(sleep=sleep))
    with pytest.raises(Slept):
        follow(log, 6)


def test_summary_counts_statuses_distances_and_groups() -> None:
    (summary,) = summarise(DECISIONS)
    counts = {"first_time": 0, "last_time": 0, "revisit": 0, "unjudged": 0}
    assert summary == {
        "pages": 5,
        "crawls": [
            {**counts, "crawl": "one", "pages": 2, "new": 1, "near_duplicate": 1},
            {
                **counts,
                "crawl": "two",
                "pages": 3,
                "new": 0,
                "near_duplicate": 1,
                "revisit": 1,
                "unjudged": 1,
            },
        ],
        "statuses": {
            "near_duplicate": 2,
            "new": 1,
            "unjudged (empty)": 1,
            "revisit (unchanged)": 1,
        },
        "distances": {"0": 1, "3": 1},
        "largest_groups": {"http://a.example/1": 2},
    }


def test_summary_of_nothing() -> None:
    assert list(summarise([])) == []


def test_summary_counts_what_was_dropped_again_once_in_a_group() -> None:
    again = {**DECISIONS[1], "crawl": "two", "match_url": None}
    (summary,) = summarise([*DECISIONS, again, {**DECISIONS[2], "crawl": "three"}], top=1)
    assert summary["statuses"]["near_duplicate"] == 4
    assert summary["largest_groups"] == {"http://a.example/1": 2}
    (summary,) = summarise([again])
    assert summary["largest_groups"] == {"(an imported fingerprint)": 1}
