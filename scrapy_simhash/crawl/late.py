"""Make requests as a spider makes them: copies of those that its callbacks made for other links."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from scrapy.linkextractors import IGNORED_EXTENSIONS
from scrapy.spiders import CrawlSpider

from scrapy_simhash._addresses import split_url
from scrapy_simhash.crawl.policy import find_rule

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.http import Request
    from scrapy.settings import BaseSettings

    from scrapy_simhash.judging.rows import Link

# A callback of a spider makes requests of few kinds; CrawlSpider has one for each rule.
_MOST_KINDS = 32
_MOST_FOLDERS = 1_000
# Meta that differs from link to link, and says nothing of the page behind it.
_OF_ONE_LINK = {"depth", "link_text"}
_OF_SCRAPY = ("_simhash", "download_")
_FILES = {f".{extension}" for extension in IGNORED_EXTENSIONS}


class _Kind:
    """Requests of one callback for one callback, in which only the address differs."""

    def __init__(self, first: Request) -> None:
        # A copy, because components write into the meta of the request that is made.
        self.template = first.copy()
        self.meta = _list_meta(first)
        # Data about single pages, which nobody knows of other links.
        self.differs = False
        self._folders: set[str] = set()
        self._endings: Counter[str] = Counter()

    def add(self, request: Request) -> None:
        """Note another request."""
        self.differs = (
            self.differs
            or request.cb_kwargs != self.template.cb_kwargs
            or _list_meta(request) != self.meta
        )
        folder, ending = _cut(request.url)
        if len(self._folders) < _MOST_FOLDERS:
            self._folders.add(folder)
        if len(self._endings) < _MOST_FOLDERS:
            self._endings[ending] += 1

    def admits(self, url: str) -> bool:
        """Whether such an address may be requested: files only if others like it were."""
        ending = _cut(url)[1]
        return ending not in _FILES or ending in self._endings

    def rank(self, url: str) -> tuple[int, int, int]:
        """Tell how much an address is like those of this kind: by folder, ending and number."""
        folder, ending = _cut(url)
        alike = folder
        while alike and alike not in self._folders:
            alike = alike.rpartition("/")[0]
        return len(alike), self._endings[ending], self._endings.total()


class SpidersRequests:
    """What a spider's callbacks requested, by the callbacks' names."""

    def __init__(self, settings: BaseSettings) -> None:
        self._depth = settings.getint("DEPTH_LIMIT")
        self._kinds: dict[str, dict[Any, _Kind]] = {}

    def learn(self, page: Request, request: Request, spider: Spider) -> None:
        """Note a request that the callback of a page made."""
        if request.method != "GET" or request.body:
            return
        kinds = self._kinds.setdefault(name_link_maker(page, spider), {})
        key = (name_link_maker(request, spider), request.meta.get("rule"))
        if key not in kinds:
            if len(kinds) >= _MOST_KINDS:
                return
            kinds[key] = _Kind(request)
        kinds[key].add(request)

    def make(self, link: Link) -> Request | None:
        """Make the request of a link as its page's callback would; None if that is not known."""
        depth = link.depth + 1
        kinds = self._kinds.get(link.callback, {}).values()
        if not kinds or depth > (self._depth or depth):
            return None
        kind = max(kinds, key=lambda each: each.rank(link.url))
        if kind.differs or not kind.admits(link.url):
            return None
        made = kind.template.replace(url=link.url, dont_filter=False)
        made.meta.pop("link_text", None)
        made.meta["depth"] = depth
        if "Referer" in made.headers:
            made.headers["Referer"] = link.page
        return made


def name_link_maker(request: Request, spider: Spider) -> str:
    """Name what makes requests of the links of a page: its callback, and if that follows any."""
    name = "parse" if request.callback is None else getattr(request.callback, "__name__", "")
    if isinstance(spider, CrawlSpider) and name in {"parse", "_callback"}:
        # All its pages have one callback, which follows links by the same rules, or follows none.
        rule = find_rule(spider, request)
        follows = rule is None or rule.follow
        return "_callback" if follows else "_callback without links"
    return name


def _list_meta(request: Request) -> dict[str, Any]:
    return {
        key: value
        for key, value in request.meta.items()
        if key not in _OF_ONE_LINK and not str(key).startswith(_OF_SCRAPY)
    }


def _cut(url: str) -> tuple[str, str]:
    """Cut an address into its folder, and what the rest ends in: `.html`, or ""."""
    parts = split_url(url)
    if parts is None:
        return "", ""
    folder, _, name = parts.path.rpartition("/")
    _, dot, extension = name.rpartition(".")
    return f"{parts.netloc}{folder}", f"{dot}{extension}".lower()
