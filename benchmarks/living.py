"""Sites whose answers vary by themselves, each address with the truth: its document and its kind.

`SITES` has the maker of each site by its name. All words are made up. What a page answers depends
on its address and on the number of the answer alone, counted on its site from 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable
from functools import partial
from itertools import accumulate, product
from random import Random
from typing import NamedTuple

Make = Callable[[Random, int], "Answer | str"]  # of an answer's own chance, and its number
# What becomes of an answer, by its URL, body, number, and how often it was asked for before.
Change = Callable[[str, str, int, int], "Answer | str"]
HTML = "text/html; charset=utf-8"
_COMMON = re.findall(
    r"\w+", "the of and to a in is it for on with as that by this are be from or at"
)


def draw(*of: object) -> Random:
    """Return the chance that belongs to these values, each time the same."""
    return Random(repr(of))  # noqa: S311 - repeatable, no secret


_SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]
_ENDS = ("", "ner", "ling", "ted", "ly", "ness")
_ALL = [a + b + c for a in _SYLLABLES for b in _SYLLABLES for c in _ENDS]
WORDS = draw("words").sample(_ALL, 2500)
# Two words of five are common ones, one a word that is said often, the more the nearer the front.
_RARE = [0.3 / len(WORDS) + 0.3 * (i**-0.55 - (i + 1) ** -0.55) for i in range(1, len(WORDS) + 1)]
_WEIGHTS = [*accumulate([0.4 / len(_COMMON)] * len(_COMMON) + _RARE)]


def say(count: int, *of: object) -> str:
    """Return so many sentences."""
    chance = draw(*of)
    spoken = (
        chance.choices(_COMMON + WORDS, cum_weights=_WEIGHTS, k=chance.randint(8, 18))
        for _ in range(count)
    )
    return " ".join(" ".join(words).capitalize() + "." for words in spoken)


def tell(count: int, *of: object) -> str:
    """Return so many paragraphs of four sentences."""
    return "".join(f"<p>{say(4, number, *of)}</p>" for number in range(count))


def name(count: int, *of: object) -> str:
    """Return a title of so many words."""
    return " ".join(draw("name", *of).choices(WORDS, k=count)).capitalize()


def slug(text: str) -> str:
    """Return a title as a part of an address."""
    return text.lower().replace(" ", "-")


def page(title: str, body: str) -> str:
    """Return a page."""
    head = f"<head><meta charset=utf-8><title>{title}</title></head>"
    return f"<!doctype html><html lang=en>{head}<body>{body}</body></html>"


def _list(lines: Iterable[str], of: str = "links") -> str:
    return f"<ul class={of}>{''.join(f'<li>{line}</li>' for line in lines)}</ul>"


def _clock(chance: Random) -> str:
    return f"{chance.randint(0, 23)}:{chance.randint(10, 59)}"


class Answer(NamedTuple):
    """What a site answers; another address where the status sends to one."""

    body: str | bytes
    status: int = 200
    content_type: str = HTML
    location: str = ""


class Page(NamedTuple):
    """An address: which document it shows, what kind of page it is, and how an answer is made."""

    document: Hashable
    kind: str
    make: Make


class Site:
    """Pages of one host by URL.

    Attributes:
        change: of each answer, if any.
        first: the kind of pages to be asked for before all others.
    """

    def __init__(self, name: str) -> None:
        self.name, self.host = name, f"http://{name.replace('/', '-')}.example"
        self.pages: dict[str, Page] = {}
        self.change: Change | None = None
        self.first = ""

    def add(self, path: str, document: Hashable, kind: str, make: Make) -> None:
        """Add a page."""
        self.pages[self.host + path] = Page(document, kind, make)

    def copy(self, path: str, queries: Iterable[str], kind: str) -> None:
        """Add copies of a page that differ in the query."""
        document, _, make = self.pages[self.host + path]
        for query in queries:
            self.add(f"{path}{'&' if '?' in path else '?'}{query}", document, kind, make)

    def fetch(self, url: str, number: int) -> Answer | str:
        """Return the answer with a number, as the page makes it."""
        return self.pages[url].make(draw(self.name, url, number), number)

    def answer(self, url: str, number: int, again: int) -> Answer:
        """Return the answer with a number to a URL that was asked for so often before."""
        if url not in self.pages:
            return Answer(page("Moved", tell(3, "moved")), 200 if url.endswith("/moved") else 404)
        body = self.fetch(url, number)
        if self.change and isinstance(body, str):
            body = self.change(url, body, number, again)
        return body if isinstance(body, Answer) else Answer(body)


def make_shop(name_: str, style: str = "class", sentences: int = 6) -> Site:
    """Make products with a price, counters and what others bought; lists; parts of fields alone."""
    site, things = Site(name_), ("lamp", "chair", "kettle", "shelf", "clock", "blanket")
    names = [f"{name(2, name_, i)} {things[i % 6]}" for i in range(90)]
    cats = "".join(f"<a href=/c/{k}>{name(1, name_, 'c', k)}</a> " for k in range(8))
    prices = [19 + i * 37 % 180 for i in range(90)]

    def show_class(number: int, found: re.Match[str]) -> str:
        letters = draw(found[1], number // 150).choices("abcdefghijkmnopqrstABCDEFG", k=6)
        return {"class": found[0], "css": f" class={''.join(letters)}"}.get(style, "")

    def frame(title: str, main: str, chance: Random, number: int) -> str:
        body = (
            "<header class=top><a href=/>Home</a> <a href=/about>About us</a> <span class=cart>"
            f"Cart: {chance.randint(0, 3)} items</span></header><nav class=cats>{cats}</nav><main>"
            f"<h1>{title}</h1>{main}</main><footer class=foot><p>Free delivery from 50 euros. "
            f"{say(3, name_, 'foot')}</p><p class=gen>Page made in 0.{chance.randint(100, 999)} s."
            "</p></footer>"
        )
        styled = re.sub(r" class=(\w+)", partial(show_class, number), body)
        return page(f"{title} - Hearth shop", styled)

    def show_cards(products: Iterable[int]) -> str:
        links = (f"<a href=/p/{i}>{names[i]}</a> <b>{prices[i]}.00 euros</b>" for i in products)
        return _list(links, "cards")

    def show(i: int, chance: Random, number: int, more: int = 0, colour: str = "") -> str:
        part, left, people = i % 10 == 9, chance.randint(2, 60), chance.randint(3, 40)
        width, weight, material = i * 7 % 150 + 20, i * 13 % 90 + 3, WORDS[i * 3 % 50]
        main = (
            f"<p class=price>{prices[i] + more}.00 euros</p>{colour}<p class=stock>Only {left} left"
            f" in stock, {people} people look at this now.</p><p>"
            f"{say(sentences, name_, 'part' if part else i)}</p><table><tr><td>Weight<td>{weight} "
            f"kg<tr><td>Width<td>{width} cm<tr><td>Material<td>{material}</table>"
            f"<h2>Customers also bought</h2>{show_cards(chance.sample(range(90), 5))}"
        )
        return frame("Spare part" if part else names[i], main, chance, number)

    def show_list(products: list[int], k: int, at: int, chance: Random, number: int) -> str:
        cards = show_cards(products[at * 5 - 5 : at * 5])
        main = f"<p>{say(3, name_, 'list', k)}</p>{cards}<p>{len(products)} products</p>"
        return frame(name(1, name_, "c", k), main, chance, number)

    for i in range(90):
        kind = "part: price and fields" if i % 10 == 9 else "product"
        path = f"/p/{'part' if i % 10 == 9 else slug(names[i])}-{i}"
        site.add(path, ("p", i), kind, partial(show, i))
        site.copy(path, ("ref=also", "utm=mail", "size=small"), "tracked copy")
        if i % 3 == 0:
            large = partial(show, i, more=20)
            site.add(f"{path}?size=large", ("p", i, "large"), "variant: price", large)
        for colour in ("red", "blue", "green", "black") if i % 5 == 1 else ():
            coloured = partial(show, i, colour=f"<p>Colour: {colour}</p>")
            site.add(f"{path}/{colour}", ("p", i, colour), "variant: colour", coloured)
    for k, at in product(range(8), (1, 2)):
        products, path = list(range(k, 90, 8)), f"/c/{k}?page={at}"
        plain = partial(show_list, products, k, at)
        cheap = partial(show_list, sorted(products, key=prices.__getitem__), k, at)
        site.add(path if at > 1 else f"/c/{k}", ("c", k, at), "list", plain)
        site.add(f"{path}&sid={k}a{at}f3", ("c", k, at), "list copy", plain)
        site.add(f"{path}&sort=price", ("c", k, at, "by price"), "sorted list", cheap)
    return site


def make_news(name_: str, *, fixed: bool = True) -> Site:
    """Make articles with advertisements, the most read, a clock; print views, AMP and tags."""
    site, titles = Site(name_), [name(5, name_, i) for i in range(80)]

    def frame(title: str, main: str, chance: Random) -> str:
        most, now = _list(chance.sample(titles, 5), "most"), _clock(chance)
        body = (
            "<header><a href=/>Gazette</a></header><nav><a href=/s/world>World</a> <a href=/s/town>"
            f"Town</a> <a href=/s/sport>Sport</a></nav><main><h1>{title}</h1>{main}</main><aside>"
            f"<h3>Most read</h3>{most}</aside><footer><p>Contact. Imprint. {say(2, name_)}</p>"
            f"<p>Generated at {now}:{chance.randint(10, 59)}</p></footer>"
        )
        return page(f"{title} - Gazette", body)

    def show(i: int, chance: Random, _: int, view: str = "") -> str:
        texts = [f"<p>{say(3, name_, i, k)}</p>" for k in range(5)]
        if view == "print":
            texts = [f"<h1>{titles[i]}</h1>", *texts, f"<hr><p>Printed at {_clock(chance)}</p>"]
            return page(f"{titles[i]} - Gazette", "".join(texts))
        above, below = (f"<p class=ad>{say(1, 'ad', chance.randint(1, 400))}</p>" for _ in "ab")
        texts.insert(chance.randint(1, 4), "" if fixed else above)
        if view == "amp":
            texts = [
                "<a href=/>Gazette</a>",
                f"<h1>{titles[i]}</h1>",
                *texts,
                "<p>Full version</p>",
            ]
            return page(f"{titles[i]} - Gazette", "".join(texts))
        counts = chance.randint(0, 90), chance.randint(3, 900)
        texts.append("<p class=meta>{} comments, shared {} times</p>".format(*counts))
        main = "".join([above, *texts, below] if fixed else texts)
        return frame(titles[i], main, chance)

    def show_tag(k: int, chance: Random, _: int) -> str:
        links = _list(f"{titles[j]} {say(1, name_, j, 0)}" for j in range(k, 80, 11))
        return frame(f"Tag {WORDS[300 + k]}", links, chance)

    for i, title in enumerate(titles):
        path, printed = f"/n/{slug(title)}", partial(show, i, view="print")
        site.add(path, i, "article", partial(show, i))
        printed_path = f"{path}?print=1" if i % 2 else f"/print{path}"
        site.add(printed_path, i, f"print view, {'query' if i % 2 else 'folder'}", printed)
        if i % 3 == 0:
            site.add(f"{path}/amp", i, "amp", partial(show, i, view="amp"))
        site.copy(path, ["utm=feed"] * (i % 3 == 1), "tracked copy")
    for k in range(10):
        site.add(f"/tag/{WORDS[300 + k]}", ("tag", k), "tag list", partial(show_tag, k))
    return site


def make_forum(name_: str, threads: int, *, bell: bool) -> Site:
    """Make threads by page and by post, session ids, counters, similar topics and a login wall."""
    site, titles = Site(name_), [name(4, name_, i) for i in range(threads)]

    def frame(title: str, main: str, chance: Random) -> str:
        sid, rings = f"{chance.getrandbits(64):x}", bell and chance.random() < 0.8
        body = (
            f'<div id=top><a href="/?sid={sid}">Board</a> <a href="/login?sid={sid}">Log in</a>'
            f"</div><div id=wrap>{main}</div><div id=foot><p>{chance.randint(20, 400)} guests and "
            f"{chance.randint(2, 40)} members are online. All times are UTC. It is now "
            f"{_clock(chance)}.</p><p>{say(2, name_)}</p></div>"
        )
        return page(f"({chance.randint(1, 30)}) " * rings + f"{title} - Tinkers forum", body)

    def show(i: int, at: int, chance: Random, number: int) -> str:
        main = f"<h1>{titles[i]}</h1>"
        for k in range(at * 6 - 6, min((4, 9, 14)[i % 3], at * 6)):
            own = draw(name_, i, k)
            link = f"<b>member{own.randint(1, 60)}</b> <a href=/post/{i * 20 + k}>#{k + 1}</a>"
            main += f"<div class=post>{link}<p>{say(own.randint(1, 6), name_, i, k)}</p></div>"
        main += f"<p class=views>Seen {1000 + number} times</p><h2>Similar topics</h2>"
        main += _list(chance.sample(titles, 5), "similar")
        return frame(titles[i] + f" - page {at}" * (at > 1), main, chance)

    def show_wall(chance: Random, _: int) -> str:
        return frame("Log in", LOGIN, chance)

    for i, title in enumerate(titles):
        posts = (4, 9, 14)[i % 3]
        for at in range(1, (posts + 5) // 6 + 1):
            path = f"/t/{i}-{slug(title)}" + f"?page={at}" * (at > 1)
            site.add(path, (i, at), "thread", partial(show, i, at))
            site.copy(path, [f"sid={draw(name_, i, at).getrandbits(64):x}"], "session copy")
        for k in range(0, posts, 2):
            site.add(
                f"/post/{i * 20 + k}", (i, k // 6 + 1), "permalink", partial(show, i, k // 6 + 1)
            )
    for member in range(60):
        site.add(f"/member/{member}", "login", "login wall", show_wall)
    return site


LOGIN = """<h1>Log in</h1><p>You must be logged in to see this page. Please type in your name and
your password, or register if you are new here. Registration is free, takes a minute, and lets you
see the profiles of other members.</p>"""
LINKS = "<nav><a href=/>Home</a> <a href=/parts>Parts</a></nav>"


def _add_articles(site: Site, count: int, foot: str) -> None:
    """Add articles whose foot has a number wherever it says `{}`."""

    def show(title: str, i: int, chance: Random, _: int) -> str:
        end = f"<footer><p>{foot.format(chance.randint(2, 99))}</p></footer>"
        main = f"<main><h1>{title}</h1>{tell(4, site.name, 'article', i)}</main>"
        return page(f"{title} - Works", LINKS + main + end)

    for i in range(count):
        title = name(4, site.name, "article", i)
        site.add(f"/news/{slug(title)}", ("article", i), "article", partial(show, title, i))


def make_board(name_: str, records: int, where: str = "main", *, views: bool = True) -> Site:
    """Make records whose data stand somewhere, with counters there, too; a third have a copy."""
    site, text = Site(name_), f"<h1>Spare part</h1>{tell(3, 'template')}"

    def show(i: int, chance: Random, _: int) -> str:
        own = draw(name_, i)
        number, town = own.randint(1000, 9999), WORDS[own.randint(0, 60)]
        data = (
            f"<table><tr><td>Length<td>{own.randint(10, 99)} mm<tr><td>Bore<td>{own.randint(2, 40)}"
            f" mm<tr><td>Town<td>{town}<tr><td>State<td>{own.choice(['new', 'used', 'broken'])}"
            f"<tr><td>Number<td>{number}</table>"
        )
        times, people = chance.randint(10, 9000), chance.randint(1, 50)
        seen = f"<p>This entry was seen {times} times, {people} people watch it.</p>" * views
        body = {
            "main": f"<main>{text}{data}{seen}</main>",
            "div": f"<div>{text}</div><div class=data>{data}</div><div class=data>{seen}</div>",
            "same": f"<main>{text}</main><div class=data><p>{number} {town}</p>{seen}</div>",
        }.get(where, f"<main>{text}</main><{where}>{data}{seen}</{where}>")
        return page("Spare part - Works", LINKS + body)

    _add_articles(site, 12, "{} people read this." * views)
    for i in range(records):
        site.add(path := f"/part/{WORDS[i]}", ("record", i), "record", partial(show, i))
        site.copy(path, [f"sid={draw(i).getrandbits(48):x}"] * (i % 3 == 0), "session copy")
    return site


def make_walls(name_: str, title: str, text: str) -> Site:
    """Make articles, and a wall at forty unlike addresses, each time with other values in it."""
    site = Site(name_)

    def show(path: str, chance: Random, number: int) -> str:
        values = {
            "url": site.host + path,
            "stamp": 1790000000 + number,
            "one": chance.randint(1, 9),
        }
        values |= {"id": f"{chance.getrandbits(64):016x}", "hex": f"{chance.getrandbits(24):x}"}
        return page(title, text.format(**values, count=chance.randint(100, 250)))

    _add_articles(site, 25, "Imprint. Privacy.")
    for i in range(40):
        path = f"/{('p', 'c', 'shop', 'x', 'new')[i % 5]}/{slug(name(2, name_, 'wall', i))}"
        site.add(path, "wall", "wall", partial(show, path))
    return site


_RAY = """<h1>gazette.example</h1><h2>Checking whether you are a person. This may take some
seconds.</h2><p>The site has to look at the safety of your connection before it goes on. Please
switch on scripts and cookies, then wait until this page goes away by itself.</p><p>Ray id: {id}</p>
<p>Your address: 203.0.113.{count}</p>"""
_DENY = """<h1>Access denied</h1><p>You have no permission to open "{url}" on this server.</p>
<p>Reference #18.{hex}.{stamp}.{id}</p>"""
_CAPTCHA = """<h1>Robot check</h1><p>Type the letters that you see in this picture.</p><form>
<img src="/captcha/Captcha_{id}.jpg"><input name=f></form><p>Server {one}, {count} ms</p>"""


