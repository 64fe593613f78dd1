"""Make the fingerprint and measures of a page: what a judge does with each."""

import re
import time
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import xxhash
from numpy.typing import NDArray

from scrapy_simhash.pages.addresses import MOST_CHARACTERS, host_of, join_url
from scrapy_simhash.pages.facts import (
    Facts,
    PageFingerprint,
    PageLinks,
    Recipe,
    Wording,
    pack,
)
from scrapy_simhash.pages.features import (
    SKETCH_WINDOW,
    HashedText,
    hash_shingles,
    locate,
    normalise,
    read_both,
    read_words,
    simhash,
    sketch_text,
    weigh_features,
)
from scrapy_simhash.pages.turbohtml_reader import PageText, check_legible, decode, read

# Browsers and servers refuse longer addresses, and every record holds one.
_LONGEST_ADDRESS = 2_048
_MOST_VALUES = 8  # of parameters of an address


def read_page(body: bytes, encoding: str | None, ignore: Sequence[str] = ()) -> PageText:
    """Read texts and names of a page from its decompressed HTML.

    Args:
        body: of the response.
        encoding: as the response declares it; None to detect it from the body.
        ignore: CSS selectors of elements that are no text of the page.

    Raises:
        NotJudgedError: `empty`, `binary`, `bad_encoding` (also of charsets like base64), `no_text`.
    """
    page = read(decode(body, encoding), ignore)
    check_legible(page.whole, encoding)
    return page


def fingerprint_page(  # noqa: PLR0913 - what decides about a page
    body: bytes | str,
    encoding: str | None = None,
    recipe: Recipe | None = None,
    seed: int = 0,
    url: str = "",
    min_features: int | None = None,
    *,
    ignore: Sequence[str] | Mapping[str, Sequence[str]] = (),
) -> PageFingerprint:
    """Make the fingerprint of an HTML page.

    Args:
        body: HTML, decompressed; a `str` is used as it is.
        encoding: of the body as the response declares it; None to detect it from the body.
        recipe: None for that of crawls.
        seed: of the token hash, 0 to 2**64 - 1; a store's secret, 0 outside of stores.
        url: of the page, against which its links and its canonical address are resolved; ""
            leaves links as written.
        min_features: 1 or more; a page with as many features in its main text gets no `stub`,
            because reading that takes longer than all fingerprints. None: every page gets one.
        ignore: CSS selectors of elements that are no text of the page, or a dict of such lists by
            the host of `url` (SIMHASH_IGNORE).

    Raises:
        NotJudgedError: the page has no text that could be judged; see `reason`.
    """
    if isinstance(body, str):
        body, encoding = body.encode("utf-8", "replace"), "utf-8"
    if isinstance(ignore, Mapping):
        ignore = ignore.get(host_of(url), ())
    started = time.perf_counter()
    page = read_page(body, encoding, ignore)
    made = fingerprint_text(page, recipe or Recipe(), seed, url, min_features)
    return replace(made, read_ms=round(1000 * (time.perf_counter() - started), 3))


def fingerprint_text(
    page: PageText,
    recipe: Recipe,
    seed: int = 0,
    url: str = "",
    min_features: int | None = None,
) -> PageFingerprint:
    """Make the fingerprint of a page that was read; its time stays unset."""
    base = (page.base and join_url(url, page.base)) or url
    if len(base) > MOST_CHARACTERS:  # made to have each link repeat it
        base = ""
    # One step of the paper after the other, each for both texts.
    main, whole = read_both(page.whole, page.main_lines, seed)
    whole_triples = hash_shingles(whole.hashes, SKETCH_WINDOW)
    main_features = weigh_features(main.hashes, recipe.window)
    whole_features = weigh_features(whole.hashes, recipe.window)
    sketch = sketch_text(whole_triples)
    main_fingerprint, whole_fingerprint = simhash(*main_features), simhash(*whole_features)
    data = b""
    if page.data:
        features = weigh_features(read_words(page.data, seed).hashes, 2)
        data = simhash(*features).to_bytes(8, "big")
    beside = *page.beside, *list_links_seen(page.links_seen)
    wording = pack(make_wording(whole, beside, seed, page.main_lines, page.tags))
    stub = hidden = b""
    if min_features is None or len(main_features[0]) < min_features:
        embedded = page.read_embedded()
        texts = page.title, page.whole.replace("\n", " "), embedded
        # Keyed as the tokens are: half of the first decides a short page's place in the tables.
        stub = xxhash.xxh3_128_digest("\0".join(texts).encode(), seed)
        hidden = xxhash.xxh3_64_digest(embedded.encode(), seed)
    facts = Facts(
        b"",
        main_fingerprint,
        # Where a block ends changes with the template.
        xxhash.xxh3_128_digest(main.normal.replace("\n", " ").encode()),
        title=page.title,
        heading=page.heading,
        canonical=_resolve_address(page.canonical, base),
        views="\n".join(filter(None, (_resolve_address(view, base) for view in page.views))),
        language=page.language,
        features=len(main_features[0]),
        words=len(main.hashes),
        whole_words=len(whole.hashes),
        data_fingerprint=data,
        sketch=sketch,
        suspicion=2 * _repeats_query(page.title, whole.hashes, seed, url),
        hidden=hidden,
    )
    return PageFingerprint(
        facts,
        stub,
        whole_fingerprint=whole_fingerprint,
        whole_features=len(whole_features[0]),
        links=len(page.links),
        text=page.main,
        wording=wording,
        targets=read_links(page.links, base),
    )


