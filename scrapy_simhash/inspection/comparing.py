"""How two pages compare, for people: by the current settings, and their texts side by side."""

from __future__ import annotations

import re
from collections import Counter
from difflib import SequenceMatcher
from itertools import takewhile, zip_longest
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import structs

from scrapy_simhash._printable import plural, printable_text
from scrapy_simhash.judging.comparison import compare
from scrapy_simhash.judging.documents import Document, StoredDocument
from scrapy_simhash.judging.evidence import Deciding, Evidence, Relation
from scrapy_simhash.judging.finding import compare_by_words
from scrapy_simhash.judging.rule import LEAST_OF_TEMPLATE, SHARE_OF_TEMPLATE
from scrapy_simhash.pages.addresses import host_of
from scrapy_simhash.pages.wording import unpack
from scrapy_simhash.simhash import hamming_distance
from scrapy_simhash.tables.designs import parse_design

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from scrapy_simhash.config import Config
    from scrapy_simhash.judging.comparison import Answer
    from scrapy_simhash.judging.evidence import Rule
    from scrapy_simhash.pages.wording import Wording
    from scrapy_simhash.stores.store import Store

_Page: TypeAlias = Document | StoredDocument
_NO_TEXT = "the text of a page is missing or damaged: `scrapy simhash check` lists it"


def compare_pages(
    config: Config, store: Store | None, first: _Page, second: _Page
) -> dict[str, Any]:
    """Describe how two pages compare, and how the current settings would judge them.

    Args:
        config: the settings.
        store: with these pages, or that they are compared with; None for two files.
        first: a document of the store, or one that was made of a file.
        second: another one.
    """
    tables = 4 if config.tables == "auto" else config.tables
    reach_bits = parse_design(store.design if store else tables).reach_bits
    rule = config.chosen_rule._replace(distance=min(config.distance, reach_bits))
    answer = _answer(rule, store, first, second)
    mine, theirs = first.facts, second.facts
    decided = answer.tests[1]
    verdict = "Near-duplicates" if answer.duplicate else "Different pages"
    compared: dict[str, Any] = {
        "verdict": f"{verdict} by the current settings: {decided}",
        "judged": answer.duplicate,
        "pages": [describe_page(first), describe_page(second)],
        "within": rule.distance,
        "tests": list(answer.tests),
        **weigh(answer.evidence, decided),
    }
    fingerprints = mine.fingerprint, theirs.fingerprint
    compared["compared"] = [f"{each:016x}" for each in fingerprints]
    compared["distance"] = hamming_distance(*fingerprints)
    wording, other = _read_wording(first), _read_wording(second)
    if answer.similarity is not None:
        own_words, match_own_words = map(list, answer.words)
        compared |= {"own_words": own_words, "match_own_words": match_own_words}
        compared |= {"similarity": answer.similarity, "site_known": answer.evidence.known}
    if wording is None or other is None:
        return compared | {"note": _NO_TEXT}
    sample = store.read(lambda stored: stored.sample(host_of(mine.url))) if store else {}
    documents = [*store.get_documents(sample).values()] if store else []
    others = [
        str(each.wording)
        for each in documents
        if each.wording and each.facts.url not in {mine.url, theirs.url}
    ]
    template = list_template(others)
    return {**compared, "side_by_side": compare_side_by_side(str(wording), str(other), template)}


def _answer(rule: Rule, store: Store | None, first: _Page, second: _Page) -> Answer:
    """Compare two pages as a crawl would; a store knows nothing of a file, nor its scope."""
    mine, theirs = first.facts, second.facts
    stored = isinstance(first, StoredDocument) and isinstance(second, StoredDocument)
    if not stored:
        theirs = structs.replace(theirs, scope=mine.scope)
    answer = compare(mine, theirs, rule)
    wording, other = _read_wording(first), _read_wording(second)
    by_words = answer.evidence.deciding in {Deciding.WORDS, Deciding.DIGEST} and not rule.plain
    if not (by_words and wording and other):
        return answer
    if store is None or not stored:
        return compare_by_words(None, mine, theirs, (wording, other))
    return store.read(lambda docs: compare_by_words(docs, mine, theirs, (wording, other)))


