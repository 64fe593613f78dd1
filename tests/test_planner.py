"""The planner: which design for how many documents."""

import pytest

from scrapy_simhash.designs import parse_design
from scrapy_simhash.planner import choose_design


@pytest.mark.parametrize(
    ("documents", "name"),
    [(0, "4"), (1_000, "4"), (1024 << 16, "4"), ((1024 << 16) + 1, "10"), (2**34, "10")],
)
def test_choose_design(documents: int, name: str) -> None:
    assert choose_design(documents) == parse_design(name)
    assert choose_design(documents, 4) == parse_design(name)
    # Ten tables do not reach farther.
    assert choose_design(documents, 5) == choose_design(documents, 7) == parse_design("4")
