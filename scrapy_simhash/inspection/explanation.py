"""The command explain: why pages were dropped or kept, and how two of them compare."""

from __future__ import annotations

import json
import re
import shlex
from collections import defaultdict, deque
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from scrapy_simhash._printable import mask_passwords, plural
from scrapy_simhash.crawl.running import add_option, find_log
from scrapy_simhash.errors import InspectionError, NotJudgedError, PartlyFailedError
from scrapy_simhash.inspection import sentences
from scrapy_simhash.inspection.comparing import compare_pages, describe_page
from scrapy_simhash.inspection.log import read_log
from scrapy_simhash.judge.alerts import Walls
from scrapy_simhash.judge.log import FORGOTTEN, NOT_FOLLOWED
from scrapy_simhash.judging.documents import Record, State, StoredDocument, make_document
from scrapy_simhash.judging.matching import CHANGES
from scrapy_simhash.pages.addresses import plain_form
from scrapy_simhash.pages.facts import MOSTLY_NEW, Fetched, Recipe, unpack
from scrapy_simhash.pages.features import read_words, simhash, weigh_features
from scrapy_simhash.pages.fingerprint import fingerprint_page
from scrapy_simhash.stores.opening import open_as_it_is
from scrapy_simhash.tables import parse_design

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from scrapy_simhash.config import Config
    from scrapy_simhash.judge.log import Decision
    from scrapy_simhash.stores.store import Store

_LINES_SHOWN, _MOST_SUGGESTED = 5, 3
_HEX_FINGERPRINT = re.compile(r"(0x)?[0-9a-fA-F]{16}")
_ENDING = re.compile(r"\.(?:html?|php|aspx?|jsp|cgi)$")


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
    if len(what) == 1 and _is_url(what[0]):
        for answer in _explain_url(config, what[0], find_log(config, log_path)):
            advice = add_option(answer.get("advice", ""), option)
            yield answer | ({"advice": advice} if advice else {})
        return
    if len(what) == 1:
        yield from _find_near(config, what[0])
        return
    if len(what) != 2:  # noqa: PLR2004 - a pair
        raise InspectionError(f"name one page, or two URLs or files; got {' '.join(what)!r}")
    stored = bool(option) or any(map(_is_url, what))
    with open_as_it_is(config.store) if stored else nullcontext() as opened:
        first, second = (
            _find_documents(opened, name)[-1]
            if opened is not None and _is_url(name)
            else _read_file(config, name, opened)
            for name in what
        )
        yield compare_pages(config, opened, first, second)


def _is_url(what: str) -> bool:
    return what.startswith(("http://", "https://"))


class _Logged:
    """What a log says of a page, and of those that repeat it or show its texts."""

    def __init__(self, log: Path, url: str, texts: set[str]) -> None:
        self.last: Decision | None = None
        self.judged: Decision | None = None
        self.dropped_for = ""
        self.lines: deque[dict[str, Any]] = deque(maxlen=_LINES_SHOWN)
        self.repeating: set[str] = set()
        self.showing: defaultdict[str, set[str]] = defaultdict(set)
        walls, own = Walls(), mask_passwords(url)
        for decision, line in read_log(log):
            if decision.is_judged:
                walls.add(decision)
            if decision.url == own:
                self._add(decision, line)
            elif decision.text in texts:
                self.showing[decision.text].add(decision.url)
            copy = decision.status == "near_duplicate" and not decision.reason
            if copy and decision.match_url == own:
                self.repeating.add(decision.url)
        self._walls = walls.find()

    def _add(self, decision: Decision, line: bytes) -> None:
        self.last = decision
        self.lines.append(json.loads(line))
        # A revisit is compared with nothing; what its text was compared with, is another's now, and
        # what repeated its old text does not count.
        if decision.status in {"new", "near_duplicate"}:
            self.judged = decision
        elif decision.reason == "changed":
            self.judged = None
            self.repeating.clear()
        if decision.status == "near_duplicate":
            self.dropped_for = decision.match_url or ""

    def find_wall(self, url: str) -> str:
        """Return an address if it is that of a wall."""
        return url if mask_passwords(url) in self._walls else ""