def _read_wording(page: _Page) -> Wording | None:
    """Get what a reader sees of a page of the store or of a file; None where it is missing."""
    if isinstance(page, StoredDocument):
        return page.wording
    return unpack(page.wording) if page.wording else None


def weigh(evidence: Evidence, decided: str) -> dict[str, Any]:
    """Return what two pages agreed in, what they differed in, and what decided."""
    sides: dict[bool, list[str]] = {True: [], False: []}
    bits = f"{plural(evidence.distance, 'bit')} apart"
    if evidence.deciding is Deciding.DIGEST:
        sides[evidence.equal].append("digests")
    elif evidence.distance <= evidence.within or not (evidence.named or evidence.keys):
        near = evidence.distance <= evidence.within
        sides[near].append(
            f"fingerprints ({bits}, {'' if near else 'not '}within {evidence.within})"
        )
    else:
        by = "a part of their names" if evidence.named else "rare words"
        sides[True].append(f"{by} (fingerprints are {bits})")
    if evidence.deciding is Deciding.WORDS:
        for name, relation in (("titles", evidence.title), ("headings", evidence.heading)):
            if relation is not Relation.SILENT:
                sides[relation is Relation.SAME].append(name)
        alike = evidence.main_alike
        sides[alike == 1].append(f"words of the main texts ({alike:.2f})")
    return {"agreed": sides[True], "differed": sides[False], "decided": decided}


def describe_page(document: _Page) -> dict[str, Any]:
    """Describe a page: what it is called, and, if it is stored, who got it."""
    page: dict[str, Any] = {
        name: getattr(document.facts, name)
        for name in ("url", "title", "heading", "language", "words", "features")
    }
    page["fingerprint"] = f"{document.facts.fingerprint:016x}"
    if isinstance(document, StoredDocument):  # and no file
        page |= document.pick("document", "state", "crawls", "time")
        page["got_by"] = ".".join(filter(None, document.facts.reader))
    return page


# difflib's time grows with the square of this number for crafted texts.
_MOST_SENTENCES = 1_000
_MOST_WORDS = 1_000
# Characters; a longer sentence is cut into several. There is space to show two, in any script.
_LONGEST_SENTENCE = 1_500
# For both texts together, in UTF-8: as much as a reader looks at. A Chinese character has three
# bytes, and says as much as three Latin letters.
_BYTES_SHOWN = 12_000
# Number of sentences shown on either side of a changed one.
_SENTENCES_AROUND = 1

_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])|\n+")  # noqa: RUF001 - Chinese ends
# Scripts without spaces are compared character by character: Thai, Lao, Myanmar, Khmer, Kana, Han.
_WORD = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u9fff]|\w+|\s+|[^\w\s]")


def compare_side_by_side(
    first: str, second: str, template: Container[str] = ()
) -> list[dict[str, Any]]:
    """Compare two texts sentence by sentence, and changed sentences word by word.

    Takes milliseconds, or seconds for crafted texts. The rows are ready for JSON, without control
    characters. Each has one of: `same`, a sentence of both; `first` and `second`, a changed passage
    in pieces, alternately equal and changed; `skipped`, the number of equal sentences left out
    here; `left_out`, the number of sentences at the end of both texts that were not compared.
    A row of sentences that are template, see `list_template`, has `template` as well.

    >>> compare_side_by_side("Old cars.", "New cars.")
    [{'first': ['', 'Old', ' cars.'], 'second': ['', 'New', ' cars.']}]
    """
    texts = [_split(text) for text in (first, second)]
    long = max(map(len, texts)) > _MOST_SENTENCES
    skipped = long * max(0, _count_common(*texts) - _SENTENCES_AROUND)
    ours, theirs = (sentences[skipped : skipped + _MOST_SENTENCES] for sentences in texts)
    rows: list[dict[str, Any]] = [{"skipped": skipped}] if skipped else []
    room = _BYTES_SHOWN
    shown = 2 * skipped
    for row, sentences in _compare_sentences(ours, theirs):
        pieces = [*row.get("first", ()), *row.get("second", ()), row.get("same", "")]
        room -= len("".join(pieces).encode())
        if room < 0:
            break
        texts_shown = filter(
            None, ("".join(row.get(side, ())) for side in ("first", "second", "same"))
        )
        if "skipped" not in row and all(text in template for text in texts_shown):
            row["template"] = True
        rows.append(row)
        shown += sentences
    if left_out := sum(map(len, texts)) - shown:
        rows.append({"left_out": left_out})
    return rows


