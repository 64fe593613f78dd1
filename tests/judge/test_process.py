"""A judge ends with its crawl, however that ends."""

import sys
from pathlib import Path

import pytest

from tests.helpers.processes import ROOT, is_running, run_python, start_python, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
# The child watches as it would on the system that is named.
PARENT = """
import subprocess, sys
child = f'''
import os, sys, time
sys.platform = "{sys.argv[1]}"
from scrapy_simhash.judge.process import end_with
end_with(os.getppid())
print(os.getpid(), flush=True)
time.sleep(3600)
'''
subprocess.run([sys.executable, "-c", child])
"""


@pytest.mark.parametrize("system", ["linux", "other"])
def test_a_judge_ends_with_a_killed_crawl(tmp_path: Path, system: str) -> None:
    with start_python("-c", PARENT, system, cwd=tmp_path) as parent:
        assert parent.stdout
        child = int(parent.stdout.readline())
        assert is_running(child)
        parent.kill()
        wait_until(lambda: not is_running(child))


def test_a_judge_whose_crawl_ended_before_it_asked_ends_too() -> None:
    script = "from scrapy_simhash.judge.process import end_with; end_with(-1); print('still here')"
    done = run_python("-c", script, cwd=ROOT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
