"""The differences that a report shows: the most telling pairs whose texts the store has kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy_simhash.difference import compare_side_by_side
from scrapy_simhash.report_groups import choose_telling, find_stored
from scrapy_simhash.untrusted import show

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scrapy_simhash.report_input import Decision
    from scrapy_simhash.stored import StoredDocument
    from scrapy_simhash.stores import Store

MOST_PAIRS = 200
_MOST_OF_A_GROUP = 3
# So many pairs in a row with the same texts, or of other pages by now, and there will be no more.
_PATIENCE = 10_000


def compare_pairs(
    near_duplicates: Sequence[Decision], store: Store, progress: Callable[[int, int], object]
) -> list[dict[str, Any]]:
    """Compare the texts of up to 200 pairs, the most telling first.

    Args:
        near_duplicates: to choose from. Pairs with the same text have nothing to show.
        store: which may have texts of some of them, as when SIMHASH_KEEP_TEXT was set late.
        progress: is told how many of how many are done.

    Returns:
        What `describe_pair` says of each.
    """
    pairs: list[dict[str, Any]] = []
    in_vain = 0
    texts = store.list_texts()
    comparable = [each for each in near_duplicates if {each.document, each.match_document} <= texts]
    for decision in choose_telling(comparable, _MOST_OF_A_GROUP):
        pair = _compare(decision, store)
        in_vain = 0 if pair else in_vain + 1
        if pair:
            pairs.append(pair)
            progress(len(pairs), MOST_PAIRS)
        if len(pairs) == MOST_PAIRS or in_vain > _PATIENCE:
            break
    return pairs


def _compare(decision: Decision, store: Store) -> dict[str, Any] | None:
    """Compare a pair; None where the store has no texts of it by now, or the same ones."""
    page = find_stored(store, decision.document, decision.url)
    original = find_stored(store, decision.match_document, decision.match_url or "")
    if page is None or original is None or page.original != original.document:
        return None
    if page.text is None or original.text is None or page.text == original.text:
        return None
    return describe_pair(page, original, page.text, original.text)


def describe_pair(
    page: StoredDocument, original: StoredDocument, text: str, original_text: str
) -> dict[str, Any]:
    """Describe a near-duplicate and its original, with their difference.

    Args:
        page: the near-duplicate.
        original: what it was dropped for.
        text: of the near-duplicate.
        original_text: of the original.

    Returns:
        Ready for JSON: `first` is the original, `second` the near-duplicate.
    """
    return {
        "first": {"url": show(original.url), "title": show(original.title)},
        "second": {"url": show(page.url), "title": show(page.title)},
        "distance": page.distance,
        "similarity": page.similarity,
        "tests": list(page.tests),
        "rows": compare_side_by_side(original_text, text),
    }