def _repeats_query(title: str, whole: NDArray[np.uint64], seed: int, url: str) -> bool:
    """Return whether two words of a parameter's value are in title or text, as on a search page."""
    pairs = parse_qsl(url.partition("#")[0].partition("?")[2])
    values = [read_words(value, seed).hashes for _, value in pairs[:_MOST_VALUES]]
    asked = [np.unique(words) for words in values if len(words) > 1]
    if not asked:
        return False
    text = np.concatenate([whole, read_words(title, seed).hashes])
    return any(np.count_nonzero(np.isin(words, text)) > 1 for words in asked)


def _resolve_address(declared: str, url: str) -> str:
    """Make a declared address absolute; return "" if it is no http address, or too long."""
    address = join_url(url, declared) if declared else ""
    absolute = address.startswith(("http://", "https://"))
    return address if absolute and len(address) <= _LONGEST_ADDRESS else ""


# What a reader sees of a page, to compare it word by word: the visible text, bounded, and what is
# seen beside it: alternative texts of pictures, values of fields, addresses to write to and to
# call, names of files.
#
# Of the pages of four corpora 0 to .08 % have more words, and 0 to 1.1 % more than 16,384: what is
# beyond can only be equal or not. Characters only bound what is no language: words of
# letters without end, or signs between them.
MOST_WORDS = 32_768
_MOST_CHARACTERS = 1 << 18
# Of what is seen beside the text, for all of it together.
_MOST_BESIDE = 128
_MOST_CHARACTERS_BESIDE = 4_096
_LONGEST_NAME = 256
# Beyond the "?" is what a share button wants to be written.
_CONTACT = re.compile(r"^[ \t]*(?:mailto|tel):([^?\n]+)", re.MULTILINE)
_ENDING = re.compile(
    r"\.(?:pdf|zip|gz|tgz|bz2|xz|7z|rar|docx?|xlsx?|pptx?|odt|ods|csv|epub|mobi|exe|msi|dmg|apk|iso"
    r"|mp3|mp4|ics|vcf|ps|djvu)(?=[?#\n]|$)"
)


def make_wording(
    words: HashedText,
    beside: Iterable[str],
    seed: int,
    main: tuple[int, int] = (0, 0),
    tags: Sequence[str] = (),
) -> Wording:
    """Make the wording of a page from the words of its visible text, and what is seen beside it.

    Args:
        words: as `features.tokenise` cuts them.
        beside: as the page has it, see `list_links_seen`.
        seed: of the store, 0 to 2**64 - 1: nobody else can make two pages of one digest.
        main: the first line of the main text, and the line behind it, as in `Wording`.
        tags: of the block in each line.
    """
    text, rest = words.normal, b""
    if len(words.tokens) > MOST_WORDS or len(text) > _MOST_CHARACTERS:
        ends = [0, *(end for _, end in locate(text, words.tokens[:MOST_WORDS]))]
        kept = bisect(ends, _MOST_CHARACTERS) - 1
        text = text[: ends[kept]]
        if beyond := words.hashes[kept:].tobytes():
            rest = xxhash.xxh3_64_digest(beyond, seed)
    # A word cut off with all that follows may be the first one.
    lines = text.count("\n") + 1 if text else 0
    first, end = main[0], min(main[1], lines)
    main = (first, end) if first < end else (0, 0)
    return Wording(text, rest, _bound(beside, seed), main, " ".join(tags[:lines]))


