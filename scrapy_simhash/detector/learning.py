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
from typing import TYPE_CHECKING

from scrapy_simhash._printable import MOST_ERROR_CHARACTERS, printable
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
        url: of that store.
    """

    command = (sys.executable, "-m", "scrapy_simhash.detector.learning")

    def __init__(self, store: Store, url: str) -> None:
        self._job = {"url": url, "distance": store.distance, "confirm": store.confirm}
        self._process: subprocess.Popen[str] | None = None
        self._watcher: threading.Thread | None = None
        self._warned = self._closed = False
        self.due_pages = max(_LEAST_PAGES_OF_CRAWL, 2 * store.measure_growth()[1])
        self.has_grown = _has_grown(store)

    def begin(self, *, wait: bool = False) -> None:
        """Begin to learn, unless that is under way; may wait for the end, for ten seconds."""
        if self._watcher is None or not self._watcher.is_alive():
            job = json.dumps({**self._job, "niceness": 0 if wait else _NICENESS})
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

    def _run(self, job: str) -> None:
        """Run the process, and tell what it says."""
        try:
            self._process = subprocess.Popen(  # noqa: S603 - of ours
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                process_group=0,  # a Ctrl-C in the terminal is for the crawl
            )
            if self._closed:
                self._process.kill()
            with self._process as process:
                out, err = self._listen(process, job)
            if process.returncode:
                self._warn(f"exit code {process.returncode} {err.strip()[-MOST_ERROR_CHARACTERS:]}")
                return
            for rule, state, reason in map(json.loads, out.splitlines()):
                logger.info("URL rule %s is %s: %s", printable(rule), state, printable(reason))
        except (OSError, ValueError) as error:
            self._warn(str(error))

    @staticmethod
    def _listen(process: subprocess.Popen[str], job: str) -> tuple[str, str]:
        """Give the process its job, and read what it says until it ends, or its time has."""
        assert process.stdin is not None  # noqa: S101 - they are pipes
        assert process.stdout is not None  # noqa: S101
        assert process.stderr is not None  # noqa: S101
        timer = threading.Timer(_MOST_SECONDS, process.kill)
        timer.start()
        try:
            # This pipe stays open: where it ends, the crawl's process has.
            process.stdin.write(f"{job}\n")
            process.stdin.flush()
            out, err = process.stdout.read(), process.stderr.read()
            process.wait()
        finally:
            timer.cancel()
            process.kill()
        return out, err

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


def _end_with_parent() -> None:
    """End this process when the one ends that began it."""
    sys.stdin.read()
    os._exit(1)


def main() -> None:
    """Learn from the store that standard input names; prints the rules whose states changed."""
    job = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.nice(job["niceness"])
    with suppress(OSError, ValueError):  # not on all systems
        resource.setrlimit(resource.RLIMIT_DATA, (_MOST_BYTES, _MOST_BYTES))
    with open_store(job["url"], job["distance"], confirm=job["confirm"]) as store:
        # Another crawl of this store may have begun to learn a moment before.
        for change in store.learn_url_rules() if _has_grown(store) else ():
            sys.stdout.write(json.dumps([change.text, change.state, change.reason]) + "\n")


if __name__ == "__main__":
    main()
