"""Which pairs there are and which are shown first; what labels of some say of all."""

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash.batch.joins import find_all
from scrapy_simhash.inspection.evaluation.quality import (
    LEAST_LABELS,
    Judged,
    Sample,
    describe_distance,
    recommend,
    summarise,
    wilson,
)
from scrapy_simhash.inspection.evaluation.sampling import (
    MOST_BITS,
    Survey,
    Surveyed,
    draw_pairs,
    find_pairs,
)
from scrapy_simhash.judging.rule import Rule
from scrapy_simhash.simhash import hamming_distance
from tests.helpers.labelling import judged
from tests.helpers.needing import examples

if TYPE_CHECKING:
    from scrapy_simhash.inspection.evaluation.labels import Label

IN_FORCE = Rule(7, 0.8, 32)


@pytest.mark.parametrize(
    ("hits", "of", "interval"),
    # Newcombe, Statistics in Medicine 17 (1998), table I: Wilson's method without continuity.
    [(81, 263, [0.2553, 0.3662]), (15, 148, [0.0624, 0.1605]), (0, 20, [0.0, 0.1611])],
)
def test_intervals_are_those_of_the_literature(hits: int, of: int, interval: list[float]) -> None:
    assert wilson(hits / of, of) == pytest.approx(interval, abs=1e-4)


def test_by_distance_counts_up_to_each_distance() -> None:
    answers = [judged("dup", duplicate=True, distance=bits) for bits in range(4)] + [
        judged("distinct", duplicate=True, distance=3)
    ]
    rows = summarise(answers, 12)["by_distance"]
    assert [row["distance"] for row in rows] == list(range(13))
    assert [row["recall"] for row in rows[:4]] == [0.25, 0.5, 0.75, 1.0]
    assert [row["precision"] for row in rows[:4]] == [1.0, 1.0, 1.0, 0.8]
    assert [row["plain_recall"] for row in rows[:6]] == [0.0, 0.0, 0.25, 0.5, 0.75, 1.0]


def test_duplicates_with_mostly_new_links_are_counted() -> None:
    answers = [
        judged("dup", duplicate=True)._replace(new_links=share) for share in (None, 0.0, 0.5, 1.0)
    ] + [judged("distinct", duplicate=False)._replace(new_links=1.0)]
    counted = summarise(answers, 7)["duplicates_with_new_links"]
    assert counted == {"with_links": 3, "mostly_new": 2}


# Of a population whose labels are all known.


def alike(bits: int, similarity: float, *, same: bool) -> Judged:
    label: Label = "dup" if same else "distinct"
    answer = judged(label, duplicate=False, distance=bits, similarity=similarity)
    return answer._replace(plain_distance=bits)


def sizes_of(pairs: Sequence[Judged]) -> dict[int, float]:
    return dict(Counter(each.distance for each in pairs))


POPULATIONS = st.lists(
    st.builds(
        alike,
        st.integers(0, 10),
        st.sampled_from((0.5, 0.7, 0.8, 0.9, 1.0)),
        same=st.booleans(),
    ),
    min_size=1,
    max_size=80,
)


@given(POPULATIONS, st.integers(0, 10))
def test_with_all_pairs_labelled_estimates_are_exact(population: list[Judged], bits: int) -> None:
    sample = Sample(population, sizes_of(population))
    row = describe_distance(sample, IN_FORCE, bits)
    near = [each.pair.label == "dup" for each in population if each.distance <= bits]
    at = [each.pair.label == "dup" for each in population if each.distance == bits]
    sure = [
        each.pair.label == "dup"
        for each in population
        if each.distance <= bits and each.similarity >= 0.8
    ]
    all_same = sum(each.pair.label == "dup" for each in population)
    assert (row["pairs"], row["labelled"]) == (len(at), len(at))
    for name, hits, of in (
        ("same_at", sum(at), len(at)),
        ("plain_precision", sum(near), len(near)),
        ("precision", sum(sure), len(sure)),
        ("plain_recall", sum(near), all_same),
        ("recall", sum(sure), all_same),
    ):
        assert row[name] == (pytest.approx(hits / of, abs=1e-4) if of else None), name
        expected = wilson(hits / of, of) if of else None
        assert row[f"{name}_interval"] == (pytest.approx(expected, abs=2e-4) if of else None)


