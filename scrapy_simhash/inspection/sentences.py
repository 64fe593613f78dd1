"""Say in sentences what was decided on a page, why, and what to do if that is wrong."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from scrapy_simhash._printable import plural, show_bytes
from scrapy_simhash.crawl import end
from scrapy_simhash.crawl.policy import NOT_FETCHED
from scrapy_simhash.crawl.running import add_option
from scrapy_simhash.judging.documents import Deciding
from scrapy_simhash.judging.matching import CHANGES, MOST_CALLED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_simhash.judging.documents import Record

# Why a page was not judged, as docs/meta.md has it, and what may be done about it.
FAILED = "Scrapy's log has the error"
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
    "not_fetched": ("it did not come", FAILED),
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
FORGOTTEN_BECAUSE = {
    "failed": "its callback or a pipeline failed",
    "unwanted": "pipelines dropped all its items",
    "not_arrived": "it never reached the spider",
    "asked_again": "it was asked for again",
    "handed_on": "its callback handed an item on in a request",
}
OF_WALLS = ". That is a wall: addresses with nothing in common lead there (a login, an error?)"
# Why a judgement of then and one of now may differ.
OF_TODAY = "since then pages came that show what all have in common, or texts or settings changed"
OF_ONE_TEXT = (
    "Known pages are kept. Log in (or see why the site shows it), and crawl these again: a page "
    "that shows its own text again passes as changed."
)
MANY_ALIKE, _OF_MANY = 4, " (its other addresses? a login?)"  # other pages that show one text
# As many as the log has of each page.
MOST_WORDS = 10


def tell_reason(reason: str) -> tuple[str, str]:
    """Tell why a page was not judged, and what to do; "" for nothing."""
    return _REASONS.get(reason, (reason, ""))


def tell_not_judged(reason: str, errors: Sequence[str]) -> str:
    """Tell that a page was not judged, why, and that it came through, if it did."""
    came = ", so it came through" * (reason not in NOT_FETCHED)
    why = f" ({', '.join(errors)})" * bool(errors)
    return f"Not judged{came}: {tell_reason(reason)[0]}{why}"


def tell_duplicate(
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
    elif len(own) >= MOST_WORDS:
        why = f"it says little that {url} does not say: {_show_words(own)}"
    else:
        there = f" (there {_show_words(words[1])})" * bool(words[1])
        why = f"only {_show_words(own)}{there} differs from {url}"
    return f"{_ACTIONS.get(action, 'Near-duplicate')}: {why}"


def _show_words(words: Sequence[str]) -> str:
    return repr(" ".join(words) + " ..." * (len(words) >= MOST_WORDS))


def tell_kept(nearest_url: str | None, decided: str, alike: int, *, changed: bool) -> str:
    """Tell why a page was kept, and how many others showed its text without repeating it."""
    told = "Kept: no page like it was found that had come through when it was judged"
    others = plural(alike, "other page")
    if changed:
        told = "Kept: it was kept before, and shows another text now"
    elif nearest_url is not None:
        told = f"Kept beside {nearest_url}, which is most like it: {decided}"
    elif alike > MOST_CALLED:
        return f"Kept: {others} showed its text, too many to compare{_OF_MANY}"
    return told + f"; {others} showed its text{_OF_MANY * (alike >= MANY_ALIKE)}" * (alike > 0)


def advise_on_drop(url: str, wall: str) -> str:
    """Return what to do if a page should not have been dropped, or is behind a wall."""
    if wall:
        return (
            f"scrapy simhash undo --original {shlex.quote(wall)}\n"
            "lets all that led there pass when they are fetched again; but see first why the site "
            "shows it: what is behind it was not crawled"
        )
    return (
        f"scrapy simhash undo {shlex.quote(url)}\n"
        "lets it pass when it is fetched again; SIMHASH_NEVER_DROP keeps such addresses"
    )


def answer(figures: dict[str, Any], option: str) -> dict[str, str]:
    """Answer by the figures of a log what crawls saved, and what may be wrong or lost.

    `option` is what commands need to find the store.
    """
    nothing = "Nothing was dropped." * (not (figures["dropped"] or figures["would_be_dropped"]))
    alerts = f"Look at: {figures['alerts']}." * bool(figures["alerts"])
    answers = {
        "What did it save?": _tell_saved(figures),
        "Is any drop wrong?": f"{nothing} {alerts}".strip() or "Nothing speaks against one.",
        "Is anything not crawled?": _tell_lost(figures),
        "Is a copy kept?": f"{figures['look_alikes'] or 'No page looks like another kept one'}.",
    }
    return {question: add_option(said, option) for question, said in answers.items()}


def _tell_saved(figures: dict[str, Any]) -> str:
    judged, would, dropped = (figures[name] for name in ("judged", "would_be_dropped", "dropped"))
    judged_pages = f"{plural(judged, 'page')} judged"
    if not (would or dropped):
        kept = plural(figures["near_duplicates"], "near-duplicate")
        also = f"; {kept} came through" * (figures["near_duplicates"] > 0)
        return f"None of {judged_pages} was dropped{also}."
    share = f"{100 * (would or dropped) / judged:.1f} %"
    were = "would be" if would else "was" if dropped == 1 else "were"
    told = f"{would or dropped:,} of {judged_pages} ({share}) {were} dropped as"
    links = figures["would_drop_links" if would else "links_dropped"]
    octets = figures["would_drop_bytes" if would else "dropped_bytes"]
    saved = f", with {plural(links, 'link')}"
    saved += f" and {show_bytes(octets)} of HTML" * (octets > 0)
    copies = "a near-duplicate" if (would or dropped) == 1 else "near-duplicates"
    told += f" {copies} of {plural(figures['originals'], 'page')}{saved}."
    if kept := figures["near_duplicates_kept"]:
        told += f" {plural(kept, 'near-duplicate')} more {'was' if kept == 1 else 'were'} kept."
    return told + f" {figures['notes']}." * bool(figures["notes"])


def _tell_lost(figures: dict[str, Any]) -> str:
    passed = sum(each["pages"] for each in figures["reasons"] if not each["expected"])
    links, listed = plural(figures["links_not_followed"], "link"), figures["links_listed"]
    cut = f" (listed: {listed:,})" * (listed < figures["links_not_followed"])
    limits, failed, lost = (figures[name] for name in ("cut_off", "not_fetched", "forgotten"))
    whose = "pages that would be dropped" if figures["would_be_dropped"] else "dropped pages"
    parts = [
        told
        for number, told in (
            (len(limits), f"Crawled only {'; '.join(limits)}."),
            (len(failed), end.tell_not_fetched(failed)),
            (len(figures["walls"]), f"{figures['walls']}."),
            (figures["links_not_followed"], f"{links} that only {whose} had{cut}."),
            (passed, end.tell_not_judged(passed)),
            (lost, f"{plural(lost, 'page')} did not come through: no page is dropped for these."),
        )
        if number
    ]
    return " ".join(filter(None, parts)) or "Nothing."
