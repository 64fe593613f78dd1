"""What ends a worker, apart from the crew; and what comes from one that has gone mad."""

import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scrapy_simhash.detector.worker import unpack_answer, unpack_fingerprint
from tests.helpers.processes import ROOT, is_running, run_python, start_python, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

# The child watches as it would on other systems.
WATCHED = """
import subprocess, sys
child = '''
import os, sys, time
sys.platform = "other"
from scrapy_simhash.detector.process import end_with
end_with(os.getppid())
print(os.getpid(), flush=True)
time.sleep(3600)
'''
subprocess.run([sys.executable, "-c", child])
"""
ORPHAN = """
from scrapy_simhash.detector.process import end_with

end_with(-1)
print("still here")
"""
LIMITED = """
import resource
from scrapy_simhash.detector.worker import MemoryBound

bound = MemoryBound()
limit = 2**35
resource.setrlimit(resource.RLIMIT_DATA, (limit // 2, limit))
with bound.apply(2**40):
    print(resource.getrlimit(resource.RLIMIT_DATA) == (limit, limit), flush=True)
with bound.apply(2**26):
    eaten = bytes([7]) * 2**28
    print("allocated", flush=True)
"""


def test_watching_thread_ends_with_a_killed_parent(tmp_path: Path) -> None:
    script = tmp_path / "watched.py"
    script.write_text(WATCHED, encoding="utf-8")
    with start_python(script, cwd=tmp_path) as parent:
        assert parent.stdout
        child = int(parent.stdout.readline())
        assert is_running(child)
        parent.kill()
        wait_until(lambda: not is_running(child))


def test_process_whose_parent_ended_before_it_asked_ends_too() -> None:
    done = run_python("-c", ORPHAN, cwd=ROOT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_memory_is_bounded_below_a_limit_of_the_system() -> None:
    done = run_python("-c", LIMITED, cwd=ROOT)
    assert (done.returncode, done.stdout, done.stderr) == (97, "True\n", "")


@given(st.binary(max_size=60))
@example(b"\x91\x01")  # neither a fingerprint nor a reason
@example(b"\x97\x01\x92\xc4\0\xc4\0\xa2\xff\xfe")  # a text that is not UTF-8
def test_any_bytes_are_an_answer_or_a_value_error(message: bytes) -> None:
    for unpack in (unpack_answer, unpack_fingerprint):
        with suppress(ValueError):
            unpack(message)
