"""The command explain: why pages were dropped or kept, what to do, and how two of them compare."""

from __future__ import annotations

import json
import re
import shlex
from collections import deque
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy_simhash._printable import mask_passwords, plural
from scrapy_simhash.crawl.running import find_log
from scrapy_simhash.errors import InspectionError, NotJudgedError, PartlyFailedError
from scrapy_simhash.inspection.comparing import compare_pages, describe_page
from scrapy_simhash.judge.log import FORGOTTEN, NOT_FOLLOWED, read_log
from scrapy_simhash.judging.documents import Deciding, Record, State, StoredDocument, make_document
from scrapy_simhash.judging.matching import CHANGES
from scrapy_simhash.pages.facts import MOSTLY_NEW, Fetched, Recipe, unpack
from scrapy_simhash.pages.features import read_words, simhash, weigh_features
from scrapy_simhash.pages.fingerprint import fingerprint_page
from scrapy_simhash.stores.opening import open_as_it_is
from scrapy_simhash.tables import parse_design

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scrapy_simhash.config import Config
    from scrapy_simhash.judge.log import Decision
    from scrapy_simhash.stores.store import Store

_LINES_SHOWN = 5
_HEX_FINGERPRINT = re.compile(r"(0x)?[0-9a-fA-F]{16}")
# As many as the log has of each page.
_MOST_WORDS = 10

# Why a page was not judged, as docs/meta.md has it, and what may be done about it.
_REASONS = {
    "bad_encoding": ("its text cannot be decoded", "the site has to declare the right charset"),
    "binary": ("its bytes are no text", "the site calls it HTML: see what it really sends"),
    "bucket_too_full": ("too many pages share the beginning of its fingerprint", ""),
    "empty": ("its body is empty", ""),
    "failed": ("reading it raised an error", "Scrapy's log has the traceback"),
    "method": ("it answers another method than GET", ""),
    "never_drop": ("its address matches SIMHASH_NEVER_DROP", ""),
    "no_callback": ("it has no callback, as robots.txt and media have none", ""),
    "no_store": ("the crawl was read-only, and there was no store", ""),
    "no_text": (
        "it has no visible text",
        "if scripts draw it, it needs a browser; SIMHASH_IGNORE may take all of it",
    ),
    "not_html": ("it is no HTML page", ""),
    "out_of_memory": ("reading it took too much memory", ""),
    "scope_failed": ("the function of SIMHASH_SCOPE raised an error", "mend that function"),
    "slow_site": ("three pages of its site took too long to read", ""),
    "status": ("its HTTP status is no success, which Scrapy keeps from callbacks", ""),
    "store_unavailable": ("the store, or its judge, could not be used", "see Scrapy's log"),
    "timed_out": ("reading it took longer than ten seconds", ""),
    "too_large": ("it is larger than 4 MiB", ""),
    "truncated": ("it did not arrive whole", "the next crawl may get all of it"),
    "worker_died": ("two processes that judged it ended", "see Scrapy's log at level DEBUG"),
}
_ACTIONS = {
    "drop": "Dropped",
    "follow": "Dropped, and its new links followed",
    "ignore-outlinks": "Kept without its links",
    "flag": "Only flagged",
    "pass": "Kept, because this crawl had not got the other page",
}
# Why a page that was judged new is no original.
_FORGOTTEN_BECAUSE = {
    "failed": "its callback or a pipeline failed",
    "unwanted": "pipelines dropped all its items",
    "not_arrived": "it never reached the spider",
    "asked_again": "it was asked for again",
    "handed_on": "its callback handed an item on in a request",
}


def explain(
    config: Config, what: Sequence[str], log_path: str | None, *, stored: bool = False
) -> Iterator[dict[str, Any]]:
    """Explain why a URL was dropped or kept, how two pages compare, or what is near to one.

    Two files have seed 0, unless they are compared as pages `stored` there are.

    Raises:
        InspectionError: a file has no fingerprint, or nothing like a page was named.
        OSError: a file cannot be read.
        PartlyFailedError: a page is unknown.
    """
    if len(what) == 1 and _is_url(what[0]):
        yield from _explain_url(config, what[0], find_log(config, log_path))
        return
    if len(what) == 1:
        yield from _find_near(config, what[0])
        return
    if len(what) != 2:  # noqa: PLR2004 - a pair
        raise InspectionError(f"name one page, or two URLs or files; got {' '.join(what)!r}")
    stored = stored or any(map(_is_url, what))
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
    """What a log says of a page, and which ones repeat it."""

    def __init__(self, log: Path, url: str) -> None:
        self.last: Decision | None = None
        self.judged: Decision | None = None
        self.dropped_for = ""
        self.lines: deque[dict[str, Any]] = deque(maxlen=_LINES_SHOWN)
        self.repeating: set[str] = set()
        own = mask_passwords(url)
        for decision, line in read_log(log):
            if decision.url == own:
                self._add(decision, line)
            copy = decision.status == "near_duplicate" and not decision.reason
            if copy and decision.match_url == own:
                self.repeating.add(decision.url)

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


