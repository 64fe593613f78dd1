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


CRAWLS = ("20261121T132732-\u5e97\u8217", "20261121T132732-[red]\x1b[2J", "last")


class Terminal(io.TextIOWrapper):
    """One that knows ASCII only."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("columns", "below"), [(20, True), (200, False)])
def test_a_table_that_is_too_wide_for_a_terminal_is_shown_row_by_row(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int, below: bool
) -> None:
    log, printed = tmp_path / "log.jsonl", io.BytesIO()
    lines = [json.dumps(new_line("http://site.example/", crawl)) for crawl in CRAWLS]
    log.write_text("".join(f"{line}\n" for line in lines), "ascii")
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr("sys.stdout", Terminal(printed, "ascii", write_through=True))
    assert run("log", "--summary", "--crawl", "all", "--log", log).exit_code == 0
    shown = printed.getvalue().decode("ascii")
    assert_printable(shown)
    assert shown.count("\ncrawls:\n") == (len(CRAWLS) if below else 1)
    assert ("  crawl: last\n" in shown) == below
    printed.seek(0)
    printed.truncate()
    assert run("log", "--summary", "--log", log).exit_code == 0
    assert "[red]" not in printed.getvalue().decode("ascii")


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
        assert (process.wait(PATIENCE_SECONDS), process.stderr.read()) == (exit_code, "")
