"""The rule that compares two documents, against a plain statement of it and against its users."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from scrapy_simhash.inspection.urlrules import Outcome, compare_pages
from scrapy_simhash.judging.comparison import Context, compare
from scrapy_simhash.judging.documents import Document
from scrapy_simhash.judging.names import list_parts
from scrapy_simhash.judging.rule import Deciding, Rule
from scrapy_simhash.judging.sites import Site
from scrapy_simhash.pages.addresses import host_of
from scrapy_simhash.pages.facts import Facts
from scrapy_simhash.pages.recipe import FILE_DIGEST_BYTES
from scrapy_simhash.pages.sketch import sketch_text
from scrapy_simhash.stores.keys import count_common, make_keys
from tests.helpers.documents import make, open_lmdb
from tests.helpers.oracle import distance_between
from tests.helpers.sketches import compare_sketches
from tests.helpers.urlrules import RULE, make_facts

CENTRE = 0x0123456789ABCDEF
POOL = np.random.default_rng(3).integers(0, 2**64, 3_200, np.uint64, endpoint=False)
TEXTS = [POOL[start : start + 2_000] for start in (0, 100, 1_200)]
SKETCHES = [b"", *(sketch_text(text, text) for text in TEXTS)]
near_bits = st.lists(st.integers(0, 63), max_size=4).map(
    lambda places: CENTRE ^ sum({1 << place for place in places})
)
rules = st.builds(Rule, st.integers(0, 7), st.sampled_from([None, 0.0, 0.5, 0.8, 0.95]))


@st.composite
def documents(draw: st.DrawFn, name: bytes = b"-") -> Document:
    """Draw a document; a stub has one digest, the length of which tells a file."""
    stub = draw(st.integers(0, 4)) == 0
    digest = draw(st.sampled_from([b"one", b"other"]))
    short = int.from_bytes(digest.ljust(8), "big")
    if draw(st.booleans()):
        digest = digest.ljust(FILE_DIGEST_BYTES)
    return Document(
        Facts(
            name,
            short if stub else draw(near_bits),
            digest,
            url=draw(st.sampled_from(["http://a.example/", "http://b.example/"])),
            scope=draw(st.sampled_from(["", "", "", "another"])),
            title=draw(st.sampled_from(["", "Kiwi", "Apple"])),
            heading=draw(st.sampled_from(["", "Kiwi", "Apple"])),
            words=500,
            whole_words=draw(st.sampled_from([500, 5_000])),
            sketch=draw(st.sampled_from(SKETCHES)),
            stub=stub,
        ),
    )


def is_near_duplicate(one: Document, other: Document, rule: Rule) -> bool:
    """State the rule for pages whose titles and headings are one word or none, on unknown sites."""
    if (one.facts.scope, one.facts.stub, one.facts.file) != (
        other.facts.scope,
        other.facts.stub,
        other.facts.file,
    ):
        return False
    if one.facts.stub:
        return one.facts.text_digest == other.facts.text_digest
    bits = distance_between(one.facts.fingerprint, other.facts.fingerprint)
    if bits > rule.distance or rule.confirm is None:
        return bits <= rule.distance
    if not (one.facts.sketch and other.facts.sketch):
        return bits <= 3
    # Of the third text more than half is its own; what the first and the second one have alone
    # stands before and behind what they share.
    if (one.facts.sketch == SKETCHES[3]) != (other.facts.sketch == SKETCHES[3]):
        return False
    return have_one_name(one, other) or is_long_and_alike(one, other, rule.confirm)


def is_long_and_alike(one: Document, other: Document, confirm: float) -> bool:
    """Whether so much agrees that other names do not matter, as long as the site is unknown."""
    long = 5_000 in (one.facts.whole_words, other.facts.whole_words)
    return long and compare_sketches(one.facts.sketch, other.facts.sketch)[1] >= confirm


def have_one_name(one: Document, other: Document) -> bool:
    """State what names say that are one word or none."""
    names = [(one.facts.title, other.facts.title), (one.facts.heading, other.facts.heading)]
    same = {first == second for first, second in names if first and second}
    return True in same or not same


@given(documents(), documents(), rules)
def test_compare_against_the_rule_in_plain_words(
    one: Document, other: Document, rule: Rule
) -> None:
    answer = compare(one.facts, other.facts, rule)
    assert answer == compare(other.facts, one.facts, rule)
    assert answer.duplicate is is_near_duplicate(one, other, rule)
    assert (answer.similarity is not None) == (answer.evidence.deciding is Deciding.TEXTS)
    assert answer.why
    # What is confirmed is so within any distance.
    wider = compare(one.facts, other.facts, rule._replace(distance=64))
    assert (wider.confirmed, wider.tests) == (answer.confirmed, answer.tests)


def find_context(one: Document, other: Document) -> Context:
    """State what proposes two pages: a name on one host, or rare triples."""
    site, (mine, theirs) = Site({}), (one.facts, other.facts)
    if not (mine.sketch and theirs.sketch):
        return Context.of(site, site)
    parts, called = (list_parts(facts.title, facts.heading) for facts in (mine, theirs))
    names = [parts[part] for part in parts if part in called]
    name = names[0] if names and host_of(mine.url) == host_of(theirs.url) else ""
    if mine.stub or theirs.stub:
        return Context.of(site, site, name)
    keys = count_common(make_keys(mine), make_keys(theirs), (), known=False)
    return Context.of(site, site, name, keys)


@given(documents(b"one"), documents(b"other"), rules)
def test_a_store_decides_as_compare_does(one: Document, other: Document, rule: Rule) -> None:
    """What has one name on one host is compared however far apart it is."""
    assume(one.facts.url != other.facts.url or not one.facts.url)  # no page is its own copy
    memory = Path("/dev/shm")  # noqa: S108 - the folder in it has a name of its own
    answer = compare(other.facts, one.facts, rule, context=find_context(other, one))
    with (
        TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder,
        open_lmdb(Path(folder), distance=rule.distance, confirm=rule.confirm) as store,
    ):
        match = store.find_and_add([one, other])[1].match
    assert (match is not None) is answer.duplicate
    if match is not None:
        assert (match.distance, match.similarity) == (answer.evidence.distance, answer.similarity)
        assert match.tests[1:] == answer.tests


def page(name: str, **facts: Any) -> Document:
    return make(identity=b"page", **{**make_facts(name), **facts})


def edit(words: int, **facts: Any) -> Document:
    """Make a page of 200 words with so many others in their middle."""
    text = POOL[:200].copy()
    text[50 : 50 + words] = POOL[200 : 200 + words]
    return page("a", sketch=sketch_text(text, text), **facts)


def cut(name: str, words: int) -> Document:
    """Make a page that has only the first words of another one, as a print view has."""
    return page(f"{name}<{words}", title=f"Title of {name}", heading=f"Heading of {name}")


@pytest.mark.parametrize(
    ("first", "second", "outcome"),
    [
        (page("a"), page("a"), Outcome.SAME),
        (page("a"), page("a~8"), Outcome.SAME),
        # An edit, and a third of the words: alike by .54.
        (edit(0), edit(12), Outcome.SAME),
        (edit(0), edit(60), Outcome.GREY),
        # What stands before the common part is a frame, if a name or the site says so.
        (page("a"), page("a~60"), Outcome.GREY),
        (page("a"), page("a~150"), Outcome.DIFFERENT),
        (page("a"), page("b"), Outcome.DIFFERENT),
        # Whatever the texts are like, two names are two pages.
        (page("a"), page("a", title="Title of b", heading="Heading of b"), Outcome.DIFFERENT),
        (edit(0), edit(30, heading="Heading of b"), Outcome.GREY),
        # Too short to tell, unless names do.
        (page("a", words=50), page("a~150"), Outcome.GREY),
        (page("a", words=50), page("b"), Outcome.DIFFERENT),
        # One is part of the other.
        (page("a"), cut("a", 80), Outcome.GREY),
        (page("a", time=1.0), page("a~150", time=90_000.0), Outcome.GREY),
        (page("a", time=1.0), page("b", time=90_000.0), Outcome.GREY),
        (page("a", time=1.0), page("a", time=90_000.0), Outcome.SAME),
        (page("a", scope="x"), page("a"), Outcome.GREY),
        (page("a"), page("a", sketch=b""), Outcome.GREY),
    ],
)
def test_two_pages_are_compared(first: Document, second: Document, outcome: Outcome) -> None:
    for rule in (RULE, Rule(3, None)):
        assert (
            compare_pages(first.facts, second.facts, rule)
            == compare_pages(second.facts, first.facts, rule)
            == outcome
        )