def _explain_url(config: Config, url: str, log: Path) -> Iterator[dict[str, Any]]:
    with open_as_it_is(config.store) as store:
        documents = store.find_documents([url])[url]
        logged = _Logged(log, url, {each.text for each in documents} - {""})
        if not documents and logged.last is None:
            known = store.read(lambda stored: [record.facts.url for _, record in stored])
            known += dict.fromkeys(decision.url for decision, _ in read_log(log, damaged=[]))
            problem = (
                f"{url} is neither in the store nor in the log {log}; name it as it was fetched; a "
                "page that redirects is known by its target"
            )
            raise PartlyFailedError(add_suggestions(problem, url, known))
        answers = [_explain_document(config, store, each, logged) for each in documents]
        if logged.last is not None and not (documents and logged.last.is_judged):
            answers.insert(0, _explain_line(config, logged.last))
    found = {"url": url, "decisions": list(logged.lines)}
    yield from (found | answer for answer in answers)


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
        why = sentences.FORGOTTEN_BECAUSE.get(decision.reason, decision.reason)
        advice = sentences.FAILED * (decision.reason == "failed")
        return {"verdict": f"Forgotten: {why}, so no page is dropped for it", "advice": advice}
    if decision.is_judged:
        why = "its items did not come through, its callback has no name, its judge died, or it "
        return {"verdict": f"Judged, but not in the store: {why}was deleted"}
    return {
        "verdict": sentences.tell_not_judged(decision.reason, decision.tests),
        "advice": sentences.tell_reason(decision.reason)[1],
    }


def _explain_document(
    config: Config, store: Store, document: StoredDocument, logged: _Logged
) -> dict[str, Any]:
    """Explain a document, by its last judgement in the log, and the page kept for it, if any."""
    dropped, kept = document.state == "duplicate", document.record.original
    nearest_url = logged.judged.nearest_url if logged.judged else None
    if document.record.spared:
        nearest_url = logged.dropped_for
    original = store.get_documents([kept]).get(kept) if dropped else None
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
    alike, led = len(logged.showing[document.text]), len(logged.repeating)
    verdict = sentences.tell_kept(nearest_url, decided, alike - led, changed=changed)
    verdict += f"; {plural(led, 'page')} repeat{'s' * (led == 1)} it" * bool(led)
    advice = "scrapy simhash explain URL URL\ncompares it with a page that you think it repeats"
    if wall:
        verdict, advice = verdict + sentences.OF_WALLS, sentences.advise_on_drop("", wall)
    elif alike >= sentences.MANY_ALIKE:
        advice = "see why the site shows it; a page that shows its own text again passes as changed"
    elif original is not None:
        prune = f"scrapy simhash prune {shlex.quote(document.facts.url)}"
        advice = f"{prune}\nforgets it; the next crawl judges it anew" * now["judged"]
    explained = {"verdict": verdict, "advice": advice}
    if "judged" not in now:
        return explained
    today = f"today it is kept for another reason: {now['tests'][1]}"
    today = "today it would be dropped for it" if now["judged"] else today
    today = f"{today}; {sentences.OF_TODAY}" * (
        now["judged"] or decided not in {"", now["tests"][1]}
    )
    return {**explained, "tests": tests, "now": today}


