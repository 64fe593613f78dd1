"""`find-all`, `batch-query`: what simhash-cpp prints, and what is refused."""

import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.helpers.commanding import Done, Run

CHAIN = "7\n1\n3\n18446744073709551615\n1\n"


@pytest.fixture
def numbers_file(tmp_path: Path) -> Path:
    path = tmp_path / "numbers"
    path.write_text(CHAIN)
    return path


def test_find_all(run: Run, numbers_file: Path, tmp_path: Path) -> None:
    done = run("find-all", "--blocks", "4", "--distance", "1", "--input", numbers_file)
    assert done == Done(0, "[1, 3]\n[3, 7]\n", "")
    assert run("find-all", "-b4", "-d1", "-i", numbers_file, "-o", "-", "--json") == done
    assert run("find-all", "-d", "1", "-i", numbers_file, "-o", "out") == Done(0, "", "")
    assert (tmp_path / "out").read_text() == done.out
    assert [json.loads(line) for line in done.out.splitlines()] == [[1, 3], [3, 7]]
    assert run("find-all", "-i", numbers_file).out == "[1, 3]\n[1, 7]\n[3, 7]\n"


def test_batch_query(run: Run, numbers_file: Path, tmp_path: Path) -> None:
    queries = tmp_path / "queries"
    queries.write_text("5\r\n5\r\n9")
    done = run("batch-query", "--queries", queries, "-i", numbers_file, "--distance", "1")
    assert done == Done(0, "[5, 1, 1]\n[5, 7, 1]\n[9, 1, 1]\n", "")
    run("batch-query", "--queries", queries, "-i", numbers_file, "-d", "1", "-o", "out")
    assert (tmp_path / "out").read_text() == done.out
    assert "cannot both be standard input" in run.refused("batch-query", "--queries", "-")


def test_standard_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = SimpleNamespace(buffer=io.BytesIO(CHAIN.encode()))
    monkeypatch.setattr("sys.stdin", stdin)
    assert run("find-all", "-d", "1") == Done(0, "[1, 3]\n[3, 7]\n", "")


BAD = {
    "18446744073709551616": "'18446744073709551616' has more than 64 bits",
    "9" * 5_000: f"'{'9' * 40}' has more than 64 bits",
    "-1": "'-1' is not such a number",
    "+1": "'+1' is not such a number",
    "0x10": "'0x10' is not such a number",
    "1.5": "'1.5' is not such a number",
    "1 2": "'1 2' is not such a number",
    "three": "'three' is not such a number",
    "\u0663": r"'\\xd9\\xa3' is not such a number",
    "\x00": r"'\x00' is not such a number",
    "": "is empty",
    "\r": "is empty",
}


@pytest.mark.parametrize("line", BAD)
@pytest.mark.parametrize("command", ["find-all", "find-all --clusters", "batch-query"])
def test_bad_lines(run: Run, tmp_path: Path, command: str, line: str) -> None:
    (tmp_path / "in").write_bytes(f"1\n3\n{line}\n7\n".encode())
    (tmp_path / "out").write_text("as it was")
    more = ["--queries", "in"] if command == "batch-query" else []
    err = run.refused(*command.split(), *more, "-i", "in", "-o", "out")
    assert f"in, line 3: {BAD[line]}" in err
    assert len(err) < 300
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]
    assert (tmp_path / "out").read_text() == "as it was"
