"""`find-all`, `batch-query`: what simhash-cpp prints, and what is refused."""

import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash._printable import plural
from scrapy_simhash.batch import inputs as join
from tests.helpers.commanding import Done, Run
from tests.helpers.strategies import fingerprints

LARGEST = 2**64 - 1
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


class Terminal(io.BytesIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_it_says_what_it_waits_for(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=Terminal(CHAIN.encode())))
    done = run("find-all", "--clusters", "-d", "1")
    assert (done.exit_code, done.out) == (0, "[1, 3, 7]\n")
    assert done.err.startswith("waiting for numbers, one a line, until Ctrl-D")


@pytest.mark.parametrize("command", ["find-all", "find-all --clusters"])
@pytest.mark.parametrize("text", ["", "1\n", "1\n1\n", "0\n18446744073709551615\n"])
def test_nothing_found(run: Run, tmp_path: Path, command: str, text: str) -> None:
    (tmp_path / "in").write_text(text)
    said = f"no two of {plural(len(text.split()), 'fingerprint')} are" if text else "the input is"
    for output in ("-", "out"):
        assert f"scrapy simhash find-all: {said}" in run.failed(
            *command.split(), "-i", "in", "-o", output, "--overwrite"
        )
    assert (tmp_path / "out").read_text() == ""


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


@given(st.lists(fingerprints | st.integers(LARGEST - 3, LARGEST), min_size=1), st.integers(1, 9))
def test_numbers_however_they_are_read(values: list[int], size: int) -> None:
    """And the line that has none is named."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(join, "_BYTES_PER_READ", size)
        for text in ("\n".join(map(str, values)), "".join(f"0{value}\r\n" for value in values)):
            assert join.read_numbers(io.BytesIO(text.encode()), "x").tolist() == values
            bad = f"{text.rstrip()}\n?\n{text}"
            with pytest.raises(ValueError, match=rf"x, line {len(values) + 1}: '\?'"):
                join.read_numbers(io.BytesIO(bad.encode()), "x")
