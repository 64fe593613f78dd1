"""The command explain: why pages were dropped or kept, and how two of them compare."""

from __future__ import annotations

import json
import shlex
from collections import defaultdict, deque
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from scrapy_simhash._printable import mask_passwords, plural
from scrapy_simhash.crawl.running import add_option
from scrapy_simhash.errors import InspectionError, PartlyFailedError
from scrapy_simhash.inspection.comparing import compare_pages, describe_page
from scrapy_simhash.inspection.log import LogFilter, find_log, read_log
from scrapy_simhash.inspection.lookup import (
    add_suggestions,
    find_documents,
    find_near,
    is_url,
    read_file,
)
from scrapy_simhash.inspection.sentences import (
    FAILED,
    FORGOTTEN_BECAUSE,
    MANY_ALIKE,
    OF_TODAY,
    OF_WALLS,
    advise_on_drop,
    tell_duplicate,
    tell_kept,
    tell_not_judged,
    tell_reason,
)
from scrapy_simhash.judge.alerts import Walls
from scrapy_simhash.judge.log import FORGOTTEN, NOT_FOLLOWED
from scrapy_simhash.judging.judge import CHANGES
from scrapy_simhash.pages.links import MOSTLY_NEW
from scrapy_simhash.stores.opening import open_as_it_is

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from scrapy_simhash.config import Config
    from scrapy_simhash.judge.log import Decision
    from scrapy_simhash.judging.documents import StoredDocument
    from scrapy_simhash.stores.store import Store

_LINES_SHOWN = 5


def explain(
    config: Config, what: Sequence[str], log_path: str | None, option: str = ""
) -> Iterator[dict[str, Any]]:
    """Explain why a URL was dropped or kept, how two pages compare, or what is near to one.

    `option` is what commands need to find the store; without it, two files have seed 0.

    Raises:
        InspectionError: a file has no fingerprint, or nothing like a page was named.
        OSError: a file cannot be read.
        PartlyFailedError: a page is unknown.
    """
    if len(what) == 1 and is_url(what[0]):
        for answer in _explain_url(config, what[0], find_log(config, log_path)):
            advice = add_option(answer.get("advice", ""), option)
            yield answer | ({"advice": advice} if advice else {})
        return
    if len(what) == 1:
        yield from find_near(config, what[0])
        return
    if len(what) != 2:  # noqa: PLR2004 - a pair
        raise InspectionError(f"name one page, or two URLs or files; got {' '.join(what)!r}")
    stored = bool(option) or any(map(is_url, what))
    with open_as_it_is(config.store) if stored else nullcontext() as opened:
        first, second = (
            find_documents(opened, name)[-1]
            if opened is not None and is_url(name)
            else read_file(config, name, opened)
            for name in what
        )
        yield compare_pages(config, opened, first, second)


class _Logged:
    """What a log says of a page, and of those that repeat it or its original."""

    def __init__(self, log: Path, url: str, originals: set[str], texts: set[str]) -> None:
        self.last: Decision | None = None
        self.judged: Decision | None = None
        self.dropped_for = ""
        self.lines: deque[dict[str, Any]] = deque(maxlen=_LINES_SHOWN)
        self._led: defaultdict[str, set[str]] = defaultdict(set)
        walls = Walls()
        self._shown: defaultdict[str, set[str]] = defaultdict(set)
        own = mask_passwords(url)
        urls = {own, *map(mask_passwords, originals)}
        for decision, line in _read_if_there(log):
            if decision.reason == "changed":  # what repeated its old text, does not count
                self._led.pop(decision.url, None)
            if decision.url == own:
                self._add(decision, line)
            elif decision.text in texts:
                self._shown[decision.text].add(decision.url)
            walls.add(decision)
            if (
                decision.status == "near_duplicate"
                and decision.match_url in urls
                and not decision.reason
            ):
                self._led[decision.match_url].add(decision.url)
        self._walls = walls.find()

    def _add(self, decision: Decision, line: bytes) -> None:
        self.last = decision
        self.lines.append(json.loads(line))
        # A revisit is compared with nothing; what its text was compared with, is another's now.
        if decision.status in {"new", "near_duplicate"}:
            self.judged = decision
        elif decision.reason == "changed":
            self.judged = None
        if decision.status == "near_duplicate":
            self.dropped_for = decision.match_url or ""

    def count_led(self, url: str) -> int:
        """Count the pages that repeat one."""
        return len(self._led.get(mask_passwords(url), ()))

    def find_wall(self, url: str) -> str:
        """Return an address if it is that of a wall."""
        return url if mask_passwords(url) in self._walls else ""

    def count_shown(self, text: str) -> int:
        """Count the other pages that had a text."""
        return len(self._shown.get(text, ()))


