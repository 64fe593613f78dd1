"""Which responses are looked at: final HTML pages with a callback, neither too large nor exempt."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from scrapy.http import HtmlResponse
from scrapy.http.request import NO_CALLBACK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy.http import Request, Response

_SUCCESS = range(200, 300)
_TRUNCATED_FLAGS = {"dataloss", "partial", "download_stopped"}


class Eligibility:
    """Tells responses that are judged from those that are skipped by rule.

    Args:
        max_bytes: larger bodies are skipped.
        never_drop: regular expressions; URLs that match one are skipped.
    """

    def __init__(self, max_bytes: int, never_drop: Sequence[str] = ()) -> None:
        self._max_bytes = max_bytes
        self._never_drop = [re.compile(pattern) for pattern in never_drop]

    def find_skip_reason(self, request: Request, response: Response) -> str | None:
        """Say why a response is not looked at, or None when it is.

        robots.txt and the downloads of media pipelines come through here too, as do error pages
        after their last retry, which HttpError filters only later.
        """
        rules = {
            "no_callback": request.callback is NO_CALLBACK,
            "not_html": not isinstance(response, HtmlResponse),
            "status": response.status not in _SUCCESS,
            "truncated": bool(_TRUNCATED_FLAGS.intersection(response.flags)),
            "never_drop": any(pattern.search(response.url) for pattern in self._never_drop),
            "too_large": len(response.body) > self._max_bytes,
        }
        return next((reason for reason, holds in rules.items() if holds), None)
