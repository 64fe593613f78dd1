"""Find the fingerprints near a given one: table designs, probes, planner, joins, archives.

Section 3 of the paper. Arrays in, arrays out: `stores` keeps the tables on disk.
"""

from typing import TYPE_CHECKING

from scrapy_simhash._faces import make_face

if TYPE_CHECKING:
    from scrapy_simhash.tables.designs import parse_design as parse_design
    from scrapy_simhash.tables.permutation import Design as Design
    from scrapy_simhash.tables.planner import choose_design as choose_design

make_face(
    __name__,
    {"designs": "parse_design", "permutation": "Design", "planner": "choose_design"},
    "archive designs joins permutation planner probing",
)
