"""How two pages compare, for people: by the current settings, and their texts side by side."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from scrapy_simhash._printable import JOINERS, escape
from scrapy_simhash.judging.documents import DEFAULT_DISTANCE_BITS, Rule
from scrapy_simhash.judging.hosts import Hosts
from scrapy_simhash.judging.matching import compare_by_words, compare_plainly
from scrapy_simhash.tables import parse_design

if TYPE_CHECKING:
    from scrapy_simhash.config import Config
    from scrapy_simhash.judging.documents import Document
    from scrapy_simhash.stores.store import Store


def compare_pages(
    config: Config, store: Store, first: Document, second: Document
) -> dict[str, Any]:
    """Describe how two pages compare, and how the current settings would judge them.

    Args:
        config: the settings; the rule is that of the store.
        store: with these pages.
        first: one of its documents.
        second: another one.
    """
    given = config.distance if store.rule == config.rule else DEFAULT_DISTANCE_BITS[store.rule]
    rule = Rule(min(given, parse_design(store.design).reach_bits), store.rule)
    mine, theirs = first.facts, second.facts
    wording, other = first.unpack(), second.unpack()

    if not (rule.by_words and wording and other) or mine.scope != theirs.scope:
        answer = compare_plainly(mine, theirs, rule)
    else:
        both = mine, theirs, (first.number, second.number)
        sites = store.read(lambda documents: Hosts().find_both(documents, *both))
        answer = compare_by_words(mine, theirs, (wording, other), sites)
    is_copy = answer.status == "near_duplicate"
    verdict = "Near-duplicates" if is_copy else "Different pages"
    compared: dict[str, Any] = {
        "verdict": f"{verdict} by the current settings: {answer.tests[1]}",
        "judged": is_copy,
        "pages": [describe_page(first), describe_page(second)],
        "tests": answer.tests,
        "distance": (mine.fingerprint ^ theirs.fingerprint).bit_count(),
    }
    if answer.similarity is not None:
        compared |= {"own_words": answer.own_words, "match_own_words": answer.match_own_words}
        compared |= {"similarity": answer.similarity, "site_known": answer.site_known}
    if wording is None or other is None:
        note = "the text of a page is missing or damaged: `scrapy simhash check` lists it"
        return compared | {"note": note}
    return compared | {"side_by_side": compare_side_by_side(str(wording), str(other))}


def describe_page(document: Document) -> dict[str, Any]:
    """Describe a page: what it is called, and who got it."""
    page = document.pick("url", "title", "heading", "language", "words", "features")
    page["fingerprint"] = f"{document.facts.fingerprint:016x}"
    page |= document.pick("document", "state", "crawls", "time")
    page["got_by"] = ".".join(filter(None, document.facts.reader))
    return page


# difflib's time grows with the square of this number for crafted texts.
_MOST_SENTENCES = 1_000
# Characters; a longer sentence is cut into several.
_LONGEST_SENTENCE = 1_500
# For both texts together, in UTF-8: as much as a reader looks at. A Chinese character has three
# bytes, and says as much as three Latin letters.
_BYTES_SHOWN = 12_000

_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])|\n+")  # noqa: RUF001 - Chinese ends
# Scripts without spaces are compared character by character: Thai, Lao, Myanmar, Khmer, Kana, Han.
_WORD = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u9fff]|\w+|\s+|[^\w\s]")


def compare_side_by_side(first: str, second: str) -> list[dict[str, Any]]:
    """Compare two texts sentence by sentence, and changed sentences word by word.

    Takes milliseconds, or seconds for crafted texts. The rows are ready for JSON, without control
    characters. Each has one of: `same`, a sentence of both beside a change; `first` and `second`, a
    changed sentence in pieces, alternately equal and changed; `skipped`, the number of equal
    sentences left out here; `left_out`, the number of sentences at the end of both texts that were
    not compared.

    >>> compare_side_by_side("Old cars.", "New cars.")
    [{'first': ['', 'Old', ' cars.'], 'second': ['', 'New', ' cars.']}]
    """
    texts = [_split(text) for text in (first, second)]
    ours, theirs = (text[:_MOST_SENTENCES] for text in texts)
    rows: list[dict[str, Any]] = []
    left, room, place = sum(map(len, texts)), _BYTES_SHOWN, 0
    matcher = SequenceMatcher(None, ours, theirs, autojunk=False)
    for group in matcher.get_grouped_opcodes(1):
        if skipped := group[0][1] - place:
            rows.append({"skipped": skipped})
            left -= 2 * skipped
        for kind, start, end, other_start, other_end in group:
            sentences = ours[start:end], theirs[other_start:other_end]
            for pair in zip_longest(*sentences, fillvalue=""):
                room -= sum(len(each.encode()) for each in pair[kind == "equal" :])
                if room < 0:
                    return [*rows, {"left_out": left}]
                rows.append({"same": pair[0]} if kind == "equal" else _compare_words(*pair))
                left -= sum(map(bool, pair))
        place = group[-1][2]
    if rest := len(ours) - place:
        rows.append({"skipped": rest})
    left = sum(map(len, texts)) - len(ours) - len(theirs)
    return rows + [{"left_out": left}] * bool(left)


def _split(text: str) -> list[str]:
    sentences = (" ".join(part.split()) for part in _SENTENCE_END.split(text))
    return [
        escape(sentence[start : start + _LONGEST_SENTENCE], JOINERS)
        for sentence in sentences
        for start in range(0, len(sentence), _LONGEST_SENTENCE)
    ]


def _compare_words(first: str, second: str) -> dict[str, list[str]]:
    """Cut two passages into pieces, alternately equal and changed."""
    ours, theirs = _WORD.findall(first), _WORD.findall(second)
    pieces: tuple[list[str], list[str]] = ([], [])
    matcher = SequenceMatcher(None, ours, theirs)
    for kind, start, end, other_start, other_end in matcher.get_opcodes():
        for side, words in zip(
            pieces, (ours[start:end], theirs[other_start:other_end]), strict=True
        ):
            if not side and kind != "equal":
                side.append("")
            side.append("".join(words))
    return dict(zip(("first", "second"), pieces, strict=True))
