"""What two pages have in common and alone, against a statement of it in plain Python."""

from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrapy_simhash.judging.comparison import Content, compare_contents
from scrapy_simhash.judging.sites import Site
from scrapy_simhash.judging.wordrule import LEAST_KNOWN
from scrapy_simhash.pages.facts import Facts
from scrapy_simhash.pages.recipe import SKETCH_BYTES
from scrapy_simhash.pages.sketch import BINS, EMPTY, sketch_text

NOTHING = int(EMPTY)
NO_SHINGLES = np.array([], np.uint64)


@st.composite
def sketches(draw: st.DrawFn) -> bytes:
    """Draw a sketch of few values, so that many bins agree; none at all, or many of one."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    values = random.integers(draw(st.sampled_from([2, 4, 1, 60_000])), size=BINS)
    values[random.random(BINS) < draw(st.sampled_from([0.0, 0.1, 0.9, 1.0]))] = NOTHING
    places = random.integers(draw(st.sampled_from([128, 3, 1])), size=BINS) << 1
    main = random.random(BINS) < draw(st.sampled_from([0.0, 0.3, 1.0]))
    octets = np.where(values == NOTHING, 0, places | main)
    rests = random.integers(2**8, size=BINS)
    parts = values.astype("<u2"), octets.astype(np.uint8), rests.astype(np.uint8)
    return b"".join(part.tobytes() for part in parts)


pages = st.builds(
    lambda sketch, words: Facts(b"", 0, b"", sketch=sketch, whole_words=words),
    sketches(),
    st.sampled_from([0, 1, 200, 90_000]),
)
samples = st.lists(sketches(), max_size=16)


@dataclass
class Bin:
    """A bin of a page's sketch."""

    value: int
    place: int
    main: bool


def read_bins(sketch: bytes) -> list[Bin]:
    assert len(sketch) == SKETCH_BYTES
    return [
        Bin(
            int.from_bytes(sketch[2 * number : 2 * number + 2], "little"),
            sketch[2 * BINS + number] >> 1,
            bool(sketch[2 * BINS + number] & 1),
        )
        for number in range(BINS)
    ]


def make_site(sample: list[bytes]) -> Site:
    return Site({n: Facts(b"", 0, b"", sketch=one) for n, one in enumerate(sample)})


def weigh(value: int, others: list[int]) -> float:
    """Weigh a triple by what the other pages of the site have in its bin."""
    if len(others) < LEAST_KNOWN:
        return 1.0
    having = others.count(value)
    # Whoever has a smaller one may have this one, too.
    telling = sum(other >= value for other in others)
    had_by = len(others) * having / telling if telling else 0.0
    template = max(3, len(others) / 5)
    # By the logarithms of numpy: where the common part begins may hang on the last bit of a sum.
    return max(0.0, float(1 - np.log1p(had_by) / np.log1p(template)))


def find_frame(places: list[tuple[int, float]]) -> tuple[int, int]:
    """Find where the common part begins and ends, from places and weights of what is shared."""
    ordered = sorted(places, key=lambda each: each[0])
    sums = list(accumulate(weight for _, weight in ordered))
    if not sums or sums[-1] <= 0:
        return 0, 127
    start, end = (
        next(place for (place, _), before in zip(ordered, sums, strict=True) if before >= least)
        for least in (0.05 * sums[-1], 0.95 * sums[-1])
    )
    return start, end