def _bound(beside: Iterable[str], seed: int) -> tuple[str, ...]:
    """Normalise what is seen beside the text, and make one digest of what is too much."""
    found = dict.fromkeys(normalise(" ".join(each.split())) for each in beside)
    found.pop("", None)
    kept: list[str] = []
    beyond: list[str] = []
    room = _MOST_CHARACTERS_BESIDE
    for each in found:
        fits = len(kept) < _MOST_BESIDE and len(each) <= room
        room -= len(each) * fits
        (kept if fits else beyond).append(each)
    if beyond:
        digest = xxhash.xxh3_64_hexdigest("\0".join(beyond).encode(), seed)
        kept.append(f"({len(beyond)} more, {digest})")
    return tuple(kept)


def list_links_seen(links: Iterable[str]) -> list[str]:
    """List, of the targets of links, addresses to write to and to call, and names of files."""
    joined = "\n".join(links).lower()
    contacts = _CONTACT.findall(joined) if "mailto:" in joined or "tel:" in joined else []
    for found in _ENDING.finditer(joined):
        named = joined[max(0, found.start() - _LONGEST_NAME) : found.end()]
        contacts.append(named.replace("\n", "/").rpartition("/")[2])
    return contacts


# The links of a page, absolute; a session in them does not count.
#
# A page may have a hundred thousand links, and resolving one takes some microseconds.
_MOST_LINKS = 20_000
# Links that `urljoin` resolves: with another scheme, and with characters of which it has rules.
_ODD = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|.*[\s\[\]\\]", re.DOTALL)
_WEB = (b"http://", b"https://")
# A value that nobody chose, as those of sessions: a long number, or letters and digits mixed.
_TOKEN = re.compile(
    rb"[?&;][^=?&;/#]+="
    rb"(?:\d{8,}|(?=[\w.-]*(?:\d[A-Za-z]+\d|[A-Za-z]\d+[A-Za-z]))[\w.-]{8,})"
    rb"(?![^?&;/#])"
)
_TO_NO_PAGE = ("javascript:", "mailto:", "tel:", "data:")


# What is remembered of dropped pages: a page has some hundred links of 60 bytes.
_MOST_HANDED_OVER = 2_000
_LONGEST_HANDED_OVER = 2_000


def read_links(links: Sequence[str], url: str) -> PageLinks:
    """Resolve the links of a page against its URL, of the first 20,000; list 2,000 to pages."""
    resolve = _make_resolver(url)
    targets = [target.encode() for target in dict.fromkeys(map(resolve, links[:_MOST_LINKS]))]
    listed = [
        target
        for target in targets
        if target.startswith(_WEB) and len(target) <= _LONGEST_HANDED_OVER and b"\n" not in target
    ][:_MOST_HANDED_OVER]
    digests = [*map(xxhash.xxh3_64_intdigest, _leave_out_tokens(listed))]
    return PageLinks(np.array(digests, "<u8").tobytes(), b"\n".join(listed))


def _leave_out_tokens(targets: list[bytes]) -> list[bytes]:
    """Leave out what half of the links with parameters carry, two at least, as they do a session.

    The next answer has another one, in the same links.
    """
    given = [target for target in targets if b"=" in target]
    found = Counter(each[1:] for target in given for each in set(_TOKEN.findall(target)))
    tokens = {token for token, links in found.items() if links >= max(2, len(given) / 2)}

    def cut(found: re.Match[bytes]) -> bytes:
        return b"" if found[0][1:] in tokens else found[0]

    return [_TOKEN.sub(cut, target) for target in targets] if tokens else targets


def _make_resolver(url: str) -> Callable[[str], str]:
    """Make what resolves the links of one page; nearly all of them without `urljoin`."""
    # `urljoin` takes longer for the links of a page than its features and fingerprints do.
    try:
        scheme, host, path, *_ = urlsplit(url)
    except ValueError:
        url = scheme = host = path = ""
    origin = f"{scheme}://{host}"
    folder = f"{origin}{path.rpartition('/')[0]}/"

    def resolve(link: str) -> str:
        """Make a link absolute, without its fragment; return "" if it leads to no page."""
        link = link.strip().partition("#")[0]
        if link.startswith(("http://", "https://")):
            return link
        if not link or link.lower().startswith(_TO_NO_PAGE):
            return ""
        if not url or "./" in link or link[0] in "?." or _ODD.match(link):
            return join_url(url, link)
        if link.startswith("//"):
            return f"{scheme}:{link}"
        return (origin if link[0] == "/" else folder) + link

    return resolve
