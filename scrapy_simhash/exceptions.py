"""Exceptions that reach a spider."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.exceptions import IgnoreRequest

if TYPE_CHECKING:
    from scrapy.http import Response


class NearDuplicate(IgnoreRequest):
    """A page was dropped as a near-duplicate; the request's errback gets this.

    Args:
        response: the page.
        verdict: the value of `response.meta["simhash"]`.
    """

    def __init__(self, response: Response, verdict: dict[str, Any]) -> None:
        super().__init__(
            f"near-duplicate of {verdict.get('match_url')} at distance {verdict.get('distance')}"
        )
        self.response = response
        self.verdict = verdict