def make_live(name_: str) -> Site:
    """Make a front page that moves with each answer, at six addresses, and articles."""
    site, heads = Site(name_), [name(6, name_, i) for i in range(500)]
    top, end = "<header><a href=/>Ticker</a></header>", f"<footer>{say(3, name_)}</footer>"

    def show_front(_: Random, number: int) -> str:
        numbers = range(number, number + 25)
        lines = (f"{heads[j % 500]} {j % 60} minutes ago. {say(1, name_, j)}" for j in numbers)
        return page("Live - Ticker", f"{top}<main><h1>Live</h1>{_list(lines)}</main>{end}")

    def show(i: int, _: Random, number: int) -> str:
        main = f"<h1>{heads[i]}</h1><p>{say(1, name_, i)}</p>{tell(3, name_, 'text', i)}"
        aside = _list(heads[j % 500] for j in range(number, number + 8))
        return page(f"{heads[i]} - Ticker", f"{top}<main>{main}</main><aside>{aside}</aside>{end}")

    for path in ("/", "/index.html", "/live", "/?utm=a", "/?utm=b", "/live?x=1"):
        site.add(path, "front", "front page", show_front)
    for i in range(60):
        site.add(path := f"/e/{slug(heads[i])}", i, "article", partial(show, i))
        site.copy(path, ["ref=live"] * (i % 2), "tracked copy")
    return site


