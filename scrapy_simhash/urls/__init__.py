"""Rules on addresses: from stored pages to proven rules, and where an address leads. Pure."""

from typing import TYPE_CHECKING

from scrapy_simhash._faces import make_face

if TYPE_CHECKING:
    from scrapy_simhash.urls.learning import learn as learn
    from scrapy_simhash.urls.rules import UrlRule as UrlRule, UrlRuleRecord as UrlRuleRecord

make_face(
    __name__,
    {"learning": "learn", "rules": "UrlRule UrlRuleRecord"},
    "applying candidates learning proof rules",
)
