"""What decides about two documents."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, NamedTuple

# The paper's k for 64-bit fingerprints (section 2), which decides in plain simhash; and within
# which candidates are found whose words are compared.
PLAIN_DISTANCE_BITS = 3
WORDS_DISTANCE_BITS = 7
# With fewer distinct words, simhash has too little to go on; shorter pages are compared exactly
# (docs/design.md).
MIN_FEATURES = 32


# SIMHASH_RULE, which a store has, too; of each the default of SIMHASH_DISTANCE.
RuleName = Literal["words", "plain"]
DEFAULT_DISTANCE_BITS: dict[str, int] = {"words": WORDS_DISTANCE_BITS, "plain": PLAIN_DISTANCE_BITS}


class Rule(NamedTuple):
    """The settings that decide.

    Attributes:
        distance: SIMHASH_DISTANCE, 0 to 15 bits.
        name: SIMHASH_RULE: with `plain` the distance alone decides, as in the paper; else that
            rule of `judging.rule.RULES` does.
        min_features: a text with fewer distinct features has no fingerprint; asked for plain
            simhash only, which goes by main texts.
    """

    distance: int
    name: str = "words"
    min_features: int = MIN_FEATURES

    @property
    def by_words(self) -> bool:
        """Whether the words of two pages decide."""
        return self.name != "plain"


class Deciding(StrEnum):
    """What decides about two documents, in words for people."""

    SCOPE = "in different scopes: never compared"
    DIGEST = "too little text for a simhash: compared exactly"
    DISTANCE = "plain simhash"
    NO_WORDS = f"no words of one of them: within {PLAIN_DISTANCE_BITS} bits the distance decides"
    WORDS = "words and names"
