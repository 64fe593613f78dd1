"""Rules on addresses: which pages need not be fetched, learned and proven. Pure."""

from typing import TYPE_CHECKING

from scrapy_simhash._faces import make_face

if TYPE_CHECKING:
    from scrapy_simhash.judging.urls.records import (
        UrlRule as UrlRule,
        UrlRuleRecord as UrlRuleRecord,
    )

make_face(
    __name__,
    {"records": "UrlRule UrlRuleRecord"},
    "acting addresses book evidence learner proof records sampling",
)
