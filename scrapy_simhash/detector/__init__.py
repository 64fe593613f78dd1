"""A page in, a decision out: processes, threads, the log. No Scrapy."""

from typing import TYPE_CHECKING

from scrapy_simhash._faces import make_face

if TYPE_CHECKING:
    from scrapy_simhash.detector.detector import Detector as Detector, Page as Page
    from scrapy_simhash.detector.workers import Workers as Workers

make_face(__name__, {"detector": "Detector Page", "workers": "Workers"}, "log")
