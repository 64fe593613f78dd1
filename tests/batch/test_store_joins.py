"""Pairs, clusters and batches of a store, near-duplicates that it recorded included."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash import open_store
from scrapy_simhash.batch import batch_query, find_all, find_clusters, list_recorded_pairs
from tests.helpers.documents import document, open_lmdb
from tests.helpers.needing import examples
from tests.helpers.oracle import all_matches, all_pairs, distance_between, union_find
from tests.helpers.strategies import crowds

A, B = 0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210


@examples(20)
@given(crowds(), crowds(), st.integers(0, 8))
def test_all_that_near_duplicates_and_originals_tell(
    tmp_path_factory: pytest.TempPathFactory, loaded: list[int], crawled: list[int], distance: int
) -> None:
    """Against a list and two loops; a store with distance 3 answers for others."""
    with open_lmdb(tmp_path_factory.mktemp("store")) as store:
        store.bulk_load(np.array(loaded, np.uint64))
        pages = [document(str(n), each) for n, each in enumerate(crawled)]
        verdicts = store.find_and_add(pages)
        kept = set(loaded)
        recorded = []
        for each, verdict in zip(crawled, verdicts, strict=True):
            if verdict.match:
                recorded.append([each, verdict.match.fingerprint])
            else:
                kept.add(each)
        assert set(store.fingerprints().tolist()) == kept
        found = list_recorded_pairs(store).tolist()
        # Of two bulk-loaded originals at the same distance either will do.
        assert [[pair[0], distance_between(*pair)] for pair in found] == [
            [pair[0], distance_between(*pair)] for pair in recorded
        ]
        pairs = all_pairs(kept, distance)
        assert find_all(store, distance).tolist() == pairs
        both = pairs + [pair for pair in found if pair[0] != pair[1]]
        assert find_clusters(store, distance) == union_find(both)
        assert batch_query(store, np.array(crawled, np.uint64), distance).tolist() == all_matches(
            crawled, kept, distance
        )


def test_originals_that_are_gone_or_equal_make_no_cluster(home: str) -> None:
    with open_store(home) as store:
        store.find_and_add([document("a", A), document("b", A)])
        assert list_recorded_pairs(store).tolist() == [[A, A]]
        assert find_clusters(store) == []
        store.delete([1])
        assert list_recorded_pairs(store).tolist() == []
