"""The command explain: why pages were dropped or kept, what to do, and how two of them compare."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy_simhash._printable import mask_passwords, plural
from scrapy_simhash.crawl.running import find_log
from scrapy_simhash.errors import InspectionError, NotJudgedError, PartlyFailedError
from scrapy_simhash.inspection.comparing import compare_pages, describe_page
from scrapy_simhash.judge.log import FORGOTTEN, NOT_FOLLOWED, read_log
from scrapy_simhash.judging.documents import Document, State, make_document
from scrapy_simhash.judging.matching import CHANGES
from scrapy_simhash.pages.facts import MOSTLY_NEW, Fetched
from scrapy_simhash.pages.fingerprint import fingerprint_page
from scrapy_simhash.stores.opening import open_as_it_is
from scrapy_simhash.tables import parse_design

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scrapy_simhash.config import Config
    from scrapy_simhash.judging.documents import Decision
    from scrapy_simhash.stores.store import Store

# As many as the log has of each page.
_MOST_WORDS = 10

_ACTIONS = {
    "drop": "Dropped",
    "follow": "Dropped, and its new links followed",
    "ignore-outlinks": "Kept without its links",
    "flag": "Only flagged",
    "pass": "Kept, because this crawl had not got the other page",
}


def explain(config: Config, what: Sequence[str], log_path: str | None) -> Iterator[dict[str, Any]]:
    """Explain why a URL was dropped or kept, how the pages of two compare, or what is near a text.

    Raises:
        InspectionError: neither one or two URLs were named, nor a file, fingerprint or text.
        PartlyFailedError: a page is unknown.
    """
    urls = [each for each in what if each.startswith(("http://", "https://"))]
    if len(what) != max(len(urls), 1) or len(urls) > 2:  # noqa: PLR2004 - a pair
        raise InspectionError(f"name a URL (http://...), or two of them; got {' '.join(what)!r}")
    if len(urls) == 1:
        yield from _explain_url(config, urls[0], find_log(config, log_path))
        return
    with open_as_it_is(config.store) as store:
        if not urls:
            # As far as the tables of the store are complete.
            distance = min(config.distance, parse_design(store.design).reach_bits)
            for bits, each in store.query(_read_fingerprint(config, store, what[0]), distance):
                yield {"url": each.facts.url, "distance": bits, "document": each.number}
            return
        pages = [store.find_documents([url]) for url in urls]
        for url, found in zip(urls, pages, strict=True):
            if not found:
                raise PartlyFailedError(f"{url} is not in the store; name it as it was fetched")
        yield compare_pages(config, store, *(found[-1] for found in pages))


def _read_fingerprint(config: Config, store: Store, what: str) -> int:
    if re.fullmatch("[0-9a-fA-F]{16}", what):
        return int(what, 16)
    body: bytes | str = what
    try:
        body = Path(what).read_bytes()
    except (OSError, ValueError):  # none, too long for a path, or with a NUL: it must be a text
        if " " not in what.strip():
            raise InspectionError(
                f"{what!r} is not a URL (http://...), an existing file, a fingerprint (16 "
                "hexadecimal digits) or a text of several words"
            ) from None
    try:
        made = fingerprint_page(body, None, store.recipe, store.seed, ignore=config.ignore)
    except NotJudgedError as error:
        raise InspectionError(f"{what} has no fingerprint: {error.reason} {error.detail}") from None
    return make_document(made, config.chosen_rule, Fetched(what, identity=b"-")).facts.fingerprint


class _Logged:
    """What a log says of a page, and which ones repeat it."""

    def __init__(self, log: Path, url: str) -> None:
        self.last: Decision | None = None
        self.judged: Decision | None = None
        self.dropped_for = ""
        self.repeating: set[str] = set()
        own = mask_passwords(url)
        for decision, _ in read_log(log):
            if decision.url == own:
                self._add(decision)
            copy = decision.status == "near_duplicate" and not decision.reason
            if copy and decision.match_url == own:
                self.repeating.add(decision.url)

    def _add(self, decision: Decision) -> None:
        self.last = decision
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
        answers = [
            (_explain_duplicate if each.state == State.DUPLICATE else _explain_kept)(
                config, store, each, logged
            )
            for each in documents
        ]
        if logged.last is not None and not (documents and logged.last.is_judged):
            answers.insert(0, _explain_line(config, logged.last))
    yield from ({"url": url, **answer} for answer in answers)


def _explain_line(config: Config, decision: Decision) -> dict[str, Any]:
    """Explain a page that is not in the store, by its line in the log."""
    if decision.status == NOT_FOLLOWED:
        verdict = f"Not followed: only dropped pages link to it, {decision.match_url} for one"
        undo = f"scrapy simhash undo {shlex.quote(decision.match_url or '')}"
        advice = f"{undo}\nlets that page pass, with all its links"
        if (decision.new_links or 0.0) >= MOSTLY_NEW and not config.follow_new_links:
            advice = "SIMHASH_FOLLOW_NEW_LINKS = True follows links of pages of mostly new ones"
        return {"verdict": verdict, "advice": advice}
    if decision.is_judged:
        why = "its items did not come through, its callback has no name, its judge died, or it "
        return {"verdict": f"Judged, but not in the store: {why}was deleted"}
    why = " ".join([decision.reason.replace("_", " "), *decision.tests])
    if decision.status == FORGOTTEN:
        return {"verdict": f"Forgotten, so no page is dropped for it: {why}"}
    came = ", so it came through" * (decision.reason != "status")
    return {"verdict": f"Not judged{came}: {why}", "advice": "docs/meta.md has all reasons"}


def _explain_kept(
    config: Config, store: Store, document: Document, logged: _Logged
) -> dict[str, Any]:
    """Explain why a page was kept, beside the nearest one as it was then."""
    url, spared, judged = document.facts.url, document.spared, logged.judged
    nearest_url = logged.dropped_for if spared else judged and judged.nearest_url
    now: dict[str, Any] = {"pages": [describe_page(document)]}
    # What it declares may be the page that somebody expects it to repeat.
    if expected := nearest_url or document.facts.canonical:
        found = store.find_documents([expected])
        others = [each for each in found if each.number != document.number]
        if others:
            now = compare_pages(config, store, document, others[-1])
    if spared:
        dropped = f" for {nearest_url}" if nearest_url else ""
        undone = f"Kept: it was dropped{dropped}, then let in by `scrapy simhash undo`"
        return now | {"verdict": undone}
    tests = judged.nearest_tests if judged else []
    verdict = "Kept: no page like it was found that had come through when it was judged"
    if logged.last is not None and logged.last.reason == "changed":
        verdict = "Kept: it was kept before, and shows another text now"
    elif nearest_url:
        verdict = f"Kept beside {nearest_url}, which is most like it: {''.join(tests[1:2])}"
    if led := len(logged.repeating):
        verdict += f"; {plural(led, 'page')} repeat{'s' * (led == 1)} it"
    advice = "scrapy simhash explain URL URL\ncompares it with a page that you think it repeats"
    if "judged" in now:
        verdict += "; today it would be dropped for it" * now["judged"]
        prune = f"scrapy simhash prune {shlex.quote(url)}"
        advice = f"{prune}\nforgets it; the next crawl judges it anew" * now["judged"]
    return now | {"verdict": verdict, "advice": advice, "tests": tests}


def _explain_duplicate(
    config: Config, store: Store, document: Document, logged: _Logged
) -> dict[str, Any]:
    """Explain a near-duplicate, by the log, or as the pages are today."""
    judged, kept = logged.judged, document.original
    if judged is not None and judged.match_document != kept:
        judged = None
    now: dict[str, Any] = {"pages": [describe_page(document)]}
    if original := store.get_documents([kept]).get(kept):
        now = compare_pages(config, store, document, original)
    if judged and judged.similarity is not None:
        now |= {"site_known": judged.site_known}
        now |= {"own_words": judged.own_words, "match_own_words": judged.match_own_words}
    elif any(CHANGES in test for test in document.tests):  # the crawl knew, the store not
        now = {name: each for name, each in now.items() if not name.endswith("own_words")}
    url = original.facts.url if original else "a page that was deleted"
    words = (now["own_words"], now["match_own_words"]) if "own_words" in now else None
    verdict = _tell_duplicate(judged.action if judged else "", url, document, words)
    spared = document.spared
    undone = "Undone: it passes when it is fetched again. " * spared
    explained = now | {"verdict": f"{undone}{verdict}", "tests": list(document.tests)}
    if original is None:
        return explained
    undo = f"scrapy simhash undo {shlex.quote(document.facts.url)}"
    passes = "lets it pass when it is fetched again; SIMHASH_NEVER_DROP keeps such addresses"
    advice = f"{undo}\n{passes}" * (not spared)
    return {**explained, "advice": advice, "similarity": document.similarity}


def _tell_duplicate(
    action: str, url: str, page: Document, words: tuple[Sequence[str], Sequence[str]] | None
) -> str:
    """Tell what happened to a near-duplicate, and why.

    Args:
        action: of the log; "" if it is not known.
        url: the page that it repeats.
        page: the near-duplicate, which says why the two are one.
        words: the first ten words that it alone has, and that only the other one has;
            None if they are not known.
    """
    decided, own = "".join(page.tests[1:2]), words[0] if words else ()
    if words is None:
        why = f"it repeats {url}: {decided}"
    elif not own:
        aside = ", but for what changes by itself" * any(CHANGES in each for each in page.tests)
        why = f"it says nothing that {url} does not say{aside}"
    elif len(own) >= _MOST_WORDS:
        why = f"it says little that {url} does not say: {_show_words(own)}"
    else:
        there = f" (there {_show_words(words[1])})" * bool(words[1])
        why = f"only {_show_words(own)}{there} differs from {url}"
    return f"{_ACTIONS.get(action, 'Near-duplicate')}: {why}"


def _show_words(words: Sequence[str]) -> str:
    return repr(" ".join(words) + " ..." * (len(words) >= _MOST_WORDS))
