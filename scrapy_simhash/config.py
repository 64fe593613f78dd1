"""All settings in one place: names, defaults, ranges, units; and the function that reads them."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from scrapy_simhash.permutation import parse_design
from scrapy_simhash.recipe import DEFAULT_EXTRACTOR, DEFAULT_FEATURES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# More than any machine has cores; a larger number is a mistake that would fill the memory.
_MOST_WORKERS = 1_024
# On the labelled pairs of 18 sources, pages with fewer distinct word pairs gave three of the seven
# wrong matches within 3 bits and not one right one.
MIN_FEATURES = 32
ACTIONS = ("drop", "ignore-outlinks", "flag")
LOG_IN_STORE = "log.jsonl"
DEFAULT_LOG = f"<store>/{LOG_IN_STORE}"


class SettingError(ValueError):
    """A setting has a value it cannot have; the message names setting, value and range."""


def _default_workers() -> int:
    return max(1, (os.cpu_count() or 1) - 1)


@dataclass(frozen=True)
class Config:
    """The settings of the plugin; field `x` is the setting `SIMHASH_X`.

    Attributes:
        enabled: False switches both middlewares off.
        store: folder (relative ones under Scrapy's data path) or URL of the store.
        action: what happens to a near-duplicate: `drop`, `ignore-outlinks` or `flag`.
        distance: k, in bits; 0 up to what the table design is complete for.
        tables: table design: `auto`, 4, 10, 16, 20, or blocks and distance as "m:k".
        extractor: name or import path of the main-text extractor.
        features: name or import path of the feature set.
        min_features: pages with fewer distinct features are not judged; 1 or more.
        scope: only pages of one scope are compared: `global`, `site`, `host`, or the import path
            of a function from URL and `PageFingerprint` to a name.
        workers: processes for extraction; 0 extracts on the event loop, for debugging.
        page_timeout: seconds one page may take in a worker, above 0.
        max_bytes: larger bodies are not judged; 1 or more.
        keep_text: keep main texts in the store, for `explain`.
        log: path of the decision log; None writes none. Unset: `log.jsonl` in the store's folder.
        readonly: judge, but write nothing to the store.
    """

    enabled: bool = True
    store: str = "simhash"
    action: str = "drop"
    distance: int = 3
    tables: str = "auto"
    extractor: str = DEFAULT_EXTRACTOR
    features: str = DEFAULT_FEATURES
    min_features: int = MIN_FEATURES
    scope: str = "global"
    workers: int = _default_workers()
    page_timeout: float = 5.0
    max_bytes: int = 4 * 2**20
    keep_text: bool = False
    log: str | None = DEFAULT_LOG
    readonly: bool = False

    def __post_init__(self) -> None:
        _require("STORE", self.store, bool(self.store), "a folder or URL")
        _require("ACTION", self.action, self.action in ACTIONS, " or ".join(map(repr, ACTIONS)))
        _require("MIN_FEATURES", self.min_features, self.min_features >= 1, "1 or more")
        _require("WORKERS", self.workers, 0 <= self.workers <= _MOST_WORKERS, "0 to 1024 processes")
        _require("PAGE_TIMEOUT", self.page_timeout, self.page_timeout > 0, "above 0 seconds")
        _require("MAX_BYTES", self.max_bytes, self.max_bytes >= 1, "1 byte or more")
        self._check_distance()

    def _check_distance(self) -> None:
        if self.tables == "auto":
            # Every design that `auto` chooses from is complete for 3 bits.
            complete, hint = 3, "; or name a design for it, as 'm:k', in SIMHASH_TABLES"
        else:
            try:
                complete, hint = parse_design(self.tables).distance_bits, ""
            except ValueError as error:
                raise SettingError(f"SIMHASH_TABLES: {error}") from None
        _require(
            "DISTANCE",
            self.distance,
            0 <= self.distance <= complete,
            f"0 to {complete} bits with SIMHASH_TABLES = {self.tables!r}{hint}",
        )


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
    return Config(**given)


def _convert(name: str, value: Any, kind: str) -> Any:
    readers: dict[str, Callable[[Any], Any]] = {
        "bool": _read_bool,
        "int": _read_int,
        "float": float,
        "str": _read_str,
    }
    if kind == "str | None":
        return None if value in (None, "", "None") else str(value)
    try:
        return readers[kind](value)
    except (TypeError, ValueError, OverflowError):  # int(float('inf')) overflows
        wanted = {"bool": "True or False", "int": "a whole number", "float": "a number"}
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


def _read_str(value: Any) -> str:
    if value is None or isinstance(value, bool):
        raise TypeError(value)
    return str(value)
