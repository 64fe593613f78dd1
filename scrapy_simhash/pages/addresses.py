"""Addresses of pages: even broken ones, cut into what URL rules change, and their places.

A place has the same pages as another one under other addresses: a mirror, print views, sessions.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from os.path import commonprefix
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

import xxhash

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tldextract import TLDExtract

# Longer addresses, and those with more parts, are made by traps; no rule judges them.
MOST_CHARACTERS = 4_096
MOST_PARTS = 128
_MOST_KEPT_CHARACTERS = MOST_CHARACTERS + 64
# As ASP.NET writes sessions into paths: "(S(4tyb0x55))", "(A(x)S(y))", "(X(1))".
SESSION = re.compile(r"\((?:[A-Z]\([^()/]*\))+\)")
INDEX = re.compile(r"(?:index|default|home|welcome|main)\.\w{1,5}", re.IGNORECASE)
_INDEX = re.compile(r"index\.\w{1,5}$", re.IGNORECASE)
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}
# No account: rules must not decide who may see a page. A host is a name, or an IPv6 address.
_URL = re.compile(
    r"(https?)://([^/?#@\\\s\[\]:]+|\[[0-9a-f:.]+\])(:\d{0,5})?([/?#].*)?",
    re.IGNORECASE | re.DOTALL,
)


def split_url(url: str) -> SplitResult | None:
    """Split a URL; return None if it is broken, for instance by an invalid IPv6 address."""
    try:
        return urlsplit(url)
    except ValueError:
        return None


def bound_url(url: str, seed: int) -> str:
    """Cut a URL that only a trap makes: what is left ends with a keyed digest of the whole.

    Cutting twice changes nothing. `parse_address` judges no URL that was cut.
    """
    if len(url) <= _MOST_KEPT_CHARACTERS:
        return url
    digest = xxhash.xxh3_128_hexdigest(url.encode("utf-8", "replace"), seed)
    return f"{url[:MOST_CHARACTERS]}...{digest}"


@lru_cache(maxsize=1_024)
def plain_form(url: str) -> str:
    """Return an address without its scheme, "www.", fragment, index file and last slash, or ""."""
    address = parse_address(url)
    if address is None:
        return ""
    query = "?" + "&".join(address.query) if address.query else ""
    *folders, last = address.path
    path = "/".join(folders if _INDEX.match(last) else address.path)
    return f"{address.host.removeprefix('www.')}/{path.rstrip('/')}{query}"


@lru_cache(maxsize=4_096)  # the host of each candidate is needed several times
def host_of(url: str) -> str:
    """Return the host name of a URL in lower case, without port and "www.", or ""."""
    parts = split_url(url)
    return ((parts and parts.hostname) or "").removeprefix("www.")


def are_of_one_origin(mine: str, theirs: str) -> bool:
    """Return whether two URLs have one scheme, host and port."""
    first, second = split_url(mine), split_url(theirs)
    return bool(first and second and first.netloc and first[:2] == second[:2])


@cache
def _load_suffixes() -> TLDExtract:
    # With the list of public suffixes that ships with tldextract: no download, no cache on disk.
    # Below a private suffix, such as github.io, everybody has a site of their own.
    from tldextract import TLDExtract  # noqa: PLC0415 - it loads requests, and a judge seldom asks

    return TLDExtract(suffix_list_urls=(), cache_dir=None, include_psl_private_domains=True)


@lru_cache(maxsize=10_000)
def find_site(host: str) -> str:
    """Find the site of a host, with or without a port: its registrable domain, or itself.

    An IP address, and a name without a registrable domain, is a site of its own.
    """
    hostname = urlsplit(f"//{host}").hostname or ""
    return _load_suffixes()(hostname).top_domain_under_public_suffix or hostname


def join_url(base: str, link: str) -> str:
    """Make a link absolute; return "" if it or the base is broken."""
    try:
        return urljoin(base, link)
    except ValueError:
        return ""


class Address(NamedTuple):
    """An address in parts, none of them decoded.

    Attributes:
        scheme: `http` or `https`.
        host: lower case, with a port that is not the default.
        path: its segments; the last one is "" where the path ends in a slash.
        query: its parameters, sorted, as `name=value`.
    """

    scheme: str
    host: str
    path: tuple[str, ...]
    query: tuple[str, ...]


@lru_cache(maxsize=1_024)  # of a page it is needed a dozen times, of a request three times
def parse_address(url: str) -> Address | None:
    """Cut an address into parts, without its fragment; return None if no rule may judge it.

    Rules judge no address of another scheme, no broken one, none with an account, and none with
    more than 4,096 characters or 128 segments or parameters.
    """
    matched = _URL.fullmatch(url) if len(url) <= MOST_CHARACTERS else None
    if matched is None:
        return None
    scheme, host, port, rest = matched.groups("")
    scheme, host = scheme.lower(), host.lower()
    if len(port) > 1 and port != _DEFAULT_PORTS[scheme]:
        host += port
    if not host.isascii():
        try:
            host = host.encode("idna").decode()
        except UnicodeError:
            return None
    before, _, after = rest.partition("#")[0].partition("?")
    path = before[1:].split("/")
    # A parameter without a value is the same as one with an empty value.
    query = [pair if "=" in pair else pair + "=" for pair in after.split("&") if pair]
    if len(path) > MOST_PARTS or len(query) > MOST_PARTS:
        return None
    return Address(scheme, host, tuple(path), tuple(sorted(query)))


def split_pair(pair: str) -> tuple[str, str]:
    """Cut a parameter into name and value."""
    name, _, value = pair.partition("=")
    return name, value


# What a server runs or sends under a name, not a part of it.
_ENDING = re.compile(r"\.(?:html?|php|aspx?|jsp|cgi)$", re.IGNORECASE)
_DIGITS = re.compile(r"\d+")
# Of a segment: an identifier, which has letters and digits mixed, or a title of three words.
_WORD = re.compile(r"[^\W_]+")
_MIXED = re.compile(r"\d+[^\W\d_]+\d|[^\W\d_]+\d+[^\W\d_]")
_LEAST_OF_TITLE = 3


@lru_cache(maxsize=4_096)
def last_segment(url: str) -> str:
    """Return the last name in an address, with the query: of two records of a host it differs.

    Nameless are a slash at the end and `index.*`; .html, .htm, .php, .asp, .aspx, .jsp and .cgi are
    no part of a name. An address that `parse_address` does not judge is returned whole.

    >>> last_segment("http://a.example/jobs/x/index.php?id=7"), last_segment("http://a.example/x.html")
    ('x?id=7', 'x')
    """
    address = parse_address(url)
    if address is None:
        return url
    named = (part for part in reversed(address.path) if part and not _INDEX.match(part))
    name = _ENDING.sub("", unquote(next(named, "")))
    return "?".join((name, "&".join(address.query))) if address.query else name


def names_in(address: Address) -> list[str]:
    """List the names in the path of an address: no sessions, no values, no `index.html`."""
    names = [(unquote(part.partition(";")[0]).lower(), part) for part in address.path]
    return [
        name
        for name, part in names
        if name and "=" not in name and not (INDEX.fullmatch(name) or SESSION.fullmatch(part))
    ]


class Places(NamedTuple):
    """What an address has where: addresses of one shape differ in the values of their places.

    Attributes:
        host: of the address.
        names: number of names in its path, whose places come first.
        parameters: names of its parameters.
        values: of all places.
    """

    host: str
    names: int
    parameters: tuple[str, ...]
    values: tuple[str, ...]


def find_places(url: str | None, canonical: str = "") -> Places | None:
    """Find the places of an address; None for an odd one.

    A page's canonical address stands for its own, unless that is a home page; but the host is its
    own, because a page may name any other.

    >>> find_places("http://a.example/b/Fire;sid=1/index.html?x=1")
    Places(host='a.example', names=2, parameters=('x',), values=('b', 'fire', '1'))
    """
    own, address = parse_address(url or ""), parse_address(canonical)
    if own is None:
        return None
    if address is None or address.path == ("",):  # many sites name their home page everywhere
        address = own
    names = names_in(address)
    pairs = [*map(split_pair, address.query)]
    parameters, values = [name for name, _ in pairs], [value for _, value in pairs]
    return Places(own.host, len(names), tuple(parameters), (*names, *values))


@lru_cache(maxsize=1_024)
def form_of(url: str) -> str:
    """Return the form of an address on its host, which all pages of one kind share.

    Numbers, identifiers, titles and the values of parameters are masked. An address that
    `parse_address` does not judge has the form "".

    >>> form_of("http://a.example/jobs/17/senior-cook-in-rome.html?id=5&ref=x")
    'jobs/0/*?id&ref'
    """
    address = parse_address(url)
    if address is None:
        return ""
    names = "/".join(map(_mask, names_in(address)))
    parameters = "&".join(dict.fromkeys(split_pair(pair)[0] for pair in address.query))
    return f"{names}?{parameters}" if parameters else names


_PARAMETER = re.compile(r"[?&;]([^=;?&/#]+)=[^;?&/#]*")


def list_forms(url: str) -> Iterator[tuple[str, str]]:
    """List the parameters of an address, each with the address without it."""
    for found in _PARAMETER.finditer(url) if "=" in url else ():
        begin, end = url[: found.start()], url[found.end() :]
        yield found[1], begin + ("?" + end[1:] if found[0][0] == "?" and end[:1] == "&" else end)


@lru_cache(maxsize=16)  # of a near-duplicate it is needed twice
def find_parameter(url: str, other: str) -> str:
    """Return the name of a parameter in which alone two addresses differ, or "".

    >>> find_parameter("http://a.example/x?sid=1&n=2", "http://a.example/x?sid=3&n=2")
    'sid'
    """
    forms = {form: name for name, form in (*list_forms(url), ("", url))}
    same = (
        name or forms[form]
        for name, form in (("", other), *list_forms(other))
        if form in forms and (name == forms[form] or "" in {name, forms[form]})
    )
    return next(same, "")


def _mask(name: str) -> str:
    words = _WORD.findall(_ENDING.sub("", name))
    if len(words) >= _LEAST_OF_TITLE or any(map(_MIXED.search, words)):
        return "*"
    return _DIGITS.sub("0", name)


def find_move(url: str, original: str) -> tuple[str, str] | None:
    """Find the folders in which two addresses part, absolute; None if they do not, or in the name.

    >>> find_move("http://a.example/mirror/x.html", "http://a.example/x.html")
    ('http://a.example/mirror/', 'http://a.example/')
    """
    first, second = split_url(url), split_url(original)
    if first is None or second is None:
        return None
    ours, theirs = (parts.path.split("/")[1:] for parts in (first, second))
    same = len(commonprefix([ours[::-1], theirs[::-1]]))  # noqa: RUF071 - of segments
    # Two URLs that end in a slash have an empty name in common.
    if not any(ours[len(ours) - same :]) and ours != theirs:
        return None
    place, target = (
        "/".join((f"{parts.scheme}://{parts.netloc}", *names[: len(names) - same], ""))
        for parts, names in ((first, ours), (second, theirs))
    )
    return None if place == target else (place, target)
