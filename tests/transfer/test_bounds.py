"""Files that are small and unpack to much, or nest deep: counted and named, in bounded memory."""

import gzip
import json
from pathlib import Path

import pytest

from tests.helpers.commanding import Done, Run
from tests.helpers.hostile import TRIGGER
from tests.helpers.pages import page
from tests.helpers.processes import run_python
from tests.helpers.sourcing import json_lines, make_pages, warc_plain

GOOD = json_lines(make_pages(2))
# 0.3 MB that unpack to 256 MB.
LARGE = gzip.compress(b"x" * (16 << 20)) * 16
MOST_MEGABYTES = 512
# Runs a command of Scrapy and prints the most memory it had, in MB.
MEASURED = """
import atexit, re, sys
status = open("/proc/self/status")
atexit.register(lambda: print(int(re.search(r"VmHWM:\\s+(\\d+) kB", status.read())[1]) // 1024))
from scrapy.cmdline import execute
execute(["scrapy", *sys.argv[1:]])
"""


def import_into(run: Run, *arguments: str | Path) -> Done:
    return run("-s", "SIMHASH_PROCESSES=0", "import", *arguments, "--store", "s", "--json")


def test_json_nested_deep(run: Run, tmp_path: Path) -> None:
    deep = b"[" * 200_000
    (tmp_path / "whole.jsonl").write_bytes(deep + b"]" * 200_000 + b"\n" + GOOD)
    inner = b'{"url": "http://a.example/", "html": ' + deep + b"}\n"
    (tmp_path / "inner.jsonl").write_bytes(inner + b'{"x": ' + deep + b"}\n" + GOOD)
    done = import_into(run, "whole.jsonl", "inner.jsonl")
    whole, inner_ = done.answers
    assert (done.exit_code, whole["pages"], inner_["pages"]) == (1, 2, 2)
    skipped = [whole["skipped"], inner_["skipped"]]
    assert skipped == [{"no_html": 1}, {"no_html": 1, "unreadable": 1}]
    assert "inner.jsonl: line 2 is no JSON: " in done.err
    assert "Traceback" not in done.err


@pytest.mark.slow
def test_what_unpacks_to_much(tmp_path: Path) -> None:
    item = b'{"url": "http://a.example/", "html": "'
    sources = {
        "a.jsonl.gz": (GOOD + item, 4, "line 3 has more than 33,554,432 octets"),
        "a.warc.gz": (warc_plain(make_pages(2)) + b"WARC/1.0\r\n", 2, "from record 3 on: Max"),
    }
    for name, (head, *_) in sources.items():
        parts = [gzip.compress(head), LARGE, gzip.compress(b"\n" + GOOD)]
        (tmp_path / name).write_bytes(b"".join(parts))
    command = ("simhash", "-s", "SIMHASH_PROCESSES=0", "import", *sources, "--store", "s", "--json")
    done = run_python("-c", MEASURED, *command, cwd=tmp_path)
    *answers, megabytes = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["pages"] for answer in answers] == [pages for _, pages, _ in sources.values()]
    assert answers[0]["skipped"] == {"too_large": 1}
    for _, _, message in sources.values():
        assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == 1
    assert megabytes < MOST_MEGABYTES


def test_a_page_that_ends_its_judge_may_cost_those_before_it(run: Run, tmp_path: Path) -> None:
    pages = {"http://a.example/deadly": page(99, title=f"{TRIGGER}leave"), **make_pages(4)}
    (tmp_path / "pages.jsonl").write_bytes(json_lines(pages))
    scope = ("-s", "SIMHASH_SCOPE=tests.helpers.hostile.misbehave")
    done = run(*scope, "import", "pages.jsonl", "--store", "s", "--json")
    (answer,) = done.answers
    assert (done.exit_code, answer["pages"]) == (1, 5)
    assert "the process that judges pages ended 2 times" in done.err
    not_judged = {how: n for how, n in answer["verdicts"].items() if how.startswith("not_judged")}
    assert not_judged == {"not_judged/worker_died": 1}
