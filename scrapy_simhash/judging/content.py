"""What two pages have in common and what each has alone, in the bins of their sketches.

A triple counts by how few other pages of the site have it (`Site.weigh`). And it counts where it
stands: what differs *between* the first and the last of what both have is a difference; what stands
before or behind that is a frame (docs/study.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from scrapy_simhash.pages.sketch import EMPTY, Sketches, read_sketches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from scrapy_simhash.judging.sites import Site
    from scrapy_simhash.pages.facts import Facts

# The common part begins and ends where so much of what both have stands outside of it.
_FRAME = 0.05


class Content(NamedTuple):
    """What two pages have in common and alone, counted in bins and in weighed bins.

    Attributes:
        both, first, second: bins whose triple both pages have, or only the one.
        template: of all these, those that weigh nothing.
        shared, mine, theirs: the same bins by their weights.
        within: of `mine` and `theirs`, those within the common part.
        whole, main_alike: similarity of the whole texts and of the main texts, 0 to 1.
        main_alone: which share of a main text stands on its page alone; the larger one of the two.
        share_of_main: which share of all that the pages have is main text of both.
        agreed, agreed_within: agreement of the content, 0 to 1, and of that within its common part.
        triples: how many triples of content both have, about.
    """

    both: int
    first: int
    second: int
    template: int
    shared: float
    mine: float
    theirs: float
    within: float
    whole: float
    main_alike: float
    main_alone: float
    share_of_main: float
    agreed: float
    agreed_within: float
    triples: float

    @property
    def similarity(self) -> float:
        """The larger one of the similarities of both texts, for people."""
        return round(max(self.main_alike, self.whole), 4)


def compare_contents(
    pairs: Sequence[tuple[Facts, Facts]], sites: Sequence[tuple[Site, Site]]
) -> list[Content]:
    """Compare the content of n pairs of pages with sketches, each by the sites of both pages."""
    if not pairs:
        return []
    read = read_sketches([page.sketch for side in zip(*pairs, strict=True) for page in side])
    halves = slice(len(pairs)), slice(len(pairs), None)
    mine, theirs = (Sketches._make(bins[half] for bins in read) for half in halves)
    smallest = np.minimum(mine.values, theirs.values)
    there = smallest != EMPTY
    both = there & (mine.values == theirs.values)
    first, second = mine.values < theirs.values, theirs.values < mine.values
    of_mine, of_theirs = zip(*sites, strict=True)
    my_weights = _weigh(of_mine, smallest)
    their_weights = my_weights if of_mine == of_theirs else _weigh(of_theirs, smallest)
    weights = (
        np.where(both, np.minimum(my_weights, their_weights), 0.0),
        np.where(first, my_weights, 0.0),
        np.where(second, their_weights, 0.0),
    )
    within = sum(
        np.where(_find_common_part(side, weights[0]), alone, 0.0).sum(axis=1)
        for side, alone in zip((mine, theirs), weights[1:], strict=True)
    )
    shared, my_own, their_own = (weighed.sum(axis=1) for weighed in weights)
    counted = [_count(bins) for bins in (both, first, second, there & (sum(weights) == 0))]
    bins = counted[0] + counted[1] + counted[2]
    whole = _share(counted[0], bins)
    main_both = _count(both & mine.main & theirs.main)
    main = both & (mine.main | theirs.main) | first & mine.main | second & theirs.main
    main_alone = [
        _share(_count(alone & page.main), _count((alone | both) & page.main))
        for alone, page in ((first, mine), (second, theirs))
    ]
    # |A or B| by |A| + |B| and the similarity of the two.
    words = np.array([one.whole_words + other.whole_words for one, other in pairs])
    columns = [
        *(*counted, shared, my_own, their_own, within, whole),
        *(_share(main_both, _count(main)), np.maximum(*main_alone), _share(main_both, bins)),
        _share(shared, shared + (my_own + their_own)),
        _share(shared, shared + within),
        _share(shared * words / (1 + whole), bins),
    ]
    return [Content(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def _count(bins: NDArray[np.bool_]) -> NDArray[np.int64]:
    counted: NDArray[np.int64] = np.count_nonzero(bins, axis=1)
    return counted


def _share(part: NDArray[Any], all_of_it: NDArray[Any]) -> NDArray[np.float64]:
    """Divide; nothing of nothing is 0."""
    share: NDArray[np.float64] = part / np.where(all_of_it > 0, all_of_it, 1)
    return share


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
