"""What `calibrate` knows of a store before anybody labels: its pairs, and how they are spread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scrapy_simhash.pairing import find_pairs
from scrapy_simhash.progress import show_progress
from scrapy_simhash.sampling import (
    Cell,
    cell_of,
    draw_pool,
    measure_cells,
    order_by_distance,
    order_by_tellingness,
)
from scrapy_simhash.sketch import SKETCH_BYTES, compare_pairs
from scrapy_simhash.store_stats import list_documents

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from scrapy_simhash.config import Config
    from scrapy_simhash.stores import Store

_NO_SKETCH = bytes(SKETCH_BYTES)


@dataclass(frozen=True)
class Survey:
    """The pairs of a store within 10 bits, see `pairing`.

    Attributes:
        documents: how many the store has.
        share: of all pairs, that was looked at; 1.0 but for stores with millions of them.
        pairs: numbers of the documents of a random part of the pairs, in random order.
        cells: of these.
        sizes: how many pairs the store has in each cell.
    """

    documents: int
    share: float
    pairs: list[tuple[int, int]]
    cells: list[Cell]
    sizes: dict[Cell, float]

    def order(
        self, labelled: Sequence[Cell], known: Mapping[tuple[int, int], object], config: Config
    ) -> list[tuple[int, int]]:
        """Order the pairs that have no label, the most telling one first.

        Args:
            labelled: cells of the pairs that have one.
            known: these pairs.
            config: the settings in force.
        """
        open_ = [place for place, pair in enumerate(self.pairs) if pair not in known]
        cells = [self.cells[place] for place in open_]
        order = order_by_tellingness(cells, labelled, self.sizes, config.distance, config.confirm)
        return [self.pairs[open_[place]] for place in order]

    def order_by_distance(
        self, labelled: Sequence[Cell], known: Mapping[tuple[int, int], object]
    ) -> list[tuple[int, int]]:
        """Order them so that each distance gets equally many labels; arguments as for `order`."""
        open_ = [place for place, pair in enumerate(self.pairs) if pair not in known]
        order = order_by_distance([self.cells[place] for place in open_], labelled)
        return [self.pairs[open_[place]] for place in order]


def survey(store: Store, seed: int) -> Survey:
    """Find the pairs of a store and draw some of them.

    Args:
        store: reads every record.
        seed: of the draw; the same store and seed give the same pairs in the same order.
    """
    documents = list_documents(store)
    with show_progress("tables") as show:
        population = find_pairs(documents, seed, show)
    pool = draw_pool(*population, seed)
    sketches = {each.document: each.sketch or _NO_SKETCH for each in documents}
    similarities = _compare(pool.documents, sketches)
    cells = [
        cell_of(bits, similarity)
        for bits, similarity in zip(pool.distances.tolist(), similarities.tolist(), strict=True)
    ]
    pairs = [(first, second) for first, second in pool.documents.tolist()]
    sizes = measure_cells(cells, pool.stand_for.tolist())
    return Survey(len(documents), population.share, pairs, cells, sizes)


def _compare(documents: NDArray[np.int64], sketches: Mapping[int, bytes]) -> NDArray[np.float64]:
    """Estimate how alike the documents of pairs are: the more alike one of their two texts."""
    first, second = ([sketches[number] for number in side] for side in documents.T.tolist())
    similar = compare_pairs(first, second)
    # As `confirm` rounds it, so that a label stands in the cell of its pair.
    return np.maximum(similar.main, similar.whole).round(4)