@given(POPULATIONS, st.data())
def test_labels_stand_for_the_pairs_that_were_seen(
    population: list[Judged], data: st.DataObject
) -> None:
    chosen = data.draw(st.lists(st.sampled_from(population), max_size=20))
    sample = Sample(chosen, sizes_of(population))
    counted = sample.tally(lambda _: True)
    seen = {each.distance for each in chosen}
    assert counted.right + counted.wrong + sum(sample.unseen.values()) == pytest.approx(
        len(population)
    )
    assert not seen & set(sample.unseen)


# Pairs, how alike they are, and the share of duplicates among them, by distance.
KNOWN = {
    0: (300, 1.0, 1.0),
    3: (80, 0.9, 0.96),
    6: (60, 0.8, 0.6),
    7: (40, 0.8, 0.5),
    8: (90, 0.9, 0.6),
    10: (400, 0.5, 0.02),
}


def test_intervals_hold_what_they_promise() -> None:
    """Of 100 samples from a known population, 95 % and more have the truth in their interval."""
    population = [
        alike(bits, similarity, same=number < round(share * pairs))
        for bits, (pairs, similarity, share) in KNOWN.items()
        for number in range(pairs)
    ]
    sizes = sizes_of(population)
    truth = Sample(population, sizes).tally_rule(IN_FORCE)
    assert truth.precision
    queue = {bits: [(bits, number) for number in range(40)] for bits in KNOWN}
    known = {bits: float(pairs) for bits, (pairs, _, _) in KNOWN.items()}
    asked = [bits for bits, _ in Survey(0, 1.0, known, queue).order([], ())[:80]]
    draw = Random(1)  # noqa: S311 - reproducible, no secret
    covered = [0, 0]
    shares = []
    for _ in range(100):
        urns = {
            bits: draw.sample([each for each in population if each.distance == bits], 40)
            for bits in KNOWN
        }
        counted = Sample([urns[bits].pop() for bits in asked], sizes).tally_rule(IN_FORCE)
        figures = counted.describe_shares()
        for number, name in enumerate(("precision", "recall")):
            low, high = figures[f"{name}_interval"]
            covered[number] += low <= getattr(truth, name) <= high
        shares.append(figures["precision"])
    assert min(covered) >= 95
    assert sum(shares) / len(shares) == pytest.approx(truth.precision, abs=0.01)


def sample_of(
    *kinds: tuple[int, float, bool, int], unseen: dict[int, float] | None = None
) -> Sample:
    """Label so many pairs of each kind: distance, likeness, and what people say."""
    pairs = [
        alike(bits, similarity, same=same)
        for bits, similarity, same, count in kinds
        for _ in range(count)
    ]
    return Sample(pairs, {**sizes_of(pairs), **(unseen or {})})


def test_too_few_labels_make_no_recommendation() -> None:
    advised = recommend(sample_of((1, 1.0, True, 40), (9, 0.5, False, 20)), IN_FORCE, 7)
    assert advised.rule is None
    assert advised.missing == 51 - 40  # 51 / (51 + z^2) is .93, rounded
    enough = sample_of((1, 1.0, True, LEAST_LABELS), (9, 0.5, False, 20))
    assert recommend(enough, IN_FORCE, 7).rule == IN_FORCE
    assert recommend(sample_of(), IN_FORCE, 7).missing == LEAST_LABELS


def test_one_wrong_drop_takes_more_labels() -> None:
    def label(right: int, wrong: int) -> Sample:
        pairs = [alike(0, 1.0, same=True)] * 27
        pairs += [alike(1, 1.0, same=True)] * right + [alike(1, 1.0, same=False)] * wrong
        return Sample(pairs, {0: 800.0, 1: 200.0})

    assert recommend(label(28, 0), IN_FORCE, 7).rule == IN_FORCE
    advised = recommend(label(27, 1), IN_FORCE, 7)
    assert advised.rule is None
    assert advised.missing > 0
    assert recommend(label(27 + advised.missing, 1), IN_FORCE, 7).rule == IN_FORCE


