"""Many queries at once: complete, each pair once, whatever the chunks and however they crowd."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from scrapy_simhash.batch.joins import batch, batch_query
from tests.helpers.needing import examples
from tests.helpers.oracle import all_matches
from tests.helpers.strategies import crowds, fingerprints, masks


def find(
    queries: list[int], chunks: list[list[int]], distance: int, blocks: int | None = None
) -> list[list[int]]:
    arrays = [np.array(chunk, np.uint64) for chunk in chunks]
    found = batch_query(np.array(queries, np.uint64), arrays, distance, blocks)
    assert found.dtype == np.uint64
    assert found.shape == (len(found), 3)
    return found.tolist()  # type: ignore[no-any-return]


@given(crowds(), st.data())
@examples(100)
def test_finds_all_once_and_in_order(values: list[int], data: st.DataObject) -> None:
    distance = data.draw(st.integers(0, 10))
    blocks = data.draw(st.none() | st.integers(distance + 1, distance + 2))
    flips = data.draw(st.lists(st.integers(0, 12).flatmap(masks), min_size=1, max_size=20))
    queries = [value ^ flip for value, flip in zip(values, flips, strict=False)]
    queries += data.draw(st.lists(fingerprints, max_size=3)) + values[:3] + queries[:2]
    cut = data.draw(st.integers(0, len(values)))
    chunks = [values[:cut], values[cut:], values[:2]]
    assert find(queries, chunks, distance, blocks) == all_matches(queries, values, distance)


def test_a_crowd_is_not_compared_each_with_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fifth of both have their leading 28 bits in common, as pages of one template."""
    random = np.random.default_rng(2)
    stored = random.integers(0, 2**64, 100_000, np.uint64)
    stored[:20_000] >>= np.uint64(28)
    queries = stored[::2] ^ np.uint64(1) << random.integers(0, 36, 50_000, np.uint64)
    compared = 0
    compare = batch._QueryTable._compare

    def count(*arguments: Any) -> Iterator[NDArray[np.uint64]]:
        nonlocal compared
        compared += int(arguments[3].sum())
        return compare(*arguments)

    monkeypatch.setattr(batch._QueryTable, "_compare", count)
    found = batch_query(queries, [stored], 3)
    assert {(int(q), int(s)) for q, s, _ in found} >= set(
        zip(queries.tolist(), stored[::2].tolist(), strict=True)
    )
    assert compared < 10_000 * 20_000 / 10


def test_what_is_refused_and_progress() -> None:
    for distance, blocks, message in ((3, 3, "3 blocks"), (-1, None, "-1"), (64, None, "64")):
        with pytest.raises(ValueError, match=message):
            find([1], [[1]], distance, blocks)
    told: list[int] = []
    chunks = [np.arange(size, dtype=np.uint64) for size in (3, 0, 5)]
    batch_query(chunks[0], chunks, 0, progress=told.append)
    assert told == [3, 0, 5]
