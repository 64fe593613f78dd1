"""Find the fingerprints near a given one: table designs, probes, what they cost.

Section 3 of the paper. Arrays in, arrays out: `stores` keeps the tables on disk.
"""

from typing import TYPE_CHECKING

from scrapy_simhash._faces import make_face

if TYPE_CHECKING:
    from scrapy_simhash.tables.designs import parse_design as parse_design
    from scrapy_simhash.tables.permutation import Design as Design
    from scrapy_simhash.tables.costs import choose_design as choose_design

make_face(
    __name__,
    {"designs": "parse_design", "permutation": "Design", "costs": "choose_design"},
    "costs designs permutation probing sets",
)
