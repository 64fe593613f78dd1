"""The site that most modules here crawl."""

from collections.abc import Iterator

import pytest

from tests.helpers.server import Site, serve


@pytest.fixture
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    """Serve the pages that the module names `ANSWERS` to one test, which may change them."""
    with serve(request.module.ANSWERS) as site:
        yield site
