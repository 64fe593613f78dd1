"""A judge in this process, and pages and decisions for it."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from scrapy_simhash.config import Config
from scrapy_simhash.crawl.running import make_open
from scrapy_simhash.judge import messages
from scrapy_simhash.judge.judge import CrawlJudge
from scrapy_simhash.judge.log import CrawlLog
from scrapy_simhash.judge.messages import Outcome
from scrapy_simhash.judging.documents import Decision
from scrapy_simhash.pages.facts import Fetched
from tests.helpers.documents import READER


class Judging:
    """A crawl and its judge, one page after the other; its time is that of the test.

    Attributes:
        opened: what the judge said first.
        waits: numbers of the pages that wait.
        said: its answers by the numbers of pages.
        refetches: the kept pages it asked for once more.
    """

    opened: messages.Opened

    def __init__(self, store: Path | str, **fields: Any) -> None:
        crawl = fields.pop("crawl", "crawl")
        # Nobody here asks for a page once more.
        config = Config(store=str(store), log=None, **{"refetch": 0, **fields})
        given = make_open(config)
        self.waits: set[int] = set()
        self.said: dict[int, messages.Said] = {}
        self.refetches: list[messages.Refetch] = []
        self.closed: messages.Closed | None = None
        self._number = 0
        self.judge = CrawlJudge(
            msgspec.structs.replace(given, crawl=crawl, spider="spider"), self._hear
        )

    def _hear(self, message: messages.FromJudge) -> None:
        match message:
            case messages.Opened():
                self.opened = message
            case messages.Said(number=number):
                self.waits.discard(number)
                self.said[number] = message
            case messages.Waits(number=number):
                self.waits.add(number)
            case messages.Refetch():
                self.refetches.append(message)
            case messages.Closed():
                self.closed = message

    def ask(
        self, name: str, html: str | bytes, action: str = "drop", *, young: bool = True, **page: Any
    ) -> int:
        """Have a page judged; returns its number."""
        self._number += 1
        body = html if isinstance(html, bytes) else html.encode()
        self.judge.take(messages.Ask(self._number, fetched(name, **page), body, action, young))
        return self._number

    def settle(self, number: int, outcome: Outcome = "done", *, write: bool = True) -> None:
        """Tell what became of a young page; what came through is written at once."""
        self.judge.take(messages.Settled(number, outcome))
        if write:
            self.write()

    def write(self) -> None:
        """Write what is to be written, without waiting for its time."""
        self.judge._next_commit = 0.0
        self.judge.tick()

    def deliver(self, name: str, html: str, **fields: Any) -> str:
        """Have a page judged whose items come through; returns what was decided."""
        number = self.ask(name, html, **fields)
        if self.said[number].young:
            self.settle(number)
        return self.find(number)

    def find(self, number: int) -> str:
        """Describe what was decided on a page: status, reason and action, or `waits`."""
        if number in self.waits:
            return "waits"
        said = self.said[number]
        if said.decision is None:
            return f"not_judged {said.reason}"
        decision = said.decision
        return " ".join(filter(None, (decision.status, decision.reason, decision.action)))

    def decision(self, number: int) -> Decision:
        """What was decided on a page that was judged."""
        found = self.said[number].decision
        assert found
        return found

    def close(self) -> messages.Closed:
        self.judge.take(messages.Close())
        assert self.closed is not None
        return self.closed


@contextmanager
def judging(store: Path | str, **fields: Any) -> Iterator[Judging]:
    crawl = Judging(store, **fields)
    yield crawl
    crawl.close()


def fill(store: Path | str, pages: Iterable[tuple[str, str]], **fields: Any) -> list[Decision]:
    """Crawl pages, by URL and HTML, into a store and its log.

    What is kept comes through; copies are dropped, those of earlier crawls, too.
    """
    log = CrawlLog(str(Path(store, "log.jsonl")))
    decisions = []
    with judging(store, **{"incremental": True, **fields}) as crawl:
        for url, html in pages:
            number = crawl.ask("", html, url=url, identity=url.encode("utf-8", "replace")[-64:])
            said = crawl.said[number]
            if said.young:
                crawl.settle(number)
            reason = said.reason or "failed"
            decision = said.decision or new_decision(url, "crawl", reason=reason)
            decisions.append(decision)
            log.write(decision)
    log.close()
    return decisions


def fetched(name: str, host: str = "site.example", **fields: Any) -> Fetched:
    given = {
        "url": f"http://{host}/{name}",
        "encoding": "utf-8",
        "identity": f"{host}/{name}".encode(),
        "reader": READER,
    }
    return Fetched(**(given | fields))


def new_decision(url: str = "", crawl: str = "", **fields: Any) -> Decision:
    """Make the decision on a page that nobody has judged."""
    now = round(time.time(), 3)
    return Decision(**{"time": now, "url": url, "status": "not_judged", "crawl": crawl, **fields})


def new_line(url: str = "", crawl: str = "", **fields: Any) -> dict[str, Any]:
    """Make the line of the log on a page that nobody has judged."""
    line: dict[str, Any] = msgspec.to_builtins(new_decision(url, crawl, **fields))
    return line
