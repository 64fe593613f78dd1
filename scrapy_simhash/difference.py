"""The difference of two texts, side by side: sentences that changed, and the words in them."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from scrapy_simhash.untrusted import printable_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# difflib needs the square of these for texts that are made for it.
_MOST_SENTENCES = 1_000
_MOST_WORDS = 1_000
# One that is longer is cut into several. Two have room, in any script.
_LONGEST_SENTENCE = 1_500
# Of both texts together, in UTF-8: what a reader looks at. A Chinese character has three bytes, and
# says as much as three Latin letters.
_BYTES_SHOWN = 12_000
# A changed sentence is shown with so many on either side.
_SENTENCES_AROUND = 1

_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])|\n+")  # noqa: RUF001 - Chinese ends
# Scripts without spaces are compared character by character: Thai, Lao, Myanmar, Khmer, Kana, Han.
_WORD = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u9fff]|\w+|\s+|[^\w\s]")


def compare_side_by_side(first: str, second: str) -> list[dict[str, Any]]:
    """Compare two texts sentence by sentence, and changed sentences word by word.

    >>> compare_side_by_side("Old cars.", "New cars.")
    [{'first': ['', 'Old', ' cars.'], 'second': ['', 'New', ' cars.']}]

    Args:
        first: a text.
        second: another.

    Returns:
        Rows from top to bottom, ready for JSON, without control characters. Each has one of:

        - `same`: a sentence that both have,
        - `first` and `second`: a changed passage, of each text in pieces, by turns the same and
          changed, the first one the same,
        - `skipped`: so many sentences that both have are left out here,
        - `left_out`, the last row: so many sentences of both texts were not compared, because
          there are more than 1,000 of a text, or have no room in 12,000 bytes.

        Cost: milliseconds; seconds for texts that are made for it.
    """
    texts = [_split(text) for text in (first, second)]
    ours, theirs = (sentences[:_MOST_SENTENCES] for sentences in texts)
    rows: list[dict[str, Any]] = []
    room = _BYTES_SHOWN
    shown = 0
    for row, sentences in _compare_sentences(ours, theirs):
        room -= len("".join(_list_pieces(row)).encode())
        if room < 0:
            break
        rows.append(row)
        shown += sentences
    if left_out := sum(map(len, texts)) - shown:
        rows.append({"left_out": left_out})
    return rows


def _split(text: str) -> list[str]:
    sentences = (" ".join(part.split()) for part in _SENTENCE_END.split(text))
    return [
        printable_text(sentence[start : start + _LONGEST_SENTENCE])
        for sentence in sentences
        for start in range(0, len(sentence), _LONGEST_SENTENCE)
    ]


def _list_pieces(row: dict[str, Any]) -> list[str]:
    return [*row.get("first", ()), *row.get("second", ()), row.get("same", "")]


def _compare_sentences(
    first: Sequence[str], second: Sequence[str]
) -> Iterator[tuple[dict[str, Any], int]]:
    """Make the rows; says of each how many sentences of both texts it stands for."""
    matcher = SequenceMatcher(None, first, second, autojunk=False)
    for kind, start, end, other_start, other_end in matcher.get_opcodes():
        if kind == "equal":
            rows = _shorten(first[start:end], first=start == 0, last=end == len(first))
            for row in rows:
                yield row, 2 * row.get("skipped", 1)
        else:
            yield from _compare_passages(first[start:end], second[other_start:other_end])


def _shorten(sentences: Sequence[str], *, first: bool, last: bool) -> Iterator[dict[str, Any]]:
    """Keep those of a passage that both have which are next to a change."""
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
    """Compare passages that were changed: as a whole where sentences were joined or split."""
    whole = " ".join(first), " ".join(second)
    if whole[0] == whole[1]:  # only a line ends elsewhere
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
    """Cut two passages into pieces, by turns the same and changed."""
    if not first or not second or max(len(first), len(second)) > _MOST_WORDS:
        return ["", "".join(first)], ["", "".join(second)]
    pieces: tuple[list[str], list[str]] = ([""], [""])
    matcher = SequenceMatcher(None, first, second)
    for kind, start, end, other_start, other_end in matcher.get_opcodes():
        for side, words in zip(
            pieces, (first[start:end], second[other_start:other_end]), strict=True
        ):
            if (kind == "equal") == (len(side) % 2 == 1):
                side[-1] += "".join(words)
            else:
                side.append("".join(words))
    return pieces