def _make_copied(name_: str, count: int, copies: int, show: Callable[..., str]) -> Site:
    """Make pages with so many copies each, by their titles and numbers."""
    site, titles = Site(name_), [name(4, name_, i) for i in range(count)]
    for i, title in enumerate(titles):
        site.add(path := f"/a/{slug(title)}", i, "article", partial(show, titles, i))
        site.copy(path, [f"x={number}" for number in range(copies)], "copy")
    return site


def _show_hostile(titles: list[str], i: int, chance: Random, _: int) -> str:
    some = ["".join(chance.choices("abcdefghijk", k=6)) for _ in range(20)]
    texts = [f"<p>{say(2, 'own', i, k)}</p><p>{some.pop()} {some.pop()}</p>" for k in range(5)]
    noise = [f"<p>{say(n, 'noise', chance.random())}</p>" for n in (3, 2)]
    parts = (f"<div class={some.pop()}>{text}</div>" for text in (noise[0], *texts, noise[1]))
    return page(titles[i], "".join(parts))


def _show_frames(titles: list[str], i: int, chance: Random, _: int) -> str:
    foot, links = say(2, "frames"), "<a href=/>Home</a> <a href=/w>Offers</a>"
    if chance.random() < 0.5:
        foot = f"New look: tell us what you think of it. {foot}"
        links = "<a href=/>Start</a> <a href=/w>What is new this week</a>"
    fields = f"<td>Price<td>{20 + i * 3 % 70} euros<tr><td>Code<td>{1000 + i * 7}"
    main = f"<h1>{titles[i]}</h1>{tell(4, 'frames', i)}<table><tr>{fields}</table>"
    main += f"<h2>Picked for you</h2>{_list(chance.sample(titles, 4))}"
    body = f"<nav>{links}</nav><main>{main}</main><footer><p>{foot}</p></footer>"
    return page(f"{titles[i]} | Store", body)