def list_template(texts: Sequence[str]) -> set[str]:
    """List the sentences that so many other pages of a site have that they are template."""
    counted = Counter(sentence for text in texts for sentence in {*_split(text)})
    least = max(LEAST_OF_TEMPLATE, SHARE_OF_TEMPLATE * len(texts))
    return {sentence for sentence, pages in counted.items() if pages >= least}


def _split(text: str) -> list[str]:
    sentences = (" ".join(part.split()) for part in _SENTENCE_END.split(text))
    pieces = [
        sentence[start : start + _LONGEST_SENTENCE]
        for sentence in sentences
        for start in range(0, len(sentence), _LONGEST_SENTENCE)
    ]
    return [piece if piece.isprintable() else printable_text(piece) for piece in pieces]


def _compare_sentences(
    first: Sequence[str], second: Sequence[str]
) -> Iterator[tuple[dict[str, Any], int]]:
    """Make the rows, each with the number of sentences in both texts that it stands for."""
    matcher = SequenceMatcher(None, first, second, autojunk=False)
    for kind, start, end, other_start, other_end in matcher.get_opcodes():
        if kind == "equal":
            rows = _shorten(first[start:end], first=start == 0, last=end == len(first))
            for row in rows:
                yield row, 2 * row.get("skipped", 1)
        else:
            yield from _compare_passages(first[start:end], second[other_start:other_end])


def _shorten(sentences: Sequence[str], *, first: bool, last: bool) -> Iterator[dict[str, Any]]:
    """From a passage that both texts have, keep only the sentences next to a change."""
    before = 0 if first else _SENTENCES_AROUND
    after = 0 if last else _SENTENCES_AROUND
    skipped = len(sentences) - before - after
    if skipped <= 1:
        yield from ({"same": sentence} for sentence in sentences)
        return
    yield from ({"same": sentence} for sentence in sentences[:before])
    yield {"skipped": skipped}
    yield from ({"same": sentence} for sentence in sentences[before + skipped :])


def _compare_passages(
    first: Sequence[str], second: Sequence[str]
) -> Iterator[tuple[dict[str, Any], int]]:
    """Compare changed passages; as a whole if sentences were joined or split."""
    whole = " ".join(first), " ".join(second)
    if whole[0] == whole[1]:  # only line breaks differ
        yield {"same": whole[0]}, len(first) + len(second)
        return
    if len(first) != len(second) and sum(map(len, whole)) <= _LONGEST_SENTENCE:
        mine, yours = _compare_words(*map(_WORD.findall, whole))
        yield {"first": mine, "second": yours}, len(first) + len(second)
        return
    for ours, theirs in zip_longest(first, second, fillvalue=""):
        mine, yours = _compare_words(_WORD.findall(ours), _WORD.findall(theirs))
        yield {"first": mine, "second": yours}, bool(ours) + bool(theirs)


def _compare_words(first: list[str], second: list[str]) -> tuple[list[str], list[str]]:
    """Cut two passages into pieces, alternately equal and changed."""
    begin = _count_common(first, second)
    end = _count_common(first[begin:][::-1], second[begin:][::-1])
    ours, theirs = (words[begin : len(words) - end] for words in (first, second))
    parts = [(True, first[:begin], first[:begin])]
    if max(len(ours), len(theirs)) > _MOST_WORDS:
        parts.append((False, ours, theirs))
    else:
        parts += (
            (kind == "equal", ours[start:stop], theirs[other_start:other_stop])
            for kind, start, stop, other_start, other_stop in SequenceMatcher(
                None, ours, theirs
            ).get_opcodes()
        )
    parts.append((True, first[len(first) - end :], first[len(first) - end :]))
    pieces: tuple[list[str], list[str]] = ([""], [""])
    for equal, *both in parts:
        for side, words in zip(pieces, both, strict=True):
            if equal == (len(side) % 2 == 1):
                side[-1] += "".join(words)
            elif words or not equal:
                side.append("".join(words))
    return pieces


def _count_common(first: Sequence[str], second: Sequence[str]) -> int:
    """Count what two sequences have in common at their beginnings."""
    pairs = zip(first, second, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
