"""What two pages have in common and what each has alone, in the bins of their sketches.

A triple counts by how few other pages of the site have it (`Site.weigh`). And it counts where it
stands: what differs *between* the first and the last of what both have is a difference; what stands
before or behind that is a frame (docs/study.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from scrapy_simhash.pages.sketch import EMPTY, read_sketches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from scrapy_simhash.judging.documents import PageFacts
    from scrapy_simhash.judging.sites import Site
    from scrapy_simhash.pages.sketch import Sketches

# The common part begins and ends where so much of what both have stands outside of it.
_FRAME = 0.05
# One or two edits touch so many bins; of little content at most such a share.
_EDITED_BINS = 8.0
_MOST_EDITED = 0.3


class Content(NamedTuple):
    """What was counted of two pages; bins as they are, and weighed.

    Attributes:
        both, first, second: bins whose triple both pages have, or only the one.
        template: of all these, those that weigh nothing.
        shared, mine, theirs: the same bins by their weights.
        within: of `mine` and `theirs`, those within the common part.
        main, main_both: bins that the main text of either has; that those of both have.
        main_alone: which share of a main text stands on its page alone; the larger one of the two.
        triples_a_bin: how many triples of the texts stand behind a bin, about.
    """

    both: int
    first: int
    second: int
    template: int
    shared: float
    mine: float
    theirs: float
    within: float
    main: int
    main_both: int
    main_alone: float
    triples_a_bin: float

    @property
    def whole(self) -> float:
        """Similarity of the whole texts, 0 to 1."""
        return self.both / max(1, self.both + self.first + self.second)

    @property
    def main_alike(self) -> float:
        """Similarity of the main texts, 0 to 1."""
        return self.main_both / max(1, self.main)

    @property
    def share_of_main(self) -> float:
        """Which share of all that the pages have is main text of both, 0 to 1."""
        return self.main_both / max(1, self.both + self.first + self.second)

    @property
    def agreed(self) -> float:
        """Agreement of the content, 0 to 1."""
        return _divide(self.shared, self.shared + (self.mine + self.theirs))

    @property
    def agreed_within(self) -> float:
        """Agreement of the content within its common part, 0 to 1."""
        return _divide(self.shared, self.shared + self.within)

    def agree_but_for_edits(self, overlooked: float) -> float:
        """The same, if one or two edits are overlooked, or such a share of them."""
        edits = overlooked * min(_EDITED_BINS, _MOST_EDITED * self.shared)
        return _divide(self.shared, self.shared + max(0.0, self.within - edits))

    @property
    def triples(self) -> float:
        """How many triples of content both have, about."""
        return self.shared * self.triples_a_bin


def _divide(part: float, all_of_it: float) -> float:
    return part / all_of_it if all_of_it > 0 else 0.0


def compare_contents(
    pairs: Sequence[tuple[PageFacts, PageFacts]], sites: Sequence[tuple[Site, Site]]
) -> list[Content]:
    """Compare the content of n pairs of pages with sketches, each by the sites of both pages."""
    if not pairs:
        return []
    mine, theirs = (read_sketches([pair[side].sketch for pair in pairs]) for side in (0, 1))
    smallest = np.minimum(mine.values, theirs.values)
    there = smallest != EMPTY
    both = there & (mine.values == theirs.values)
    first, second = mine.values < theirs.values, theirs.values < mine.values
    my_weights = _weigh([site for site, _ in sites], smallest)
    their_weights = _weigh([site for _, site in sites], smallest)
    shared = np.where(both, np.minimum(my_weights, their_weights), 0.0)
    alone = np.where(first, my_weights, 0.0), np.where(second, their_weights, 0.0)
    within = sum(
        np.where(_find_common_part(side, shared), weights, 0.0).sum(axis=1)
        for side, weights in zip((mine, theirs), alone, strict=True)
    )
    weights = shared + alone[0] + alone[1]
    in_main = (both & (mine.main | theirs.main)) | (first & mine.main) | (second & theirs.main)
    main_alone = np.maximum(
        *(
            np.count_nonzero(alone & page.main, axis=1)
            / np.maximum(1, np.count_nonzero((alone | both) & page.main, axis=1))
            for alone, page in ((first, mine), (second, theirs))
        )
    )
    counted = [
        np.count_nonzero(bins, axis=1)
        for bins in (
            both,
            first,
            second,
            there & (weights == 0),
            in_main,
            both & mine.main & theirs.main,
        )
    ]
    union = np.maximum(1, counted[0] + counted[1] + counted[2])
    # |A or B| by |A| + |B| and the similarity of the two.
    words = np.array([one.whole_words + other.whole_words for one, other in pairs])
    scale = words / (1 + counted[0] / union) / union
    summed = [values.sum(axis=1) for values in (shared, *alone)]
    columns = [*counted[:4], *summed, within, *counted[4:], main_alone, scale]
    return [Content(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def _weigh(sites: Sequence[Site], smallest: NDArray[np.uint16]) -> NDArray[np.float64]:
    """Weigh the triples of each pair by its site; shape (n, 256)."""
    weights = np.empty(smallest.shape)
    places = {id(site): [n for n, other in enumerate(sites) if other is site] for site in sites}
    for site in {id(site): site for site in sites}.values():
        weights[places[id(site)]] = site.weigh(smallest[places[id(site)]])
    return weights


def _find_common_part(page: Sketches, shared: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Tell which bins stand between the first and the last of what two pages share; (n, 256)."""
    order = np.argsort(page.places, axis=1, kind="stable")
    heavy = np.cumsum(np.take_along_axis(shared, order, axis=1), axis=1)
    total = heavy[:, -1:]
    places = np.take_along_axis(page.places, order, axis=1)
    rows = np.arange(len(places))
    starts = places[rows, np.argmax(heavy >= _FRAME * total, axis=1)]
    ends = places[rows, np.argmax(heavy >= (1 - _FRAME) * total, axis=1)]
    # Where nothing is shared, all of it counts.
    nothing = total <= 0
    inside: NDArray[np.bool_] = (page.places >= starts[:, None]) & (page.places <= ends[:, None])
    return inside | nothing
