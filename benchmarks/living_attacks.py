"""Attacks on who learns what varies by itself: how many records, or other documents, do they lose?

`ATTACKS` has the maker of each site by its name: of pages of an attacker beside records, and of the
sites of `living.py` with answers that become others when an address is asked for once more.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from living import HTML, LINKS, LOGIN, SITES, WORDS, Answer, Site, draw, name, page, slug, tell

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random


def make_attacked(name_: str, folder: str, copies: int = 1) -> Site:
    """Make 60 records of fields, and 20 pages of an attacker, first, whose fields always vary."""
    site, text = Site(name_), f"<h1>Spare part</h1>{tell(4, 'attacked')}<h2>Data</h2>"

    def show(title: str, seed: int | None, chance: Random, _: int) -> str:
        own = chance if seed is None else draw("attacked", seed)
        data = f"Length {own.randint(10, 999)} mm<tr><td>Town {own.choice(WORDS[:300])}"
        data = f"<table><tr><td>{data}<tr><td>Number {own.randint(1000, 9999)}</table>"
        return page(f"{title} - Works", f"{LINKS}<main>{text}{data}</main>")

    for i in range(60):
        site.add(f"/part/{WORDS[i]}", i, "record", partial(show, "Spare part", i))
    for i in range(20):
        path, made = f"/{folder}/{slug(name(2, name_, i))}", partial(show, f"Spare part {i}", None)
        site.add(path, ("attacker", i), "attacker", made)
        site.copy(path, [f"c={number}" for number in range(1, copies)], "attacker")
    site.first = "attacker"
    return site


def _raise_prices(body: str) -> str:
    pattern = r'(class="?price"?>)(\d+)'
    return re.sub(pattern, lambda price: f"{price[1]}{int(price[2]) + 5}", body)


def _edit(body: str) -> str:
    return body.replace(" the ", " one ", 3).replace("<p>", "<p>Update: ", 1)


def _ban(_: str) -> str:
    text = "Please slow down and come back later, your address was noted."
    return page("Too many requests", f"<h1>Too many requests</h1><p>{text}</p>")


def _sell_out(body: str) -> str:
    title = re.findall("<title>(.*?)</title>", body)[0]
    return page(title, f"<h1>{title}</h1><p>Price on request</p><p>Sorry, sold out.</p>")


def _translate(body: str) -> str:
    """Return a page in a language in which all words are written the other way round."""
    return re.sub(r"[A-Za-z]+(?![^<]*>)", lambda word: word[0][::-1].lower(), body)


def _change_later(site_name: str, change: Callable[[str], Answer | str]) -> Site:
    """Make a site whose answers become others from the second one of an address on."""
    site = SITES[site_name]()
    site.change = lambda _url, body, _number, again: change(body) if again else body
    return site


def _change_once(site_name: str, change: Callable[[str], str]) -> Site:
    """Make a site whose answers become others when half of its pages were answered."""
    site = SITES[site_name]()
    half = len(site.pages) / 2
    site.change = lambda _url, body, number, _again: change(body) if number > half else body
    return site


def _cache(site_name: str) -> Site:
    """Make a site that answers each address with its first body, again and again."""
    site, bodies = SITES[site_name](), dict[str, str]()
    site.change = lambda url, body, _number, _again: bodies.setdefault(url, body)
    return site


ATTACKS: dict[str, Callable[[], Site]] = {
    "attack/own": partial(make_attacked, "own", "user"),
    "attack/shared": partial(make_attacked, "shared", "part"),
    "attack/burn": partial(make_attacked, "burn", "part", 4),
    "attack/prices": partial(_change_later, "shop", _raise_prices),
    "attack/prices-once": partial(_change_once, "shop", _raise_prices),
    "attack/edits": partial(_change_later, "news", _edit),
    "attack/cache": partial(_cache, "shop"),
    "attack/ban": partial(_change_later, "shop", _ban),
    "attack/ban-records": partial(_change_later, "board", _ban),
    "attack/sold-out": partial(_change_later, "shop", _sell_out),
    "attack/scroll": SITES["live"],
    "attack/404": partial(_change_later, "shop", lambda _: Answer("Not found", 404)),
    "attack/redirect": partial(_change_later, "shop", lambda _: Answer("", 302, HTML, "/moved")),
    "attack/login": partial(_change_later, "shop", lambda _: page("Log in", LOGIN)),
    "attack/language": partial(_change_later, "shop", _translate),
}
