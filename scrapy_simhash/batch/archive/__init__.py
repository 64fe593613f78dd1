"""Fingerprints in compressed, sorted blocks (section 3.2)."""

from scrapy_simhash.batch.archive.reader import Archive
from scrapy_simhash.batch.archive.format import write_archive

__all__ = ["Archive", "write_archive"]
