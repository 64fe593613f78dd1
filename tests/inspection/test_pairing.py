"""The pairs of a store: against a comparison of each document with each."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash.batch.joins import find_all
from scrapy_simhash.inspection.evaluation.sampling import MOST_BITS, Surveyed, find_pairs
from scrapy_simhash.simhash import hamming_distance
from tests.helpers.needing import examples

BASES = (0, 2**64 - 1, 0x0123_4567_89AB_CDEF)


@st.composite
def fingerprints(draw: st.DrawFn) -> int:
    """Some are equal, some near, some far."""
    flipped = draw(st.sets(st.integers(0, 63), max_size=9))
    return draw(st.sampled_from(BASES)) ^ sum(1 << bit for bit in flipped)


@st.composite
def documents(draw: st.DrawFn) -> list[Surveyed]:
    made: list[Surveyed] = []
    for number in range(1, draw(st.integers(1, 14))):
        originals = [0, *(each.document for each in made if each.state == "done")]
        original = draw(st.sampled_from(originals))
        made.append(
            stored(
                number,
                tuple(draw(st.lists(fingerprints(), min_size=1, max_size=2, unique=True))),
                original=original,
                scope=draw(st.sampled_from(["", "other"])),
                stub=draw(st.booleans()) and draw(st.booleans()),
            )
        )
    return made


def stored(
    number: int, made: tuple[int, ...], *, original: int = 0, scope: str = "", stub: bool = False
) -> Surveyed:
    return Surveyed(number, "duplicate" if original else "done", original, stub, scope, made)


def distance(first: Surveyed, second: Surveyed) -> int:
    return min(hamming_distance(a, b) for a in first.fingerprints for b in second.fingerprints)


def belong_together(first: Surveyed, second: Surveyed) -> bool:
    if first.stub or second.stub:
        return False
    if first.state == second.state == "done":
        return first.scope == second.scope
    return second.original == first.document


@examples(30)  # each joins some sixty tables
@given(documents(), st.integers(0, 9))
def test_pairs_are_those_of_a_comparison_of_all(made: list[Surveyed], seed: int) -> None:
    expected = [
        (first.document, second.document, distance(first, second))
        for first, second in combinations(made, 2)
        if belong_together(first, second) and distance(first, second) <= MOST_BITS
    ]
    rows, share = find_pairs(made, find_all, seed)
    assert share == 1.0
    assert [tuple(row) for row in rows.tolist()] == expected


def test_of_very_many_pairs_a_part_is_looked_at() -> None:
    """A template with 1,200 pages, and 300 drops: 720,000 pairs, of which 20,000 are wanted."""
    pages = [stored(number, (0,)) for number in range(1, 1_201)]
    drops = [stored(number, (1,), original=1) for number in range(1_201, 1_501)]
    found, share = find_pairs(pages + drops, find_all, seed=1, most=20_000)
    assert 0.025 < share < 0.031
    assert 10_000 < len(found) < 40_000
    pairs = 1_200 * 1_199 / 2 + 300
    assert 0.8 < len(found) / share / pairs < 1.2
    again, _ = find_pairs(pages + drops, find_all, seed=1, most=20_000)
    assert (again == found).all()


def test_a_near_duplicate_whose_original_is_gone_has_no_pair() -> None:
    assert not len(find_pairs([stored(2, (0,), original=1)], find_all, seed=0)[0])
    assert not len(find_pairs([], find_all, seed=0)[0])
