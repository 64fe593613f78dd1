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


def test_a_terminal_that_knows_ascii_only(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, printed = tmp_path / "log.jsonl", io.BytesIO()
    line = json.dumps(new_line("http://site.example/\u5e97", "crawl"))
    log.write_text(f"{line}\n", "ascii")
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(printed, "ascii", write_through=True))
    assert run("log", "--log", log).exit_code == 0
    assert b"http://site.example/\\u5e97\n" in printed.getvalue()


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
