"""All settings in one place: names, defaults, ranges, units; and the function that reads them."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from scrapy_simhash.recipe import DEFAULT_EXTRACTOR, DEFAULT_FEATURES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# More than any machine has cores; a larger number is a mistake that would fill the memory.
_MOST_WORKERS = 1_024
# Below so many distinct words simhash has too little to go on; shorter pages are compared exactly
# (docs/study.md).
MIN_FEATURES = 32
# Of the similarities with a precision of .99, one with the best recall, as chosen on the sources
# other than the one that is judged (docs/study.md).
CONFIRM = 0.8
CONFIRMED_DISTANCE_BITS = 7
# The paper's k for 64-bit fingerprints (section 2).
PLAIN_DISTANCE_BITS = 3
DONE_ON = ("items", "feed")
# Of the hostile pages in the tests, 190 MB is the most that one takes which is ready in time.
PAGE_MEMORY_BYTES = 512 * 2**20
ACTIONS = ("drop", "ignore-outlinks", "flag")
# Of what is done with a page, what keeps its items back; "follow" is a drop that follows new links.
DROPPING = {"drop", "follow"}
CROSS_SITE = ("drop", "flag")
LOG_IN_STORE = "log.jsonl"
DEFAULT_LOG = f"<store>/{LOG_IN_STORE}"
UNSET_DISTANCE = -1
SECONDS_A_DAY = 86_400


class SettingError(ValueError):
    """A setting has a value it cannot have; the message names setting, value and range."""


def _default_workers() -> int:
    return max(1, (os.cpu_count() or 1) - 1)


@dataclass(frozen=True)
class Config:
    """The settings of the plugin; field `x` is the setting `SIMHASH_X`.

    Attributes:
        enabled: `False` switches both middlewares off
        store: folder of the store, or `lmdb:///folder`; relative folders are below Scrapy's data
            path (`.scrapy` in the project); where the project's folder cannot be found, [as under
            Scrapyd](beside.md#scrapyd), the crawl does not start
        action: `drop`: neither items nor outlinks; `ignore-outlinks`: items pass, requests are
            dropped; `flag`: everything passes
        confirm: how alike main or whole text of two pages must be (Jaccard similarity, estimated by
            their sketches, 0 to 1) before one is dropped for the other; `None`: the distance alone
            decides, as in the paper
        distance: k: pages within so many of 64 bits are candidates, or with `SIMHASH_CONFIRM =
            None` near-duplicates (default then 3); the default is smaller where the table design
            reaches less; 0 up to what the table design is complete for (7 for `auto` and 4, 4 for
            10, 16 and 20)
        tables: table design: 4, 10, 16, 20, blocks and distance as `"m:k"`, or widths of blocks and
            distance as `"11,11,10,11,11,10:3"`, with up to r bits flipped as `"4+2"`, see [Table
            designs](#table-designs); `auto` takes an existing store's, and 4 tables for a new one
        extractor: main text: `trafilatura-fast` (without fallback extractors), `trafilatura`,
            `html2txt` (all visible text), or the import path of a function from an lxml tree to
            text
        features: features: `words-1`, `words-2`, `words-3` (shingles of so many words, weight 1 +
            ln count), `words-3-set` (equal weights), `words-1-counts` (weight count), `zh-words`
            and `zh-keywords` (Chinese words by jieba, extra `zh`), or the import path of a
            `scrapy_simhash.features.FeatureSet`
        min_features: a text with fewer distinct features makes no fingerprint; a page without any
            is compared exactly, with its title, addresses, `data-` attributes and scripts; 1 or
            more
        never_drop: regular expressions; pages whose URL has a match are not looked at
            (`never_drop`)
        follow_new_links: follow the links of a near-duplicate when at least half of them were not
            on the page it is like; its items are dropped all the same (its errback is not called).
            See [when to turn it on](#when-to-follow-new-links)
        scope: compare all pages; only pages of one `site` (registrable domain), `host` or
            `language` (declared, or else detected); or the import path of a function from URL and
            `PageFingerprint` to a name. After a change, stored pages are compared in the new scope
            from their next fetch on
        cross_site: `flag`: a near-duplicate of a page on another site (registrable domain), or of a
            bulk-loaded fingerprint without URL, is flagged only, whatever the action; `drop`: it is
            treated as any other, as in the paper
        workers: processes that extract text, 0 to 1024; 0 extracts on the event loop, for debugging
        page_timeout: seconds a page may take in its worker, above 0; then the worker is killed and
            the page `unjudged` (`timed_out`)
        page_memory: bytes a page may take in its worker, beyond what that has loaded; then the
            worker ends and the page is `unjudged` (`out_of_memory`); 1 or more. Linux only
        max_bytes: larger bodies are skipped (`too_large`); 1 or more
        keep_text: keep main texts in the store, compressed, so that `explain` can show the
            difference
        log: path of the decision log, a relative one below the folder of the project (without a
            project, below the current folder); `None` writes none
        expire_days: a page that was last fetched so many days ago makes no other one a
            near-duplicate any more; above 0; `None`: it always does. Nothing is deleted: see
            `prune`. Imported fingerprints have no date and do not expire
        readonly: judge, but write nothing to the store; for test runs
        done_on: a page counts as seen when its `items` came through the pipelines, or when the
            `feed` with them is stored
    """

    enabled: bool = True
    store: str = "simhash"
    action: str = "drop"
    distance: int = UNSET_DISTANCE
    confirm: float | None = CONFIRM
    tables: str = "auto"
    extractor: str = DEFAULT_EXTRACTOR
    features: str = DEFAULT_FEATURES
    min_features: int = MIN_FEATURES
    scope: str = "global"
    cross_site: str = "drop"
    never_drop: tuple[str, ...] = ()
    follow_new_links: bool = False
    workers: int = _default_workers()
    page_timeout: float = 5.0
    page_memory: int = PAGE_MEMORY_BYTES
    max_bytes: int = 4 * 2**20
    keep_text: bool = False
    log: str | None = DEFAULT_LOG
    expire_days: float | None = None
    readonly: bool = False
    done_on: str = "items"

    def __post_init__(self) -> None:
        _require("STORE", self.store, bool(self.store), "a folder or URL")
        _require("ACTION", self.action, self.action in ACTIONS, " or ".join(map(repr, ACTIONS)))
        known = self.cross_site in CROSS_SITE
        _require("CROSS_SITE", self.cross_site, known, " or ".join(map(repr, CROSS_SITE)))
        _require("DONE_ON", self.done_on, self.done_on in DONE_ON, " or ".join(map(repr, DONE_ON)))
        _require("MIN_FEATURES", self.min_features, self.min_features >= 1, "1 or more")
        _require("WORKERS", self.workers, 0 <= self.workers <= _MOST_WORKERS, "0 to 1024 processes")
        _require("PAGE_TIMEOUT", self.page_timeout, self.page_timeout > 0, "above 0 seconds")
        _require("PAGE_MEMORY", self.page_memory, self.page_memory >= 1, "1 byte or more")
        _require("MAX_BYTES", self.max_bytes, self.max_bytes >= 1, "1 byte or more")
        for pattern in self.never_drop:
            _check_pattern(pattern)
        if self.expire_days is not None:
            _require("EXPIRE_DAYS", self.expire_days, self.expire_days > 0, "above 0, or None")
        if self.confirm is not None:
            _require("CONFIRM", self.confirm, 0 <= self.confirm <= 1, "0 to 1, or None")
        self._check_distance()

    @property
    def distance_to_open(self) -> int | None:
        """The distance to open the store with; None for what it reaches, up to the default.

        A store that was seeded with another design may reach less than the default.
        """
        automatic = self.tables == "auto" and self.distance == default_distance(self.confirm)
        return None if automatic else self.distance

    def _check_distance(self) -> None:
        from scrapy_simhash.designs import parse_design  # noqa: PLC0415 - loads numpy

        automatic = self.tables == "auto"
        try:
            # `auto` takes four tables where others do not reach.
            complete = parse_design(4 if automatic else self.tables).reach_bits
        except ValueError as error:
            raise SettingError(f"SIMHASH_TABLES: {error}") from None
        if self.distance == UNSET_DISTANCE:
            object.__setattr__(self, "distance", min(default_distance(self.confirm), complete))
        hint = (
            "; or name a design for it, as 'm:k' or '4+2', in SIMHASH_TABLES" if automatic else ""
        )
        _require(
            "DISTANCE",
            self.distance,
            0 <= self.distance <= complete,
            f"0 to {complete} bits with SIMHASH_TABLES = {self.tables!r}{hint}",
        )


def default_distance(confirm: float | None) -> int:
    """Get k for a similarity that a match must reach, or for plain simhash where that is None."""
    return PLAIN_DISTANCE_BITS if confirm is None else CONFIRMED_DISTANCE_BITS


def _check_pattern(pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise SettingError(
            f"SIMHASH_NEVER_DROP: {pattern!r} is no regular expression ({error}); "
            "escape what is meant as it stands, such as '\\?'"
        ) from None


def _require(name: str, value: object, holds: bool, allowed: str) -> None:
    if not holds:
        raise SettingError(f"SIMHASH_{name} = {value!r}: must be {allowed}")


def read_config(settings: Mapping[str, Any]) -> Config:
    """Read the settings of the plugin.

    Args:
        settings: Scrapy's, or any mapping. Values given as text (`-s SIMHASH_DISTANCE=2`) are
            converted.

    Raises:
        SettingError: names the setting, its value and the allowed range.
    """
    given = {}
    for field in fields(Config):
        name = f"SIMHASH_{field.name.upper()}"
        if name in settings:
            given[field.name] = _convert(name, settings[name], str(field.type))
    if given.get("distance") == UNSET_DISTANCE:
        raise SettingError(f"SIMHASH_DISTANCE = {UNSET_DISTANCE}: must be 0 or more bits")
    return Config(**given)


def _convert(name: str, value: Any, kind: str) -> Any:
    readers: dict[str, Callable[[Any], Any]] = {
        "bool": _read_bool,
        "int": _read_int,
        "float": _read_float,
        "str": _read_str,
        "tuple[str, ...]": _read_strings,
    }
    if kind.endswith("| None") and value in (None, "", "None"):
        return None
    kind = kind.removesuffix(" | None")
    try:
        return readers[kind](value)
    except (TypeError, ValueError, OverflowError):  # int(float('inf')) overflows
        wanted = {
            "bool": "True or False",
            "int": "a whole number",
            "float": "a number",
            "tuple[str, ...]": "a list of regular expressions, or one of them",
        }
        raise SettingError(f"{name} = {value!r}: must be {wanted.get(kind, 'text')}") from None


def _read_bool(value: Any) -> bool:
    # The words that Scrapy's own getbool knows.
    known = {True: True, False: False, "1": True, "0": False, "true": True, "false": False}
    word = value.lower() if isinstance(value, str) else value
    if word not in known:
        raise ValueError(value)
    return known[word]


def _read_int(value: Any) -> int:
    if isinstance(value, bool) or int(value) != float(value):
        raise ValueError(value)
    return int(value)


def _read_float(value: Any) -> float:
    # False for "off" would be the loosest similarity there is.
    if isinstance(value, bool):
        raise TypeError(value)
    return float(value)


def _read_str(value: Any) -> str:
    if value is None or isinstance(value, bool):
        raise TypeError(value)
    return str(value)


def _read_strings(value: Any) -> tuple[str, ...]:
    # A single text is one pattern: a comma may be part of it.
    entries = [value] if isinstance(value, str) else list(value)
    if not all(isinstance(entry, str) and entry for entry in entries):
        raise TypeError(value)
    return tuple(entries)
