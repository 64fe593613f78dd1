"""Inspect past decisions, and try other settings: log, explain, evaluate, report."""

from typing import TYPE_CHECKING

from scrapy_simhash._faces import make_face

if TYPE_CHECKING:
    from scrapy_simhash.inspection.explanation import explain as explain
    from scrapy_simhash.inspection.whatif import replay as replay

make_face(
    __name__,
    {"explanation": "explain", "whatif": "replay"},
    "difference evaluation explanation log report rulefiles urlrules whatif",
)
