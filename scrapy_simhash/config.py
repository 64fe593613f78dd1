"""All settings, with names, defaults, ranges and units; and how they are read."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, fields
from difflib import get_close_matches
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_type_hints

import msgspec
from msgspec import Meta

from scrapy_simhash.errors import SettingError
from scrapy_simhash.judging.documents import DEFAULT_DISTANCE_BITS, Rule, RuleName
from scrapy_simhash.pages.addresses import host_of
from scrapy_simhash.pages.facts import OUR_READER

if TYPE_CHECKING:
    from collections.abc import Mapping

ACTIONS = ("drop", "ignore-outlinks", "flag")
LOG_IN_STORE = "log.jsonl"
DEFAULT_LOG = f"<store>/{LOG_IN_STORE}"
UNSET_DISTANCE = -1
_ALIKE = 0.85  # names of settings; the beginning, which all share, makes any two alike

# Each type says in words what it admits, for messages.
_Flag = Annotated[bool, Meta(description="True or False")]
_Text = Annotated[str, Meta(min_length=1, description="text")]
_Patterns = Annotated[
    tuple[_Text, ...], Meta(description="a list of regular expressions, or one of them")
]
_Selectors = Annotated[
    tuple[_Text, ...] | dict[_Text, tuple[_Text, ...]],
    Meta(description="a list of CSS selectors, or a dict of such lists by host"),
]


@dataclass(frozen=True)
class Config:
    """The settings of the plugin; field `x` is the setting `SIMHASH_X`.

    Raises SettingError for a value that is out of its range.

    Attributes:
        store: folder of the store, URL of a server (`redis://...`), or `memory:`. A relative folder
            is below Scrapy's data path: `.scrapy` in the project, or in the current folder where
            there is no project, as under `runspider`. The crawl does not start if the
            project's folder cannot be found, [as under Scrapyd](beside.md#scrapyd), or is on a
            network file system, which would damage the store. If only one machine ever uses it,
            `SIMHASH_ALLOW_NETWORK_STORE=1` in the environment lifts that ban
        action: what happens to a near-duplicate: `drop` drops it; `ignore-outlinks` keeps its items
            and drops its requests; `flag` only flags it
        scope: which pages are compared: all (`global`); those of one `site` (registrable domain),
            `host` or `language`; or those for which a function, named by its import path, returns
            the same name. See [scopes](scope.md)
        across_spiders: `True` also drops a page for one that another spider got in a callback of
            the same name, see [several spiders](dropping.md#several-spiders-on-one-store)
        incremental: `True` also drops a page for one that an earlier crawl got, for crawls that
            fetch only what is new. By default each crawl is complete by itself: the first copy of
            a page that only earlier crawls got is kept
        never_drop: regular expressions; a page is not judged if its URL matches one (reason
            `never_drop`)
        ignore: CSS selectors of elements that are no text of a page, such as counters: a list, or a
            dict of lists by host (without port; `www.` makes no difference). Their links count. See
            [what changes by itself](dropping.md#leave-out-what-you-name)
        rule: (advanced) `words` compares pages [word by word](design.md#the-rule); with `plain` the
            distance between the fingerprints of their main texts alone decides, as in the paper
        refetch: pages that are asked for once more, 0 to 1,000 for each host and crawl, to see
            [what changes by itself](dropping.md#what-changes-by-itself); twice as many are checks
            at most. 0 asks for none, and nothing is left out
        unchanged: `drop` drops the items of a page that an earlier visit got and that shows nothing
            new since, and follows its links: for crawls that bring only what is new. See
            [pages fetched again](running.md#pages-fetched-again)
        follow_new_links: follow the links of a near-duplicate if at least half of them are on no
            page that was kept. See [links of dropped pages](dropping.md#links-of-dropped-pages)
        processes: processes that judge pages, 0 to 64, each those of its hosts; 0 judges them in
            Scrapy's own, for debugging: a page that hangs holds the crawl then. A store of
            `memory:` needs 1 or 0
        hand_over_text: put the main text of each page that reaches the spider into
            `response.meta["simhash_text"]`: `True` is the same as `turbohtml`; others are
            `html2txt` (all visible text), and the import path of a
            function from HTML to text. See [the main text](running.md#get-the-main-text)
        log: path of the decision log; a relative one is below the project's folder, or below the
            current folder without a project. `None` writes no log
        readonly: judge pages by what is in the store, whichever crawl got it, and write nothing;
            for test runs. Copies that are new in this crawl are not found
        enabled: `False` switches both middlewares off
        distance: (advanced) bits, of 64, in which the fingerprints of two candidates differ at
            most: 0 to 7 with the default tables; 0 to 4 with designs 10, 16 and 20, where the
            default is lowered to that. Pages with rare triples of words in common, and pages of
            one host that share a part of a title or heading, are candidates, too, however many
            bits apart. With `SIMHASH_RULE = "plain"` they are not, and the default is 3
        tables: (advanced) the [table design](#table-designs): `auto`, 4, 10, 16, 20, `"m:k"`, or
            `"4+2"`. `auto` keeps the design of an existing store, and makes 4 tables in a new one
    """

    store: Annotated[str, Meta(min_length=1, description="a folder or URL")] = "simhash"
    action: Literal["drop", "ignore-outlinks", "flag"] = "drop"
    scope: _Text = "global"
    across_spiders: _Flag = False
    incremental: _Flag = False
    never_drop: _Patterns = ()
    ignore: _Selectors = ()
    rule: RuleName = "words"
    refetch: Annotated[int, Meta(ge=0, le=1_000, description="0 to 1,000 requests")] = 10
    unchanged: Literal["pass", "drop"] = "pass"
    follow_new_links: _Flag = False
    # Two judges keep 1 to 7 % of the copies on other hosts twice; more than any machine has cores
    # are a mistake.
    processes: Annotated[int, Meta(ge=0, le=64, description="0 to 64 processes")] = 1
    hand_over_text: Annotated[
        bool | _Text, Meta(description="True or False, or the name of a reader")
    ] = False
    log: Annotated[str | None, Meta(description="a path, or None")] = DEFAULT_LOG
    readonly: _Flag = False
    enabled: _Flag = True
    distance: Annotated[
        int, Meta(ge=UNSET_DISTANCE, description="a whole number, 0 or more bits")
    ] = UNSET_DISTANCE
    tables: str = "auto"

    def __post_init__(self) -> None:
        for option in fields(self):
            value = _read(option.name, getattr(self, option.name))
            object.__setattr__(self, option.name, value)
        for pattern in self.never_drop:
            try:
                re.compile(pattern)
            except re.error as error:
                raise SettingError(
                    f"SIMHASH_NEVER_DROP: {pattern!r} is not a regular expression ({error}); "
                    "escape characters with a special meaning, such as '\\?'"
                ) from None
        if isinstance(self.ignore, dict):
            by_host: dict[str, tuple[str, ...]] = dict.fromkeys(map(_read_host, self.ignore), ())
            for host, given in self.ignore.items():
                by_host[_read_host(host)] += given  # with "www.", too
            object.__setattr__(self, "ignore", by_host)
        _check_selectors(self.ignore)
        self._check_distance()

    @property
    def distance_to_open(self) -> int | None:
        """The distance for opening the store; None for the default, as far as it reaches."""
        # A store that was seeded with another design may reach less than the default.
        automatic = self.tables == "auto" and self.distance == DEFAULT_DISTANCE_BITS[self.rule]
        return None if automatic else self.distance

    @property
    def text_reader(self) -> str:
        """The reader of the text that is handed over; "" if none is."""
        return OUR_READER if self.hand_over_text is True else self.hand_over_text or ""

    @property
    def chosen_rule(self) -> Rule:
        """The rule that decides whether two pages are near-duplicates."""
        return Rule(self.distance, self.rule)

    def _check_distance(self) -> None:
        from scrapy_simhash.tables import DEFAULT_DESIGN, parse_design  # noqa: PLC0415 - few

        automatic = self.tables == "auto"
        try:
            # `auto` makes four tables in a new store.
            complete = parse_design(DEFAULT_DESIGN if automatic else self.tables).reach_bits
        except ValueError as error:
            raise SettingError(f"SIMHASH_TABLES: {error}") from None
        if self.distance == UNSET_DISTANCE:
            object.__setattr__(self, "distance", min(DEFAULT_DISTANCE_BITS[self.rule], complete))
        if self.distance > complete:
            hint = "; or name a design for it, as 'm:k' or '4+2', in SIMHASH_TABLES"
            raise SettingError(
                f"SIMHASH_DISTANCE = {self.distance}: must be 0 to {complete} bits with "
                f"SIMHASH_TABLES = {self.tables!r}{hint * automatic}"
            )


_TYPES = get_type_hints(Config, include_extras=True)


def _read(name: str, value: Any) -> Any:
    """Read the value of a field, which may be text (`-s SIMHASH_DISTANCE=2`)."""
    kind = _TYPES[name]
    admitted = get_args(kind)
    given = value
    if name == "tables" or isinstance(value, os.PathLike):
        given = str(value)
    elif name == "never_drop" and isinstance(value, str):
        given = (value,)  # one pattern, because a comma may be part of it
    elif name == "ignore":
        given = _list_selectors(value)
    elif name == "hand_over_text" and str(value).lower() in ("true", "false", "1", "0"):
        given = str(value).lower() in ("true", "1")
    elif value in ("", "None", "none") and type(None) in get_args(admitted[0]):
        given = None
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError:
        described = getattr(kind, "__metadata__", ())
        allowed = described[0].description if described else " or ".join(map(repr, admitted))
        raise SettingError(f"SIMHASH_{name.upper()} = {value!r}: must be {allowed}") from None


def _list_selectors(value: Any) -> Any:
    """Make a list of one selector that is given as text; of one of a host, too."""
    if isinstance(value, dict):
        return {host: _list_selectors(given) for host, given in value.items()}
    return (value,) if isinstance(value, str) else value


def _read_host(name: str) -> str:
    """Read the host that selectors are for."""
    host = host_of(f"http://{name}/")
    if "*" in name or not name.isascii() or host != name.lower().removeprefix("www."):
        raise SettingError(
            f"SIMHASH_IGNORE: {name!r} is no host; name one as addresses have it, without scheme, "
            "port and path, such as 'shop.example'"
        )
    return host


def _check_selectors(ignore: tuple[str, ...] | dict[str, tuple[str, ...]]) -> None:
    if not ignore:
        return
    from turbohtml import parse  # noqa: PLC0415 - takes 80 ms, and few need it

    page, given = parse(""), ignore.values() if isinstance(ignore, dict) else [ignore]
    for selector in chain.from_iterable(given):
        try:
            selector.encode()  # else it cannot be sent to a judge
            page.select(selector)
        except ValueError as error:
            raise SettingError(
                f"SIMHASH_IGNORE: {selector!r} is not a CSS selector ({error}); name elements, "
                "such as '.stock' or 'div#counter'"
            ) from None


def read_config(settings: Mapping[str, Any]) -> Config:
    """Read the settings; values given as text (`-s SIMHASH_DISTANCE=2`) are converted."""
    names = {f"SIMHASH_{option.name.upper()}": option.name for option in fields(Config)}
    for name in map(str, settings):
        if name.startswith("SIMHASH_") and name not in names:
            near = get_close_matches(name, names, 1, _ALIKE)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise SettingError(f"{name}: there is no such setting{hint}")
    config = Config(**{names[name]: settings[name] for name in names if name in settings})
    if str(settings.get("SIMHASH_DISTANCE")) == str(UNSET_DISTANCE):
        raise SettingError(f"SIMHASH_DISTANCE = {UNSET_DISTANCE}: must be 0 or more bits")
    return config
