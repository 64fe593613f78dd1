"""Learn URL rules in a process of its own: what becomes of it costs rules, and no page.

That process reads the store in short transactions, a site at a time, and writes what it learned; a
crawl notices with its next commit. It gives way to crawls, and ends with the one that began it.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import subprocess
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from scrapy_simhash._printable import MOST_ERROR_CHARACTERS, printable
from scrapy_simhash.detector.worker import end_with
from scrapy_simhash.detector.workers import start_python
from scrapy_simhash.stores.opening import open_store

if TYPE_CHECKING:
    from scrapy_simhash.stores.store import Store

logger = logging.getLogger(__name__)

# Fewer pages prove nothing: a rule takes 25 votes of two pages each.
_LEAST_PAGES = 64
# Of those that a running crawl begins; one takes a second to load what it needs, and .1 to .3 ms a
# page (benchmarks/bench_url_costs.py).
_LEAST_PAGES_OF_CRAWL = 1_024
# At the end of this time 10 million pages are learned, or something hangs.
_MOST_SECONDS = 3_600
# So long the beginning of a crawl that skips may wait, for its first requests are the most.
_MOST_SECONDS_AT_OPENING = 10.0
# A site of 32,768 pages takes a tenth of it.
_MOST_BYTES = 2**30
_NICENESS = 10


class Learning:
    """Begins a process that learns when a store has grown; one at a time.

    Args:
        store: of the crawl, to be read once.
        url: of that store, with its password.
    """

    program = "from scrapy_simhash.detector import learning; learning.main()"

    def __init__(self, store: Store, url: str) -> None:
        self._job = {"url": url, "distance": store.distance, "confirm": store.confirm}
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher: threading.Thread | None = None
        self._warned = self._closed = False
        self.due_pages = max(_LEAST_PAGES_OF_CRAWL, 2 * store.measure_growth()[1])
        self.has_grown = _has_grown(store)

    def begin(self, *, wait: bool = False) -> None:
        """Begin to learn, unless that is under way; may wait for the end, for ten seconds."""
        if self._watcher is None or not self._watcher.is_alive():
            job = {**self._job, "niceness": 0 if wait else _NICENESS, "crawl": os.getpid()}
            self._watcher = threading.Thread(
                target=self._run, args=(job,), name="scrapy_simhash-learning", daemon=True
            )
            self._watcher.start()
        if wait:
            self._watcher.join(_MOST_SECONDS_AT_OPENING)

    def begin_when_due(self, pages: int) -> None:
        """Begin to learn, now that the store has `due_pages`; the next time when they doubled."""
        self.due_pages = 2 * pages
        self.begin()

    def close(self) -> None:
        """End the process; the next crawl learns what it did not."""
        self._closed = self._warned = True  # before the process is looked for: it may be starting
        watcher, process = self._watcher, self._process
        if process is not None:
            process.kill()
        if watcher is not None:
            watcher.join()

    def _run(self, job: dict[str, Any]) -> None:
        """Run the process, and tell what it says."""
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        try:
            with start_python(self.program, **pipes) as process:
                self._process = process
                if self._closed:
                    process.kill()
                try:
                    out, err = process.communicate(json.dumps(job).encode(), _MOST_SECONDS)
                except subprocess.TimeoutExpired:
                    process.kill()
                    out, err = process.communicate()
            if process.returncode:
                said = err.decode(errors="replace").strip()[-MOST_ERROR_CHARACTERS:]
                self._warn(f"exit code {process.returncode} {said}")
                return
            for rule, state, reason in map(json.loads, out.splitlines()):
                logger.info("URL rule %s is %s: %s", printable(rule), state, printable(reason))
        except (OSError, ValueError) as error:
            self._warn(str(error))

    def _warn(self, why: str) -> None:
        """Warn once a crawl that nothing was learned."""
        if not self._warned:
            self._warned = True
            logger.warning(
                "URL rules were not learned, the crawl goes on with those it has: %s; "
                "`scrapy simhash urls learn` learns, too",
                printable(why),
            )


def _has_grown(store: Store) -> bool:
    """Whether a store has half as many pages again as when rules were learned last."""
    learned, pages = store.measure_growth()
    return pages >= max(_LEAST_PAGES, 1.5 * learned)


def main() -> None:
    """Learn from the store that standard input names; prints the rules whose states changed."""
    job = json.load(sys.stdin)
    end_with(job["crawl"])
    os.nice(job["niceness"])
    with suppress(OSError, ValueError):  # not on all systems
        resource.setrlimit(resource.RLIMIT_DATA, (_MOST_BYTES, _MOST_BYTES))
    with open_store(job["url"], job["distance"], confirm=job["confirm"]) as store:
        # Another crawl of this store may have begun to learn a moment before.
        for change in store.learn_url_rules() if _has_grown(store) else ():
            sys.stdout.write(json.dumps([change.text, change.state, change.reason]) + "\n")
