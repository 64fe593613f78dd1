"""How a page is judged, spelled out: one text after the other, nothing shared, nothing looked up.

What stores hold was made by these steps, so the fast ones have to give the same bits.
"""

import unicodedata
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import regex
import xxhash

from scrapy_simhash.pages.addresses import join_url
from scrapy_simhash.pages.features import FeatureSet, tokenise
from scrapy_simhash.pages.text import PageText

_MASK = 2**64 - 1
_UNSPACED = r"\u0e00-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"
_UNSPACED += r"\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
# Words, then runs of unspaced characters with their marks, and runs of others.
_RUNS = regex.compile(rf"([{_UNSPACED}](?:[{_UNSPACED}]|\p{{M}})*)|[^{_UNSPACED}]+")


class SlowText(NamedTuple):
    """What is made of a text; `features` are whole weights by hash."""

    words: int
    features: dict[int, int]
    fingerprint: int
    triples: list[int]


def normalise_slowly(text: str) -> str:
    seen = "".join(each for each in text if each not in "\u00ad\u200b\u2060\ufeff")
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", seen).casefold())
    kept = (each for at, each in enumerate(folded) if _is_seen(folded, at))
    return unicodedata.normalize("NFKC", "".join(kept))


def _is_seen(text: str, at: int) -> bool:
    """Read the rules for joiners in identifiers (UAX 31, 2.3) a character at a time."""
    if text[at] not in "\u200c\u200d":
        return True
    before, after = text[:at], text[at + 1 :]

    def trim(text: str, step: int, kind: str) -> str:
        """Take off the characters of a kind at the end (-1) or the beginning (1)."""
        while text and regex.match(kind, text[0 if step > 0 else -1]):
            text = text[1:] if step > 0 else text[:-1]
        return text

    marks, transparent = r"(?V1)[\p{Mn}--\p{ccc=0}]", r"\p{jt=T}"
    if text[at] == "\u200c":
        left, right = trim(before, -1, transparent)[-1:], trim(after, 1, transparent)[:1]
        if regex.match(r"[\p{jt=D}\p{jt=L}]", left) and regex.match(r"[\p{jt=D}\p{jt=R}]", right):
            return True
    elif regex.match(r"\p{InSC=Vowel_Dependent}", after[:1]):
        return False
    while before and regex.match(marks, before[-1]):
        letter = trim(before[:-1], -1, r"\p{Mn}")[-1:]
        if regex.match(r"\p{ccc=9}", before[-1]) and regex.match(r"\p{L}", letter):
            return text[at] == "\u200d" or bool(regex.match(r"\p{L}", trim(after, 1, marks)[:1]))
        before = before[:-1]
    return False


def tokenise_slowly(text: str) -> list[str]:
    tokens: list[str] = []
    for word in regex.findall(r"\w+", text):
        for run in _RUNS.finditer(word):
            if not run[1]:
                tokens.append(run[0])
                continue
            characters = regex.findall(r"\P{M}\p{M}*|\p{M}+", run[0])
            tokens += characters[:1] if len(characters) == 1 else map("".join, pairwise(characters))
    return tokens


def hash_shingles_slowly(hashes: list[int], window: int) -> list[int]:
    window = min(window, len(hashes))
    if window <= 1:
        return hashes
    made = []
    for start in range(len(hashes) - window + 1):
        folded, *others = hashes[start : start + window]
        for each in others:
            folded = ((folded ^ folded >> 29) * 0xBF58476D1CE4E5B9 + each) & _MASK
        folded = (folded ^ folded >> 32) * 0xFF51AFD7ED558CCD & _MASK
        made.append(folded ^ folded >> 32)
    return made


def weigh_slowly(hashes: list[int], features: FeatureSet) -> dict[int, int]:
    shingles = np.array(hash_shingles_slowly(hashes, features.window), np.uint64)
    distinct, counts = np.unique(shingles, return_counts=True)
    weights = np.array(features.weigh(counts), np.float64)
    whole = np.maximum(1, np.rint(weights * 1_000)).astype(np.int64)
    return dict(zip(distinct.tolist(), whole.tolist(), strict=True))


def simhash_slowly(features: dict[int, int]) -> int:
    fingerprint = 0
    for bit in range(64):
        if sum(weight if hashed >> bit & 1 else -weight for hashed, weight in features.items()) > 0:
            fingerprint += 1 << bit
    return fingerprint


def sketch_slowly(whole: list[int]) -> bytes:
    """Take of the smallest hash of each bin the bits behind those of the bin."""
    rests = [0xFFFFFF] * 256
    for number in range(256):
        if in_bin := [each for each in whole if each >> 56 == number]:
            rests[number] = min(min(in_bin) >> 32 & 0xFFFFFF, 0xFFFFFE)
    return b"".join(rest.to_bytes(3, "little") for rest in rests)


def read_slowly(text: str, features: FeatureSet, seed: int) -> SlowText:
    cut = tokenise_slowly if features.tokenise is tokenise else features.tokenise
    tokens = cut(normalise_slowly(text))
    hashes = [xxhash.xxh3_64_intdigest(token.encode(), seed) for token in tokens]
    weighed = weigh_slowly(hashes, features)
    triples = hash_shingles_slowly(hashes, 3)
    return SlowText(len(tokens), weighed, simhash_slowly(weighed), triples)


def judge_slowly(page: PageText, features: FeatureSet, seed: int) -> dict[str, int | bytes]:
    """Make what a store keeps of a page's texts, by the names of `PageFingerprint` and `Facts`."""
    main, whole = (read_slowly(text, features, seed) for text in (page.main, page.whole))
    all_it_has = f"{page.title}\0{page.whole.replace(chr(10), chr(32))}\0{page.read_embedded()}"
    return {
        "fingerprint": main.fingerprint,
        "whole_fingerprint": whole.fingerprint,
        "stub": xxhash.xxh3_128_digest(all_it_has.encode(), seed),
        "hidden": xxhash.xxh3_64_digest(page.read_embedded().encode(), seed),
        "text_digest": xxhash.xxh3_128_digest(
            normalise_slowly(page.main).replace("\n", " ").encode()
        ),
        "sketch": sketch_slowly(whole.triples),
        "features": len(main.features),
        "whole_features": len(whole.features),
        "words": main.words,
        "whole_words": whole.words,
    }


def resolve_slowly(link: str, url: str) -> str:
    """Make a link absolute with `urljoin`, but where browsers and the plugin take it as it is."""
    link = link.strip().partition("#")[0]
    if not link or link.lower().startswith(("javascript:", "mailto:", "tel:", "data:")):
        return ""
    return link if link.startswith(("http://", "https://")) else join_url(url, link)