def _show_slow(titles: list[str], i: int, _: Random, number: int) -> str:
    now = draw("slow", number // 60)
    aside = f"<h3>Most read</h3>{_list(now.sample(titles, 5))}<h3>Weather</h3>"
    aside += f"<p>{now.choice(['rain', 'sun', 'fog', 'snow'])} and {now.randint(1, 30)} degrees</p>"
    foot = f"Today is {now.randint(1, 28)} May, {now.randint(100, 999)} visitors so far."
    main = f"<main><h1>{titles[i]}</h1>{tell(4, 'slow', i)}</main><aside>{aside}</aside>"
    return page(f"{titles[i]} - Daily", f"{LINKS}{main}<footer><p>{foot}</p></footer>")


def _make_card(title: str, form: str) -> str:
    """Make the card of another page: its title, and parts that many cards have."""
    chance = draw("card", title)
    price, place = f"{chance.randint(2, 30) * 10} euros", chance.choice(["Rome", "Oslo", "Bern"])
    teaser = say(1, "teaser", title)
    if form == "div":
        return f"<div><h3>{title}</h3><p>{teaser}</p><div>{price}</div><div>{place}</div></div>"
    return f"<li><div>{title}</div><div>{price}</div><div>{place}</div></li>"


def _show_cards(form: str, titles: list[str], i: int, chance: Random, _: int) -> str:
    cards = "".join(_make_card(each, form) for each in chance.sample(titles, 4))
    more = "".join(f"<div>{_make_card(each, form)}</div>" for each in chance.sample(titles, 3))
    fields = f"<ul><li>Price: {20 + i * 3 % 70} euros<li>Code: {1000 + i * 7}</ul>"
    main = f"<h1>{titles[i]}</h1>{tell(6, 'cards', i)}{fields}"
    side = f"<h2>Similar offers</h2><div>{cards}</div><h2>Seen lately</h2><div>{more}</div>"
    foot = "<footer><p>About us, contact, imprint and all rights reserved.</p></footer>"
    return page(f"{titles[i]} | Portal", f"<main>{main}</main><aside>{side}</aside>{foot}")


SITES: dict[str, Callable[[], Site]] = {
    "shop": partial(make_shop, "shop"),
    "shopnone": partial(make_shop, "shopnone", "none"),
    "shopcss": partial(make_shop, "shopcss", "css"),
    "shoplong": partial(make_shop, "shoplong", sentences=25),
    "news": partial(make_news, "news"),
    "newsgeneric": partial(make_news, "newsgeneric", fixed=False),
    "forum": partial(make_forum, "forum", 40, bell=True),
    "forumnobell": partial(make_forum, "forumnobell", 30, bell=False),
    "board": partial(make_board, "board", 120),
    "aside": partial(make_board, "aside", 60, "aside"),
    "footer": partial(make_board, "footer", 60, "footer"),
    "datadiv": partial(make_board, "datadiv", 60, "div"),
    "sameslot": partial(make_board, "sameslot", 60, "same"),
    "asidestill": partial(make_board, "asidestill", 60, "aside", views=False),
    "wallray": partial(make_walls, "wallray", "Just a moment...", _RAY),
    "walldeny": partial(make_walls, "walldeny", "Access denied", _DENY),
    "wallcaptcha": partial(make_walls, "wallcaptcha", "Robot check", _CAPTCHA),
    "live": partial(make_live, "live"),
    "hostile": partial(_make_copied, "hostile", 50, 1, _show_hostile),
    "abtest": partial(_make_copied, "abtest", 50, 2, _show_frames),
    "cards": partial(_make_copied, "cards", 60, 2, partial(_show_cards, "div")),
    "rows": partial(_make_copied, "rows", 60, 2, partial(_show_cards, "li")),
    "slow": partial(_make_copied, "slow", 60, 2, _show_slow),
}