def _explain_duplicate(
    document: StoredDocument, original: StoredDocument | None, now: dict[str, Any], logged: _Logged
) -> dict[str, Any]:
    """Explain a near-duplicate, by the log, or as the pages are today."""
    judged, wall = logged.judged, logged.find_wall(original.facts.url) if original else ""
    if judged is not None and judged.match_document != document.record.original:
        judged = None
    # What changes by itself, the crawl knew; the store does not.
    noise = any(CHANGES in test for test in document.record.tests)
    if judged and judged.similarity is not None:
        now |= {"site_known": judged.site_known}
        now |= {"own_words": judged.own_words, "match_own_words": judged.match_own_words}
    elif noise:
        now = {name: each for name, each in now.items() if not name.endswith("own_words")}
    url = original.facts.url if original else "a page that was deleted"
    words = (now["own_words"], now["match_own_words"]) if "own_words" in now else None
    action = judged.action if judged else ""
    verdict = sentences.tell_duplicate(action, url, document.record, words)
    # The texts that are shown below are those of today.
    verdict += ", as both were then" * (judged is not None and not now.get("judged", True))
    verdict += sentences.OF_WALLS * bool(wall)
    undone = "Undone: it passes when it is fetched again. " * document.record.spared
    explained = now | {"verdict": f"{undone}{verdict}", "tests": list(document.record.tests)}
    if original is None:
        return explained
    changed = f"today it is no near-duplicate of it: {now['tests'][1]}; {sentences.OF_TODAY}"
    return {
        **explained,
        "advice": sentences.advise_on_drop(document.facts.url, wall) * (not document.record.spared),
        "now": changed * (not now["judged"] and not noise),
        "similarity": document.record.similarity,
    }


def _find_documents(store: Store, url: str) -> list[StoredDocument]:
    """Find the documents of a URL, or raise an error that suggests other spellings in the store."""
    documents = store.find_documents([url])[url]
    if not documents:
        known = store.read(lambda stored: [record.facts.url for _, record in stored])
        raise PartlyFailedError(add_suggestions(f"{url} is not in the store", url, known))
    return documents


def _read_file(config: Config, name: str, store: Store | None) -> StoredDocument:
    """Read an HTML file like a document, by recipe and seed of a store, or the default ones."""
    recipe, seed = (store.recipe, store.seed) if store else (Recipe(), 0)
    body = Path(name).read_bytes()
    try:
        made = fingerprint_page(body, recipe=recipe, seed=seed, ignore=config.ignore)
    except NotJudgedError as error:
        raise InspectionError(f"{name} has no fingerprint: {error.reason} {error.detail}") from None
    document = make_document(made, config.chosen_rule, Fetched(name, identity=b"-"))
    record = Record(document.facts, State.DONE, (), 0.0)
    return StoredDocument(0, record, unpack(document.wording) if document.wording else None)


def _find_near(config: Config, what: str) -> Iterator[dict[str, Any]]:
    """Find the pages of the store within `SIMHASH_DISTANCE` of a file, fingerprint or text."""
    with open_as_it_is(config.store) as store:
        # As far as the tables of the store are complete.
        distance = min(config.distance, parse_design(store.design).reach_bits)
        for match in store.query(_find_fingerprint(config, store, what), distance):
            near = {"fingerprint": f"{match.fingerprint:016x}", "distance": match.distance}
            for document in store.get_documents([match.document]).values():
                yield near | document.pick("document", "url", "state", "title")


def _find_fingerprint(config: Config, store: Store, what: str) -> int:
    if _HEX_FINGERPRINT.fullmatch(what):
        return int(what, 16)
    try:
        return _read_file(config, what, store).facts.fingerprint
    except (OSError, ValueError):  # none, too long for a path, or with a NUL: it must be a text
        if " " in what.strip():
            words = read_words(what, store.seed)
            return simhash(*weigh_features(words.hashes, store.recipe.window))
    raise InspectionError(
        f"{what!r} is not a URL (http://...), an existing file, a fingerprint (16 hexadecimal "
        "digits) or a text of several words"
    )


def add_suggestions(problem: str, url: str, known: Iterable[str]) -> str:
    """Add to a problem with a URL at most three known ones that are the same, written otherwise.

    >>> add_suggestions("no", "http://a.example/x", ["https://www.a.example/X.html"])
    'no; did you mean https://www.a.example/X.html ?'
    """
    form = _reduce(url)
    alike = dict.fromkeys(other for other in known if _reduce(other) == form)
    suggested = " or ".join([*alike][:_MOST_SUGGESTED])
    return f"{problem}; did you mean {suggested} ?" if suggested else problem


def _reduce(url: str) -> str:
    """Reduce a URL to what distinguishes pages, without what is often spelled otherwise."""
    written = unquote(url if "//" in url else f"http://{url}").lower()
    path, sign, query = plain_form(written).partition("?")
    return _ENDING.sub("", path) + sign + query or url
