"""What labels of some pairs say of all: against populations whose labels are all known."""

from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash.inspection.evaluation.labels import Label, LabelledPair
from scrapy_simhash.inspection.evaluation.quality import (
    LEAST_LABELS,
    SIMILARITIES,
    Judged,
    Sample,
    describe_distance,
    describe_rule,
    recommend,
    wilson,
)
from scrapy_simhash.inspection.evaluation.sampling import Survey
from scrapy_simhash.judging.rule import Rule

IN_FORCE = Rule(7, 0.8, 32)


def judged(bits: int, similarity: float, *, same: bool) -> Judged:
    label: Label = "dup" if same else "distinct"
    return Judged(
        LabelledPair("1", "2", label, "site.example", ""),
        duplicate=False,
        distance=bits,
        plain_distance=bits,
        similarity=similarity,
        confirmed=similarity >= 0.8,
        confirmed_at={least: similarity >= least for least in SIMILARITIES},
    )


def sizes_of(pairs: Sequence[Judged]) -> dict[int, float]:
    return dict(Counter(each.distance for each in pairs))


POPULATIONS = st.lists(
    st.builds(
        judged,
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


def test_equal_samples_are_weighted_back() -> None:
    """Ten labels each for 900 pairs at 1 bit, all right, and for 100 at 5 bits, half of them."""
    pairs = [judged(1 if number < 10 else 5, 1.0, same=number < 15) for number in range(20)]
    sample = Sample(pairs, {1: 900.0, 5: 100.0})
    assert sample.tally_rule(IN_FORCE).precision == pytest.approx(0.95)
    assert sample.tally_rule(Rule(3, 0.8, 32)).recall == pytest.approx(900 / 950)
    assert describe_rule(sample, IN_FORCE)["wrong_pairs"] == 50


def test_labels_of_other_pairs_and_unknown_ones_are_left_out() -> None:
    unknown = judged(1, 1.0, same=True)
    unknown = unknown._replace(pair=LabelledPair("1", "2", "unknown"))
    pairs = [judged(1, 1.0, same=True), judged(65, 0.0, same=False), unknown]
    assert len(Sample(pairs, {1: 5.0}).judged) == 1


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
        judged(bits, similarity, same=number < round(share * pairs))
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
        judged(bits, similarity, same=same)
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
        pairs = [judged(0, 1.0, same=True)] * 27
        pairs += [judged(1, 1.0, same=True)] * right + [judged(1, 1.0, same=False)] * wrong
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
    pairs = [judged(0, 1.0, same=True)] * 8 + [judged(5, 1.0, same=True)] * 72
    advised = recommend(Sample(pairs, {0: 900.0, 5: 100.0}), IN_FORCE, 7)
    assert advised.rule is None
    assert advised.why.startswith("too few labels for the many pairs that the store has at 0 bits")
    more = pairs + [judged(0, 1.0, same=True)] * 60
    assert advised.missing <= 60
    assert recommend(Sample(more, {0: 900.0, 5: 100.0}), IN_FORCE, 7).rule == IN_FORCE


def test_the_setting_that_finds_most_and_is_right_is_recommended() -> None:
    # What is .8 alike is wrong, what is .9 alike is right, up to 5 bits.
    sample = sample_of(
        (1, 1.0, True, 200),
        (4, 0.9, True, 50),
        (4, 0.8, False, 50),
        (7, 0.9, False, 50),
        (9, 1.0, True, 20),
    )
    advised = recommend(sample, IN_FORCE, 7)
    assert advised.rule is not None
    assert judged(4, 0.9, same=True).would_drop(advised.rule)
    assert not judged(4, 0.8, same=True).would_drop(advised.rule)
    assert not judged(7, 0.9, same=True).would_drop(advised.rule)
    # With tables that reach farther, what is at 9 bits and the same could be found as well.
    wider = recommend(sample_of((1, 1.0, True, 200), (9, 1.0, True, 20)), IN_FORCE, 11).rule
    assert wider is not None
    assert wider.distance == 9


def test_nothing_is_recommended_where_nothing_is_right() -> None:
    advised = recommend(sample_of((0, 1.0, True, 100), (0, 1.0, False, 100)), IN_FORCE, 7)
    assert (advised.rule, advised.missing) == (None, 0)
    assert "no setting is right in 99%" in advised.why
