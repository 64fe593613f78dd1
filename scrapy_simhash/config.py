"""All settings, with names, defaults, ranges and units; and how they are read."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from scrapy_simhash.errors import SettingError, suggest
from scrapy_simhash.judging import Rule
from scrapy_simhash.judging.rule import CONFIRM, MIN_FEATURES, default_distance
from scrapy_simhash.pages.recipe import DEFAULT_FEATURES, default_extractor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# More cores than any machine has; a larger number is a mistake that would fill the memory.
_MOST_WORKERS = 1_024
DONE_ON = ("items", "feed")
# The tests' hostile pages that meet the time limit take at most 190 MB.
PAGE_MEMORY_BYTES = 512 * 2**20
ACTIONS = ("drop", "ignore-outlinks", "flag")
# The actions that drop the items of a page; "follow" is a drop that follows new links.
DROPPING = {"drop", "follow"}
CROSS_SITE = ("drop", "flag")
URL_RULES = ("learn", "skip", "off")
SINK_ACTIONS = ("flag", "drop", "close")
# The value of FOLLOW_NEW_LINKS that requests new links only when nothing else is left to do.
LATE = "late"
LOG_IN_STORE = "log.jsonl"
DEFAULT_LOG = f"<store>/{LOG_IN_STORE}"
UNSET_DISTANCE = -1
SECONDS_A_DAY = 86_400


def _default_workers() -> int:
    return max(1, (os.cpu_count() or 1) - 1)


@dataclass(frozen=True)
class Config:
    """The settings of the plugin; field `x` is the setting `SIMHASH_X`.

    Attributes:
        enabled: `False` switches both middlewares off
        store: folder of the store, or a URL: `lmdb:///folder`, `redis://...`,
            `redis+cluster://...`. A relative folder is below Scrapy's data path (`.scrapy` in the
            project); the crawl does not start if the project's folder cannot be found, [as under
            Scrapyd](beside.md#scrapyd)
        action: what to do with a near-duplicate: `drop` it; `ignore-outlinks`, which keeps its
            items and drops its requests; or only `flag` it
        confirm: how similar the main or the whole texts of two pages must be before one is dropped
            for the other: Jaccard similarity, estimated with sketches, 0 to 1. With `None` the
            distance alone decides, as in the paper
        distance: k: pages whose fingerprints differ in at most this many of 64 bits are candidates;
            with `SIMHASH_CONFIRM = None` they are near-duplicates, and the default is 3. It must be
            in the range for which the table design is complete, 0 to 7 for `auto` and 4, 0 to 4 for
            10, 16 and 20; the default is lowered to that
        tables: table design: 4, 10, 16, 20, or blocks and distance as `"m:k"`. `"4+2"` probes with
            up to 2 bits flipped, see [Table designs](#table-designs). `auto` keeps the design of
            an existing store, and makes 4 tables in a new one
        extractor: what finds the main text: `turbohtml`, `trafilatura-fast` (without fallback
            extractors), `trafilatura`, `html2txt` (all visible text), or the import path of a
            function from an lxml tree to text. See [how to choose](#how-to-choose-a-reader). Where
            turbohtml cannot be imported, the default is `trafilatura-fast`
        features: the features of a text: `words-1`, `words-2`, `words-3` (shingles of 1 to 3
            words, weight 1 + ln count), `words-3-set` (equal weights), `words-1-counts` (weight
            count), `zh-words` and `zh-keywords` (Chinese words by jieba, extra `zh`), or the import
            path of a `scrapy_simhash.pages.features.FeatureSet`
        min_features: a text with fewer distinct features has no fingerprint. A page without any
            fingerprint is compared exactly, with its title, attributes and hidden text.
            1 or more
        scope: which pages are compared: all (`global`); those of one `site` (registrable domain),
            `host` or `language` (declared, otherwise detected); or those with the same name,
            returned by a function of URL and `PageFingerprint` that you name by its import path.
            After a change, a stored page is in its new scope once it is fetched again
        cross_site: what to do with a near-duplicate of a page on another site (registrable domain),
            or of a bulk-loaded fingerprint without URL: `drop` treats it like any other, as in the
            paper; `flag` only flags it, whatever the action
        never_drop: regular expressions; a page whose URL matches one is not judged (`never_drop`)
        follow_new_links: follow the links of a near-duplicate if at least half of them are not on
            its original. Its items are dropped all the same, and its errback is not called.
            `late` requests links that only dropped pages had when the crawl has nothing else to do.
            See [when to turn it on](#when-to-follow-new-links)
        late_links: the most links that `late` requests in a crawl, 0 or more
        sink_action: what to do with a near-duplicate of a [wall](walls.md) (a login or "not
            found" page to which unlike addresses lead): `flag` marks its verdict with `sink`, and
            `SIMHASH_ACTION` decides as before; `drop` drops it under any action; `close` ends the
            crawl with the reason `simhash_sink`
        files: judge other bodies than HTML, such as PDF, by an exact digest: one that is equal to
            another is its near-duplicate at distance 0. See [Files](#files)
        url_rules: what the crawl does with rules by which addresses lead to one page: `learn` them
            and report what they would have saved; `skip` requests by proven rules as well, see
            [requests that are not made](#requests-that-are-not-made); or `off`
        url_confidence: a rule may act when the lower bound of its share of equal pages (Wilson,
            95 %, one-sided) is at least this; above 0 and below 1
        url_sample: share of the requests that a rule would skip which are made all the same, to
            test it, 0 to 1; the first 3 of each rule always are
        workers: processes that extract text, 0 to 1024; 0 extracts on the event loop, for debugging
        page_timeout: seconds a page may take in its worker, above 0; then the worker is killed, and
            the page is `unjudged` (`timed_out`)
        page_memory: bytes a page may take in its worker, beyond what the worker has loaded; then
            the worker ends, and the page is `unjudged` (`out_of_memory`). 1 or more; Linux only
        max_bytes: pages with a larger body are not judged (`too_large`); 1 or more
        keep_text: keep main texts in the store, compressed, so that `explain` can show how two
            pages differ
        hand_over_text: put the main text of a page that was read into
            `response.meta["simhash_text"]`, see [the main text](text.md)
        log: path of the decision log; a relative one is below the project's folder, or without a
            project below the current folder. `None` writes no log
        expire_days: a page causes no more drops this many days after it was last fetched; above 0.
            With `None` it never expires. This deletes nothing, see `prune`. Imported fingerprints
            have no date and do not expire
        readonly: judge pages, but write nothing to the store; for test runs
        done_on: when a page counts as seen: once its `items` passed the pipelines, or once the
            `feed` that has them is stored
    """

    enabled: bool = True
    store: str = "simhash"
    action: str = "drop"
    distance: int = UNSET_DISTANCE
    confirm: float | None = CONFIRM
    tables: str = "auto"
    extractor: str = field(default_factory=default_extractor)
    features: str = DEFAULT_FEATURES
    min_features: int = MIN_FEATURES
    scope: str = "global"
    cross_site: str = "drop"
    never_drop: tuple[str, ...] = ()
    follow_new_links: bool | str = False
    late_links: int = 1_000
    sink_action: str = "flag"
    files: bool = False
    url_rules: str = "learn"
    url_confidence: float = 0.9
    url_sample: float = 0.05
    workers: int = _default_workers()
    page_timeout: float = 5.0
    page_memory: int = PAGE_MEMORY_BYTES
    max_bytes: int = 4 * 2**20
    keep_text: bool = False
    hand_over_text: bool = False
    log: str | None = DEFAULT_LOG
    expire_days: float | None = None
    readonly: bool = False
    done_on: str = "items"

    def __post_init__(self) -> None:
        _require("STORE", self.store, bool(self.store), "a folder or URL")
        _require_one_of("ACTION", self.action, ACTIONS)
        _require_one_of("CROSS_SITE", self.cross_site, CROSS_SITE)
        _require_one_of("URL_RULES", self.url_rules, URL_RULES)
        _require_one_of("SINK_ACTION", self.sink_action, SINK_ACTIONS)
        _require_one_of("DONE_ON", self.done_on, DONE_ON)
        _require("MIN_FEATURES", self.min_features, self.min_features >= 1, "1 or more")
        _require("WORKERS", self.workers, 0 <= self.workers <= _MOST_WORKERS, "0 to 1024 processes")
        _require("PAGE_TIMEOUT", self.page_timeout, self.page_timeout > 0, "above 0 seconds")
        _require("PAGE_MEMORY", self.page_memory, self.page_memory >= 1, "1 byte or more")
        _require("MAX_BYTES", self.max_bytes, self.max_bytes >= 1, "1 byte or more")
        _require("LATE_LINKS", self.late_links, self.late_links >= 0, "0 or more")
        bound = self.url_confidence
        _require("URL_CONFIDENCE", bound, 0 < bound < 1, "above 0 and below 1")
        _require("URL_SAMPLE", self.url_sample, 0 <= self.url_sample <= 1, "0 to 1")
        for pattern in self.never_drop:
            _check_pattern(pattern)
        if self.expire_days is not None:
            _require("EXPIRE_DAYS", self.expire_days, self.expire_days > 0, "above 0, or None")
        if self.confirm is not None:
            _require("CONFIRM", self.confirm, 0 <= self.confirm <= 1, "0 to 1, or None")
        self._check_distance()

    @property
    def distance_to_open(self) -> int | None:
        """The distance for opening the store; None for the default, as far as it reaches."""
        # A store that was seeded with another design may reach less than the default.
        automatic = self.tables == "auto" and self.distance == default_distance(self.confirm)
        return None if automatic else self.distance

    @property
    def rule(self) -> Rule:
        """The rule that decides whether two pages are near-duplicates."""
        return Rule(self.distance, self.confirm, self.min_features)

    def _check_distance(self) -> None:
        from scrapy_simhash.tables import parse_design  # noqa: PLC0415 - loads numpy

        automatic = self.tables == "auto"
        try:
            # `auto` makes four tables if other designs do not reach the distance.
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


def _check_pattern(pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise SettingError(
            f"SIMHASH_NEVER_DROP: {pattern!r} is not a regular expression ({error}); "
            "escape characters with a special meaning, such as '\\?'"
        ) from None


def _require(name: str, value: object, holds: bool, allowed: str) -> None:
    if not holds:
        raise SettingError(f"SIMHASH_{name} = {value!r}: must be {allowed}")


def _require_one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    _require(name, value, value in allowed, " or ".join(map(repr, allowed)))


def read_config(settings: Mapping[str, Any]) -> Config:
    """Read the settings; values given as text (`-s SIMHASH_DISTANCE=2`) are converted."""
    given = {}
    for option in fields(Config):
        name = f"SIMHASH_{option.name.upper()}"
        if name in settings:
            given[option.name] = _convert(name, settings[name], str(option.type))
    if given.get("distance") == UNSET_DISTANCE:
        raise SettingError(f"SIMHASH_DISTANCE = {UNSET_DISTANCE}: must be 0 or more bits")
    return Config(**given)


def describe_unknown(settings: Mapping[str, Any]) -> str:
    """Name the unknown settings that begin with SIMHASH_, or return ""."""
    known = [f"SIMHASH_{field.name.upper()}" for field in fields(Config)]
    names = sorted(name for name in map(str, settings) if name.startswith("SIMHASH_"))
    unknown = [f"{name}{suggest(name, known)}" for name in names if name not in known]
    return f"settings that do not exist: {', '.join(unknown)}" if unknown else ""


def _convert(name: str, value: Any, kind: str) -> Any:
    if kind.endswith("| None") and value in (None, "", "None", "none"):
        return None
    read, wanted = _KINDS[kind.removesuffix(" | None")]
    try:
        return read(value)
    except (TypeError, ValueError, OverflowError):  # int(float('inf')) overflows
        raise SettingError(f"{name} = {value!r}: must be {wanted}") from None


def _read_bool(value: Any) -> bool:
    # The words that Scrapy's own getbool knows.
    known = {True: True, False: False, "1": True, "0": False, "true": True, "false": False}
    word = value.lower() if isinstance(value, str) else value
    if word not in known:
        raise ValueError(value)
    return known[word]


def _read_bool_or_late(value: Any) -> bool | str:
    return LATE if value == LATE else _read_bool(value)


def _read_int(value: Any) -> int:
    if isinstance(value, bool) or int(value) != float(value):
        raise ValueError(value)
    return int(value)


def _read_float(value: Any) -> float:
    # False, meant as "off", would become 0, the loosest similarity.
    if isinstance(value, bool):
        raise TypeError(value)
    return float(value)


def _read_str(value: Any) -> str:
    if value is None or isinstance(value, bool):
        raise TypeError(value)
    return str(value)


def _read_strings(value: Any) -> tuple[str, ...]:
    # A single string is one pattern, because a comma may be part of it.
    entries = [value] if isinstance(value, str) else list(value)
    if not all(isinstance(entry, str) and entry for entry in entries):
        raise TypeError(value)
    return tuple(entries)


# How a value is read, and what it must be, by the annotation of its field.
_KINDS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "bool": (_read_bool, "True or False"),
    "bool | str": (_read_bool_or_late, f"True or False or {LATE!r}"),
    "int": (_read_int, "a whole number"),
    "float": (_read_float, "a number"),
    "str": (_read_str, "text"),
    "tuple[str, ...]": (_read_strings, "a list of regular expressions, or one of them"),
}
