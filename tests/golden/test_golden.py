"""Verdicts are those of the golden files, from every kind of store.

What differs shows in `python -m tests.golden compare`.
"""

from pathlib import Path

import pytest

from tests.golden.__main__ import RULES, SHIPPED, compare_part
from tests.helpers.needing import slow_but
from tests.helpers.redisservers import RedisServer


@pytest.mark.parametrize("part", slow_but(["labelled"], SHIPPED))
def test_pages_of_the_repository(tmp_path: Path, part: str) -> None:
    assert compare_part(part, [str(tmp_path / rule) for rule in RULES]) == ""


def test_pages_on_a_server(redis_server: RedisServer) -> None:
    assert compare_part("labelled", [redis_server.url() for _ in RULES]) == ""
