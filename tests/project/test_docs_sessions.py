"""Pages that a reader follows on the command line are followed here, in a folder of their own.

A session begins with `<!-- session: FOLDER -->` and lasts to `<!-- session: end -->`. Its commands
and files go through one shell, against the example's site; crawls end early, so numbers differ from
those that are printed, and lines have to agree in everything else.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.documents_read import PAGES, Block, blocks_of
from tests.helpers.processes import PATIENCE_SECONDS, ROOT, environment

pytestmark = pytest.mark.slow
SESSIONS = {page: each.session for page in PAGES for each in blocks_of(page) if each.session}
assert "docs/quickstart.md" in SESSIONS, "the way into the plugin"
MOST_PAGES = 28
_CUT = "-- output of block "
# What replaces the programs of the same names: `pip` installs nothing, because everything is here
# already; crawls are short, not polite, and fetch one page after the other, so that all have the
# same pages.
PROGRAMS = {
    "pip": "exit 0",
    "python": f'exec {shlex.quote(sys.executable)} "$@"',
    "scrapy": f"""
more=()
if [ "$1" = crawl ]; then
    more=(-s CLOSESPIDER_PAGECOUNT={MOST_PAGES} -s DOWNLOAD_DELAY=0
          -s CONCURRENT_REQUESTS=1)
fi
exec {shlex.quote(sys.executable)} -m scrapy "$@" "${{more[@]}}"
""",
}


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """The example's site; as the proxy of a crawl it answers for every host."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "example_project")
        from docsite import serve  # noqa: PLC0415 - it is no installed package

        with serve() as url:
            yield url


def steps_of(page: str) -> list[tuple[Block, list[Block]]]:
    """List the blocks of a session, each with the output that is printed below it."""
    steps: list[tuple[Block, list[Block]]] = []
    for block in blocks_of(page):
        if block.mark[0] == "not run" or not block.session:
            continue
        if block.language == "sh" or block.saved_as:
            steps.append((block, []))
        elif block.language == "text" and steps:
            steps[-1][1].append(block)
    return steps


def script_of(steps: list[tuple[Block, list[Block]]]) -> str:
    """Write a script that does what the page says, and says which block it is at."""
    lines = ["set -e"]
    for number, (block, _) in enumerate(steps):
        lines.append(f"echo; echo '{_CUT}{number}'")
        if name := block.saved_as:
            lines.append(f"cat > {shlex.quote(str(name))} <<'END OF FILE'\n{block.code}END OF FILE")
        else:
            lines.append(block.code)
    return "\n".join(lines)


def follow(page: str, folder: Path, site: str) -> list[str]:
    """Run the blocks of a page; the output of each."""
    programs = folder / "programs"
    programs.mkdir()
    for name, code in PROGRAMS.items():
        (programs / name).write_text(f"#!/usr/bin/env bash\n{code}\n")
        (programs / name).chmod(0o755)
    home = folder / "home"
    home.mkdir()
    if SESSIONS[page] != "empty":
        ignored = shutil.ignore_patterns(".scrapy", "__pycache__")
        shutil.copytree(ROOT / SESSIONS[page], home / SESSIONS[page], ignore=ignored)
    done = subprocess.run(
        ["bash", "-c", script_of(steps_of(page))],  # noqa: S607 - the reader's shell
        cwd=home,
        env=environment(
            {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "http_proxy": site}
        ),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=3 * PATIENCE_SECONDS,  # a dozen programs
    )
    assert done.returncode == 0, done.stdout
    return re.split(rf"^{_CUT}\d+\n", done.stdout, flags=re.MULTILINE)[1:]


def shape(line: str) -> str:
    """Leave out of a line what differs from crawl to crawl: numbers, addresses, folders."""
    line = re.sub(r"\bhttp\S+?(?=[:,]?(\s|$))|(?<=in )/\S+", "ADDRESS", line)
    line = re.sub(r"\b[0-9a-f]{16}\b|\d[\d.,:]*", "N", line)
    line = re.sub(r"\bN bit\b", "N bits", line)  # the store's seed is drawn
    line = line.replace("closespider_pagecount", "finished")
    return re.sub(r"N( N)+", "N", " ".join(line.split()))


def find_missing(printed: str, output: str) -> list[str]:
    """List the lines that the output has not; one that ends in dots is the beginning of another."""
    known = {shape(line) for line in output.splitlines()} | {""}
    lines = [line for line in map(shape, printed.splitlines()) if line not in known]
    begun = [line for line in lines if any(each.startswith(line[:-3]) for each in known)]
    return [line for line in lines if not (line.endswith("...") and line in begun)]


@pytest.mark.parametrize("page", SESSIONS)
def test_a_reader_gets_what_the_page_shows(page: str, tmp_path: Path, site: str) -> None:
    outputs = follow(page, tmp_path, site)
    steps = steps_of(page)
    for (_, below), output in zip(steps, outputs, strict=True):
        for printed in below:
            missing = find_missing(printed.code, output)
            assert not missing, f"{printed.place}: not in the output: {missing}\n{output}"
