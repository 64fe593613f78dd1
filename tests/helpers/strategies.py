"""What hypothesis draws: fingerprints, pairs at an exact distance, texts of many scripts."""

from collections.abc import Iterable

from hypothesis import strategies as st

from scrapy_simhash.tables import Design

BITS = 64
fingerprints = st.integers(0, 2**BITS - 1)


def masks(distance: int, positions: Iterable[int] = range(BITS)) -> st.SearchStrategy[int]:
    """Draw numbers with exactly so many bits set, all of them among these positions."""
    bits = st.sets(st.sampled_from([*positions]), min_size=distance, max_size=distance)
    return bits.map(lambda drawn: sum(1 << bit for bit in drawn))


def border_bits(design: Design) -> list[int]:
    """List the first and last bit of every block of a design."""
    return sorted(
        {
            bit
            for table in design.tables
            for block in table.blocks
            for bit in (block.shift, block.shift + block.width - 1)
        }
    )


_SCRIPTS = (
    "abcdefghij ABCÄÖÜßéñ",
    "русский текст ЖЩЫ",
    "ελληνικά ΣΊΣΥΦΟΣ",
    "العربية كتاب",
    "हिन्दी किताबें",
    "中文没有空格的文字",
    "ひらがなカタカナ漢字ｶﾅ",
    "ภาษาไทยไม่มีช่องว่าง",
    "한국어 문장입니다",
    "ﬁ①Ǻ ²",
    "0123456789 .,;:!?-_\n\t",
)
# Letters of one script mostly, as in a real page, now and then anything but lone surrogates.
texts = st.one_of(
    st.text(st.sampled_from("".join(_SCRIPTS)), max_size=80),
    *(st.text(st.sampled_from(script), max_size=80) for script in _SCRIPTS),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
)


@st.composite
def crowds(draw: st.DrawFn) -> list[int]:
    """Draw fingerprints in clusters: a few centres, and others few bits away, some repeated."""
    centres = draw(st.lists(fingerprints | st.sampled_from([0, 2**BITS - 1]), max_size=4))
    drawn = list(centres)
    if centres:
        flips = st.integers(0, 12).flatmap(masks)
        near = st.tuples(st.sampled_from(centres), flips).map(lambda pair: pair[0] ^ pair[1])
        drawn += draw(st.lists(near, max_size=30))
    return draw(st.permutations(drawn + drawn[:3]))
