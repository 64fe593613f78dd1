"""Fingerprints in compressed, sorted blocks (section 3.2)."""

from typing import TYPE_CHECKING

from scrapy_simhash._faces import make_face

if TYPE_CHECKING:
    from scrapy_simhash.tables.archive.reader import Archive as Archive
    from scrapy_simhash.tables.archive.writer import write_archive as write_archive

make_face(__name__, {"reader": "Archive", "writer": "write_archive"}, "compression format writer")