def _explain_url(config: Config, url: str, log: Path) -> Iterator[dict[str, Any]]:
    with open_as_it_is(config.store) as store:
        documents = store.find_documents([url])[url]
        kept = {
            each.document: store.get_documents([each.record.original]).get(each.record.original)
            if each.state == "duplicate"
            else each
            for each in documents
        }
        originals = {each.facts.url for each in kept.values() if each}
        logged = _Logged(log, url, originals, {each.text for each in documents} - {""})
        if not documents and logged.last is None:
            known = {document.facts.url: None for document in store.list_documents()}
            lines = _read_if_there(log, quiet=True)
            known |= {decision.url: None for decision, _ in lines}
            problem = (
                f"{url} is neither in the store nor in the log {log}; name it as it was fetched; a "
                "page that redirects is known by its target"
            )
            raise PartlyFailedError(add_suggestions(problem, url, known))
        answers = []
        if logged.last is not None and not (documents and logged.last.is_judged):
            answers.append(_explain_line(config, logged.last))
        answers += [
            _explain_document(config, store, each, kept[each.document], logged)
            for each in documents
        ]
    found = {"url": url, "decisions": list(logged.lines)}
    yield from (found | answer for answer in answers)


def _read_if_there(log: Path, *, quiet: bool = False) -> Iterator[tuple[Decision, bytes]]:
    return read_log(log, LogFilter(), quiet=quiet) if log.is_file() else iter(())


def _explain_line(config: Config, decision: Decision) -> dict[str, Any]:
    """Explain a page that is not in the store, by its line in the log."""
    if decision.status == NOT_FOLLOWED:
        verdict = f"Not followed: only dropped pages link to it, {decision.match_url} for one"
        undo = f"scrapy simhash undo {shlex.quote(decision.match_url or '')}"
        advice = f"{undo}\nlets that page pass, with all its links"
        if (decision.new_links or 0.0) >= MOSTLY_NEW and not config.follow_new_links:
            advice = "SIMHASH_FOLLOW_NEW_LINKS = True follows links of pages of mostly new ones"
        return {"verdict": verdict, "advice": advice}
    if decision.status == FORGOTTEN:
        why = FORGOTTEN_BECAUSE.get(decision.reason, decision.reason)
        advice = FAILED * (decision.reason == "failed")
        return {"verdict": f"Forgotten: {why}, so no page is dropped for it", "advice": advice}
    if decision.is_judged:
        why = "its items did not come through, its callback has no name, its judge died, or it "
        return {"verdict": f"Judged, but not in the store: {why}was deleted"}
    return {
        "verdict": tell_not_judged(decision.reason, decision.tests),
        "advice": tell_reason(decision.reason)[1],
    }


def _explain_document(
    config: Config,
    store: Store,
    document: StoredDocument,
    kept: StoredDocument | None,
    logged: _Logged,
) -> dict[str, Any]:
    """Explain a document, by its last judgement in the log, and the page kept for it, if any."""
    dropped = document.state == "duplicate"
    nearest_url = logged.judged.nearest_url if logged.judged else None
    if document.record.spared:
        nearest_url = logged.dropped_for
    original = kept if dropped else None
    if not dropped and (expected := nearest_url or document.facts.canonical):
        # What it declares may be the page that somebody expects it to repeat.
        others = store.find_documents([expected])[expected]
        original = next((each for each in others[::-1] if each.document != document.document), None)
    now = {"pages": [describe_page(document)]}
    if original is not None:
        now = compare_pages(config, store, document, original)
    if not dropped:
        return now | _explain_kept(document, original, nearest_url, now, logged)
    return _explain_duplicate(document, original, now, logged)


