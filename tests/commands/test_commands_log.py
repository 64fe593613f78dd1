"""`scrapy simhash log`: read, filtered, summed up, and piped into less."""

import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.helpers.commanding import AGAIN, HOSTILE, ONE, TWO, Run, assert_printable
from tests.helpers.judging import new_line
from tests.helpers.processes import PATIENCE_SECONDS, start_python


def test_log(run: Run, store: Path) -> None:
    out = run.text("log", "--store", store)
    lines = out.splitlines()
    # Below each page that was compared stands with which, and what came of it.
    assert len([line for line in lines if not line.startswith(" ")]) == 5
    assert lines[1].endswith(f"  near_duplicate  {AGAIN}")
    assert lines[2].startswith("    0 bits, ")
    assert lines[2].endswith(f" alike, of {ONE}")
    when = datetime.fromisoformat(lines[-1].partition("  ")[0] + "+00:00")
    assert abs(when - datetime.now(UTC)) < timedelta(hours=1)
    assert lines[-1].endswith("  not_judged      http://site.example/empty  (empty)")
    assert_printable(out)
    answers = run.answers("log", "--store", store)
    assert [answer["url"] for answer in answers][:3] == [ONE, AGAIN, TWO]
    assert answers[3]["url"] == HOSTILE


def test_log_summary(run: Run, store: Path) -> None:
    done = run("log", "--summary", "--store", store)
    assert done.out.startswith("What did it save? 1 of 4 pages judged (25.0 %) was dropped as a ")
    assert "\nIs anything lost? Not judged: 1 page; it came through, even if a copy.\n" in done.out
    assert "\npages: 5 (1 not judged)\n" in done.out
    assert f"\npages that caused the most drops:\n  {ONE}: 1\n" in done.out
    assert "\n  near-duplicates: 1\n  not judged because its body is empty: 1\n" in done.out
    assert "\nactions:\n  Dropped: 1\n" in done.out


def test_log_summary_says_that_there_are_several_crawls(run: Run, tmp_path: Path) -> None:
    def decide(crawl: str, name: str, **fields: object) -> str:
        made = new_line(f"http://site.example/{name}", crawl)
        dropped = {"status": "near_duplicate", "action": "drop", "distance": 1}
        return json.dumps({**made, **dropped, **fields}) + "\n"

    groups = [f"http://site.example/{number}" for number in range(12)]
    lines = [
        decide(crawl, f"{number}-{copy}", match_url=url)
        for crawl in ("20261121T132732-d2448e9f", "20261122T132732-second")
        for number, url in enumerate(groups)
        for copy in range(number + 1)
    ]
    path = tmp_path / "log.jsonl"
    path.write_text("".join(lines), encoding="ascii")
    done = run("log", "--summary", "--log", path, "--crawl", "all")
    assert "\npages: 156\n" in done.out
    worst = done.out.partition("\npages that caused the most drops:\n")[2].splitlines()[:10]
    assert worst == [f"  {groups[number]}: {number + 1}" for number in range(11, 1, -1)]
    done = run("log", "--summary", "--log", path)
    assert "\npages: 78\n" in done.out
    assert "\n20261122T132732-second " in done.out
    assert "d2448e9f" not in done.out


@pytest.mark.parametrize(
    ("options", "exit_code"),
    [((), 0), pytest.param(("--status", "new"), 1, marks=pytest.mark.slow)],
)
def test_pipe_may_be_closed_early(tmp_path: Path, options: tuple[str, ...], exit_code: int) -> None:
    """Also where nothing is found, which nobody reads."""
    decision = json.dumps(new_line("http://site.example/" + "x" * 500, "crawl"))
    (tmp_path / "log.jsonl").write_text(f"{decision}\n" * 1_000, encoding="ascii")
    log = ("-m", "scrapy", "simhash", "log", *options, "--store", str(tmp_path))
    with start_python(*log, cwd=tmp_path) as process:
        assert process.stdout
        assert process.stderr
        if not options:
            assert "not_judged" in process.stdout.readline()
        process.stdout.close()
        assert process.wait(PATIENCE_SECONDS) == exit_code
        assert process.stderr.read() == ""


SPIDERS = ("\u5e97\u8217", "shop", "\u0634\u0631\u0627\u0621", "[red]\x1b[2J")


def write_crawls(path: Path) -> None:
    """Write a log of spiders whose names have wide letters, run leftwards, or steer terminals."""
    lines = [new_line("http://site.example/", spider, spider=spider) for spider in SPIDERS]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "ascii")


class Terminal(io.TextIOWrapper):
    """One that knows ASCII only."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("columns", "below"), [(40, True), (200, False)])
def test_a_table_that_is_too_wide_for_a_terminal_is_shown_row_by_row(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int, below: bool
) -> None:
    write_crawls(tmp_path / "log.jsonl")
    printed = io.BytesIO()
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr("sys.stdout", Terminal(printed, "ascii", write_through=True))
    log = tmp_path / "log.jsonl"
    assert run("log", "--summary", "--crawl", "all", "--log", log).exit_code == 0
    shown = printed.getvalue().decode("ascii")
    assert_printable(shown)
    lines = shown.splitlines()
    assert (r"  spider: \u5e97\u8217" in lines) == below
    assert lines.count("crawls:") == (len(SPIDERS) if below else 1)
    assert all(len(line) <= columns for line in lines[lines.index("crawls:") : -1])