def test_distances_without_labels_make_no_recommendation() -> None:
    advised = recommend(sample_of((1, 1.0, True, 200), unseen={9: 100.0}), IN_FORCE, 7)
    assert (advised.rule, advised.why) == (None, "no labels yet for pairs at 9 bits")
    few = sample_of((1, 1.0, True, 200), unseen={9: 1.0})
    assert recommend(few, IN_FORCE, 7).rule == IN_FORCE


def test_few_labels_that_stand_for_most_pairs_make_no_recommendation() -> None:
    """As of somebody who labelled the far ones first."""
    pairs = [alike(0, 1.0, same=True)] * 8 + [alike(5, 1.0, same=True)] * 72
    advised = recommend(Sample(pairs, {0: 900.0, 5: 100.0}), IN_FORCE, 7)
    assert advised.rule is None
    assert advised.why.startswith("too few labels for the many pairs that the store has at 0 bits")
    more = pairs + [alike(0, 1.0, same=True)] * 60
    assert advised.missing <= 60
    assert recommend(Sample(more, {0: 900.0, 5: 100.0}), IN_FORCE, 7).rule == IN_FORCE


def test_nothing_is_recommended_where_nothing_is_right() -> None:
    advised = recommend(sample_of((0, 1.0, True, 100), (0, 1.0, False, 100)), IN_FORCE, 7)
    assert (advised.rule, advised.missing) == (None, 0)
    assert "no setting is right in 99%" in advised.why


# Which pairs are shown first.

DISTANCES = st.integers(0, 10)


def survey_of(sizes: dict[int, int], seed: int = 0) -> Survey:
    """Survey so many pairs at each distance; a pair's first number says which."""
    distances = np.repeat(list(sizes), list(sizes.values()))
    rows = np.stack([distances, np.arange(len(distances)) + 100, distances], axis=1)
    return draw_pairs(7, rows, 1.0, seed)


@given(st.dictionaries(DISTANCES, st.integers(1, 60), min_size=1), st.lists(DISTANCES, max_size=30))
def test_every_pair_is_shown_once_and_each_distance_in_random_order(
    sizes: dict[int, int], labelled: list[int]
) -> None:
    survey = survey_of(sizes)
    order = survey.order(labelled, ())
    assert Counter(bits for bits, _ in order) == sizes
    for bits in sizes:
        assert [pair for pair in order if pair[0] == bits] == survey.pairs[bits]


@given(st.dictionaries(DISTANCES, st.integers(1, 900), min_size=1), st.integers(1, 200))
def test_no_label_stands_for_more_than_twice_the_mean(sizes: dict[int, int], count: int) -> None:
    order = survey_of(sizes).order([], ())[:count]
    shown = Counter(bits for bits, _ in order)
    total = sum(sizes.values())
    for bits, pairs in sizes.items():
        # One turn more or less.
        assert shown[bits] >= min(pairs, int(len(order) * pairs / total / 2))
    assert not Sample([alike(bits, 1.0, same=True) for bits, _ in order], dict(sizes)).find_thin(10)


def test_what_no_setting_drops_is_shown_least() -> None:
    """A hundred labels have enough of drops, however many far pairs there are."""
    sizes = {0: 100, 3: 20, 7: 20, 9: 50, 10: 800}
    order = survey_of(sizes).order([], (), 7)[:100]
    shown = Counter(bits for bits, _ in order)
    assert shown[9] + shown[10] == 10
    assert min(shown[bits] for bits in (3, 7, 9)) >= 2
    assert shown[0] == max(shown.values())
    sample = Sample([alike(bits, 1.0, same=True) for bits, _ in order], dict(sizes))
    assert not sample.find_thin(7)
    assert set(sample.find_thin(10)) == {10}


def test_a_survey_is_a_part_that_stands_for_all() -> None:
    sizes = {2: 2_500, 9: 500}
    survey = survey_of(sizes, seed=1)
    assert (survey.documents, survey.share, survey.sizes) == (7, 1.0, sizes)
    assert {bits: len(pairs) for bits, pairs in survey.pairs.items()} == {2: 1_000, 9: 500}
    assert len({pair for pairs in survey.pairs.values() for pair in pairs}) == 1_500
    again, other = (survey_of(sizes, seed) for seed in (1, 2))
    assert again == survey
    assert other.pairs != survey.pairs


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