def _explain_kept(
    document: StoredDocument,
    original: StoredDocument | None,
    nearest_url: str | None,
    now: dict[str, Any],
    logged: _Logged,
) -> dict[str, Any]:
    """Explain why a page was kept, beside the nearest one as it was then."""
    if document.record.spared:
        dropped = f" for {nearest_url}" if nearest_url else ""
        return {"verdict": f"Kept: it was dropped{dropped}, then let in by `scrapy simhash undo`"}
    tests = logged.judged.nearest_tests if logged.judged else []
    decided = tests[1] if len(tests) > 1 else ""
    last, wall = logged.last, logged.find_wall(document.facts.url)
    changed = last is not None and last.reason == "changed"
    alike, led = logged.count_shown(document.text), logged.count_led(document.facts.url)
    verdict = tell_kept(nearest_url, decided, alike - led, changed=changed)
    verdict += f"; {plural(led, 'page')} repeat{'s' * (led == 1)} it" * bool(led)
    advice = "scrapy simhash explain URL URL\ncompares it with a page that you think it repeats"
    if wall:
        verdict, advice = verdict + OF_WALLS, advise_on_drop("", wall)
    elif alike >= MANY_ALIKE:
        advice = "see why the site shows it; a page that shows its own text again passes as changed"
    elif original is not None:
        prune = f"scrapy simhash prune {shlex.quote(document.facts.url)}"
        advice = f"{prune}\nforgets it; the next crawl judges it anew" * now["judged"]
    explained = {"verdict": verdict, "advice": advice}
    if "judged" not in now:
        return explained
    today = "today it would be dropped for it" if now["judged"] else "today another test decides"
    today = f"{today}; {OF_TODAY}" * (now["judged"] or decided not in {"", now["tests"][1]})
    return {**explained, "tests": tests, "now": today}


def _explain_duplicate(
    document: StoredDocument,
    original: StoredDocument | None,
    now: dict[str, Any],
    logged: _Logged,
) -> dict[str, Any]:
    """Explain a near-duplicate, by the evidence of the log, or as the pages are today."""
    judged, wall = logged.judged, logged.find_wall(original.facts.url) if original else ""
    if judged is not None and judged.match_document != document.record.original:
        judged = None
    # What changes by itself, the crawl knew; the store does not.
    noise = any(CHANGES in test for test in document.record.tests)
    if judged and judged.evidence:
        now |= {"site_known": judged.evidence.known}
        now |= {"own_words": judged.own_words, "match_own_words": judged.match_own_words}
    elif noise:
        now = {name: each for name, each in now.items() if not name.endswith("own_words")}
    verdict = tell_duplicate(
        judged.action if judged else "",
        original.facts.url if original else "an imported fingerprint",
        "".join(document.record.tests[1:2]),
        document.record.distance,
        now.get("own_words"),
        now.get("match_own_words", ()),
    )
    # The texts that are shown below are those of today.
    verdict += ", as both were then" * (judged is not None and not now.get("judged", True))
    verdict += OF_WALLS * bool(wall)
    undone = "Undone: it passes when it is fetched again. " * document.record.spared
    told = {"verdict": f"{undone}{verdict}", "tests": list(document.record.tests)}
    explained = {**now, **told}
    if original is None:
        return explained
    changed = f"today it is no near-duplicate of it: {now['tests'][1]}; {OF_TODAY}"
    return {
        **explained,
        "advice": advise_on_drop(document.facts.url, wall) * (not document.record.spared),
        "now": changed * (not now["judged"] and not noise),
        "similarity": document.record.similarity,
    }