def _explain_url(config: Config, url: str, log: Path) -> Iterator[dict[str, Any]]:
    with open_as_it_is(config.store) as store:
        documents = store.find_documents([url])
        logged = _Logged(log, url)
        if not documents and logged.last is None:
            raise PartlyFailedError(
                f"{url} is neither in the store nor in the log {log}; name it as it was fetched; a "
                "page that redirects is known by its target. `scrapy simhash log --url TEXT` lists "
                "addresses with a text"
            )
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
        why = _FORGOTTEN_BECAUSE.get(decision.reason, decision.reason)
        advice = "Scrapy's log has the error" * (decision.reason == "failed")
        return {"verdict": f"Forgotten: {why}, so no page is dropped for it", "advice": advice}
    if decision.is_judged:
        why = "its items did not come through, its callback has no name, its judge died, or it "
        return {"verdict": f"Judged, but not in the store: {why}was deleted"}
    return {
        "verdict": _tell_not_judged(decision.reason, decision.tests),
        "advice": tell_reason(decision.reason)[1],
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
        others = store.find_documents([expected])
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
    verdict = "Kept: no page like it was found that had come through when it was judged"
    if logged.last is not None and logged.last.reason == "changed":
        verdict = "Kept: it was kept before, and shows another text now"
    elif nearest_url is not None:
        verdict = f"Kept beside {nearest_url}, which is most like it: {''.join(tests[1:2])}"
    if led := len(logged.repeating):
        verdict += f"; {plural(led, 'page')} repeat{'s' * (led == 1)} it"
    advice = "scrapy simhash explain URL URL\ncompares it with a page that you think it repeats"
    if original is not None:
        verdict += "; today it would be dropped for it" * now["judged"]
        prune = f"scrapy simhash prune {shlex.quote(document.facts.url)}"
        advice = f"{prune}\nforgets it; the next crawl judges it anew" * now["judged"]
    return {"verdict": verdict, "advice": advice, "tests": tests}


def _explain_duplicate(
    document: StoredDocument, original: StoredDocument | None, now: dict[str, Any], logged: _Logged
) -> dict[str, Any]:
    """Explain a near-duplicate, by the log, or as the pages are today."""
    judged = logged.judged
    if judged is not None and judged.match_document != document.record.original:
        judged = None
    if judged and judged.similarity is not None:
        now |= {"site_known": judged.site_known}
        now |= {"own_words": judged.own_words, "match_own_words": judged.match_own_words}
    elif any(CHANGES in test for test in document.record.tests):  # the crawl knew, the store not
        now = {name: each for name, each in now.items() if not name.endswith("own_words")}
    url = original.facts.url if original else "a page that was deleted"
    words = (now["own_words"], now["match_own_words"]) if "own_words" in now else None
    verdict = _tell_duplicate(judged.action if judged else "", url, document.record, words)
    spared = document.record.spared
    undone = "Undone: it passes when it is fetched again. " * spared
    explained = now | {"verdict": f"{undone}{verdict}", "tests": list(document.record.tests)}
    if original is None:
        return explained
    undo = f"scrapy simhash undo {shlex.quote(document.facts.url)}"
    passes = "lets it pass when it is fetched again; SIMHASH_NEVER_DROP keeps such addresses"
    advice = f"{undo}\n{passes}" * (not spared)
    return {**explained, "advice": advice, "similarity": document.record.similarity}


def tell_reason(reason: str) -> tuple[str, str]:
    """Tell why a page was not judged, and what to do; "" for nothing."""
    return _REASONS.get(reason, (reason, ""))


def _tell_not_judged(reason: str, errors: Sequence[str]) -> str:
    """Tell that a page was not judged, why, and that it came through, if it did."""
    came = ", so it came through" * (reason != "status")
    why = f" ({', '.join(errors)})" * bool(errors)
    return f"Not judged{came}: {tell_reason(reason)[0]}{why}"


def _tell_duplicate(
    action: str, url: str, record: Record, words: tuple[Sequence[str], Sequence[str]] | None
) -> str:
    """Tell what happened to a near-duplicate, and why.

    Args:
        action: of the log; "" if it is not known.
        url: the page that it repeats.
        record: its own, which says why the two are one.
        words: the first ten words that it alone has, and that only the page has that it repeats;
            None if they are not known.
    """
    decided, own = "".join(record.tests[1:2]), words[0] if words else ()
    if decided == Deciding.DIGEST:
        why = f"its text, too short for a fingerprint, is that of {url}"
    elif decided in {Deciding.DISTANCE, Deciding.NO_WORDS}:
        why = f"its fingerprint is {plural(record.distance, 'bit')} away from that of {url}"
    elif words is None:
        why = f"it repeats {url}"
    elif not own:
        aside = ", but for what changes by itself" * any(CHANGES in each for each in record.tests)
        why = f"it says nothing that {url} does not say{aside}"
    elif len(own) >= _MOST_WORDS:
        why = f"it says little that {url} does not say: {_show_words(own)}"
    else:
        there = f" (there {_show_words(words[1])})" * bool(words[1])
        why = f"only {_show_words(own)}{there} differs from {url}"
    return f"{_ACTIONS.get(action, 'Near-duplicate')}: {why}"


def _show_words(words: Sequence[str]) -> str:
    return repr(" ".join(words) + " ..." * (len(words) >= _MOST_WORDS))


def _find_documents(store: Store, url: str) -> list[StoredDocument]:
    """Find the documents of a URL, or raise an error."""
    documents = store.find_documents([url])
    if not documents:
        raise PartlyFailedError(f"{url} is not in the store; name it as it was fetched")
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