def compare_plainly(
    first: Facts, second: Facts, mine: list[bytes], theirs: list[bytes]
) -> dict[str, float]:
    """Count what two pages have, a bin after the other."""
    one, other = read_bins(first.sketch), read_bins(second.sketch)
    samples = [[read_bins(sketch) for sketch in sample] for sample in (mine, theirs)]
    counted = dict.fromkeys(
        ["both", "first", "second", "template", "shared", "mine", "theirs"], 0.0
    )
    main = main_both = 0
    of_main, alone_of_main = [0, 0], [0, 0]
    common: list[tuple[int, int, float]] = []
    alone: list[tuple[int, int, float]] = []
    for number, (a, b) in enumerate(zip(one, other, strict=True)):
        value = min(a.value, b.value)
        if value == NOTHING:
            continue
        weights = [weigh(value, [page[number].value for page in sample]) for sample in samples]
        who = 2 if a.value == b.value else int(b.value < a.value)
        counted[("first", "second", "both")[who]] += 1
        weight = min(weights) if who == 2 else weights[who]
        counted[("mine", "theirs", "shared")[who]] += weight
        counted["template"] += weight == 0
        if who == 2:
            common.append((a.place, b.place, weight))
        else:
            alone.append((who, (a, b)[who].place, weight))
        has_main = [page.main for n, page in enumerate((a, b)) if who in {n, 2}]
        main += any(has_main)
        main_both += who == 2 and all(has_main)
        for n, page in enumerate((a, b)):
            of_main[n] += page.main and who in {n, 2}
            alone_of_main[n] += page.main and who == n
    frames = [
        find_frame([(a, weight) for a, _, weight in common]),
        find_frame([(b, weight) for _, b, weight in common]),
    ]
    counted["within"] = sum(
        weight for who, place, weight in alone if frames[who][0] <= place <= frames[who][1]
    )
    counted["main_alone"] = max(
        alone / has if has else 0.0 for alone, has in zip(alone_of_main, of_main, strict=True)
    )
    bins = counted["both"] + counted["first"] + counted["second"]
    content = counted["shared"] + counted["mine"] + counted["theirs"]
    within = counted["shared"] + counted["within"]
    counted["whole"] = counted["both"] / max(1, bins)
    counted["main_alike"] = main_both / max(1, main)
    counted["share_of_main"] = main_both / max(1, bins)
    counted["agreed"] = counted["shared"] / content if content else 0.0
    counted["agreed_within"] = counted["shared"] / within if within else 0.0
    words = (first.whole_words + second.whole_words) / (1 + counted["whole"])
    counted["triples"] = counted["shared"] * words / max(1, bins)
    return counted


def swap(content: Content) -> Content:
    """Give what is counted of the same pages, the other one first."""
    return content._replace(
        first=content.second, second=content.first, mine=content.theirs, theirs=content.mine
    )


@settings(max_examples=60)
@given(pages, pages, samples, samples)
def test_what_is_counted_against_plain_python(
    first: Facts, second: Facts, mine: list[bytes], theirs: list[bytes]
) -> None:
    sites = make_site(mine), make_site(theirs)
    (content,) = compare_contents([(first, second)], [sites])
    assert content._asdict() == pytest.approx(compare_plainly(first, second, mine, theirs))
    assert compare_contents([(second, first)], [sites[::-1]]) == [swap(content)]
    for share in (
        *(content.whole, content.main_alike, content.share_of_main, content.main_alone),
        *(content.agreed, content.agreed_within),
    ):
        assert 0.0 <= share <= 1.0
    assert content.agreed <= content.agreed_within + 1e-9
    assert swap(content).agreed == content.agreed


@given(st.lists(st.tuples(pages, pages), max_size=5), st.lists(samples, min_size=1, max_size=3))
def test_many_pairs_at_once_are_as_each_alone(
    pairs: list[tuple[Facts, Facts]], drawn: list[list[bytes]]
) -> None:
    """Some of them of one site."""
    known = [make_site(sample) for sample in drawn]
    sites = [(known[n % len(known)], known[-1 - n % len(known)]) for n in range(len(pairs))]
    alone = [compare_contents([pair], [two])[0] for pair, two in zip(pairs, sites, strict=True)]
    assert compare_contents(pairs, sites) == alone


def make_page(text: np.ndarray, main: np.ndarray) -> Facts:
    return Facts(b"", 0, b"", sketch=sketch_text(text, main), whole_words=len(text))


def test_no_pairs_and_texts_without_shingles() -> None:
    assert compare_contents([], []) == []
    nothing = make_page(NO_SHINGLES, NO_SHINGLES)
    (content,) = compare_contents([(nothing, nothing)], [(Site(), Site())])
    assert set(content) == {0}
    assert (content.agreed, content.agreed_within, content.whole, content.triples) == (0, 0, 0, 0)
