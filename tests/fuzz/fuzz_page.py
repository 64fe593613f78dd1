"""Fuzz the pure part with atheris: `python -m tests.fuzz.fuzz_page --minutes 30`.

Needs the extra `fuzz`. Starts from small pages and the beginnings of the hostile ones. Both readers
get every input; what turbohtml's C code does with one does not guide the search. An input that
breaks one of the rules in `target` ends the run with exit code 77 and stays in
`tests/fuzz/findings`, where `test_fuzz` replays it from then on. Inputs that take long are passed
over: that pages do is known, and what judges have their deadline for.
"""

import argparse
import hashlib
import os
import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

import atheris

with atheris.instrument_imports(include=["scrapy_simhash", "trafilatura", "w3lib"]):
    from tests.fuzz.target import check_page

from tests.helpers.handmade import NAVIGATION, PARAGRAPHS, article, page
from tests.helpers.hostilepages import HOSTILE, HTML

FINDINGS = Path(__file__).parent / "findings"
# Small ones, because speed finds more than size does.
LARGEST_SEED_BYTES = 1_500
MOST_CPU_SECONDS = 1.0
# Where comparisons are traced, atheris keeps some 20 kB an input: 2 GB in five minutes.
MINUTES_PER_PROCESS = 3


class TooLateError(BaseException):
    """The input took too long; not an Exception, so that no extractor catches it."""


def try_input(given: bytes) -> None:
    """Check one input, for as long as one may take."""
    with suppress(TooLateError):
        signal.setitimer(signal.ITIMER_VIRTUAL, MOST_CPU_SECONDS)
        try:
            check_page(given)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def write_seeds(folder: Path) -> None:
    """Write the pages from which mutation starts."""
    pages = [
        page(article()),
        page(article(*PARAGRAPHS[:2]), '<meta charset="cp1251"><base href="/folder/">'),
        page(f"<table><tr><td>{PARAGRAPHS[0]}</td></tr></table>", '<link rel=canonical href="/x">'),
        NAVIGATION,
    ]
    seeds = [f"{HTML}\n{html}".encode() for html in pages]
    seeds += [
        f"text/html; charset={encoding}\n".encode() + page(article()).encode(encoding)
        for encoding in ("utf-16", "shift_jis", "cp1252", "utf-7")
    ]
    seeds.append(
        b"text/html\n<html><p>\xe6\x9d\xb1\xe4\xba\xac\xe9\x83\xbd \xe0\xb8\x81\xe0\xb8\x82"
    )
    for name, hostile in HOSTILE.items():
        if not name.startswith("colspan"):  # slow even when they are small
            header = hostile.content_type.encode() + b"\n"
            seeds.append(header + hostile.make()[:LARGEST_SEED_BYTES])
    for seed in seeds:
        (folder / hashlib.sha256(seed).hexdigest()).write_bytes(seed)


def main() -> None:
    """Fuzz for as long as was asked for."""
    parser = argparse.ArgumentParser(description="Fuzz the pure part.")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--corpus", type=Path, help="keep what was learned here, for the next run")
    parser.add_argument("--seed", type=int, default=0, help="0: another one each time")
    arguments = parser.parse_args()
    corpus = arguments.corpus or Path(tempfile.mkdtemp(prefix="fuzz-corpus-"))
    for folder in (corpus, FINDINGS):
        folder.mkdir(parents=True, exist_ok=True)
    write_seeds(corpus)
    parts = max(1, round(arguments.minutes / MINUTES_PER_PROCESS))
    for part in range(parts):
        if child := os.fork():
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            if code:
                sys.exit(code)
        else:
            seed = arguments.seed and arguments.seed + part
            fuzz(corpus, 60 * arguments.minutes / parts, seed)


def fuzz(corpus: Path, seconds: float, seed: int) -> NoReturn:
    """Fuzz in this process, and end it."""
    signal.signal(signal.SIGVTALRM, _give_up)
    options = [
        f"-max_total_time={max(1, round(seconds))}",
        f"-max_len={4 * LARGEST_SEED_BYTES}",
        f"-seed={seed}",
        f"-artifact_prefix={FINDINGS}/",
        "-rss_limit_mb=2048",
        "-report_slow_units=1000",
        # What hangs in native code for so long ends the run, with the input kept.
        "-timeout=120",
    ]
    atheris.Setup([sys.argv[0], *options, str(corpus)], try_input)
    atheris.Fuzz()
    sys.exit(0)


def _give_up(_signal: int, _frame: FrameType | None) -> None:
    raise TooLateError


if __name__ == "__main__":
    main()
