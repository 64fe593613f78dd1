"""Sites of records made up: one template, and little that is a page's own."""

import random
from collections.abc import Callable, Sequence
from html import escape

from scrapy_simhash.config import Config
from scrapy_simhash.judging.documents import Decision, Document, make_document
from scrapy_simhash.judging.matching import compare_by_words
from scrapy_simhash.pages.facts import Fetched, unpack
from scrapy_simhash.pages.fingerprint import fingerprint_page
from tests.helpers.documents import judge_in_order
from tests.helpers.pages import lay_out, make_words

HOST = "http://records.example"
# Of a record's own words, the HTML between two halves of the template.
SHAPES: dict[str, Callable[[Sequence[str], Sequence[str]], str]] = {
    "cells": lambda own, labels: "".join(
        f"<tr><th>{label}</th><td>{word}</td></tr>"
        for label, word in zip(labels, own, strict=False)
    ).join(("<table>", "</table>")),
    "numbers": lambda own, labels: SHAPES["cells"]([f"{sum(map(ord, w))}" for w in own], labels),
    "prose": lambda own, _: f"<p>{' '.join(own)}</p>",
    "list": lambda own, _: "<ul>" + "".join(f"<li>{word}</li>" for word in own) + "</ul>",
    "description": lambda own, _: f"<h3>Description</h3><p>{' '.join(own)}</p>",
    # Of a small vocabulary, so that each value is on many pages.
    "few values": lambda own, labels: "".join(
        f"<dt>{label}<dd>{label}{ord(word[0]) % 4}{'abcd'[ord(word[0]) % 4]}"
        for label, word in zip(labels, own, strict=False)
    ).join(("<dl>", "</dl>")),
}


def make_record(number: int, shape: str, own: int, template: int, title: str = "") -> str:
    """Make the page of a record; `title` is that of all, or "" for one of its own, no heading."""
    words, labels = make_words(1_000 + template, template), make_words(2_000, 40)
    body = SHAPES[shape](make_words(5_000 + number, own), labels)
    heading = f"<h1>{title}</h1>" if title else ""
    named = title or " ".join(make_words(7_000 + number, 3))
    halves = lay_out(words[: template // 2], 50), lay_out(words[template // 2 :], 50)
    return (
        f"<!DOCTYPE html><title>{escape(named)}</title><body><main>{heading}"
        f"{halves[0]}{body}{halves[1]}</main></body>"
    )


def make_article(number: int, *, beside: str = "", title: str = "", head: str = "") -> str:
    """Make an article unlike all others, with something beside it."""
    words = make_words(number, 300)
    name = title or " ".join(words[:3])
    return (
        f"<!DOCTYPE html><title>{name}</title>{head}<body><nav>Home News Shop</nav>"
        f"<h1>{name}</h1>{lay_out(words)}{beside}<footer>Imprint and terms of use</footer></body>"
    )


def judge_pages(pages: Sequence[tuple[str, str | bytes]], seed: int = 0) -> dict[str, Decision]:
    """Judge pages of HTML in their order, by their addresses, or paths of `HOST`."""
    documents = [
        read_document(path if "://" in path else HOST + path, html) for path, html in pages
    ]
    return dict(zip((path for path, _ in pages), judge_in_order(documents, seed), strict=True))


def list_dropped(pages: Sequence[tuple[str, str | bytes]], seed: int = 0) -> list[str]:
    """Judge pages in their order; returns which are near-duplicates."""
    verdicts = judge_pages(pages, seed).items()
    return [path for path, verdict in verdicts if verdict.status == "near_duplicate"]


def compare_pages(first: tuple[str, str], second: tuple[str, str]) -> Decision:
    """Compare two pages, by address and HTML, of hosts that are not known."""
    mine, theirs = (read_document(*page) for page in (first, second))
    wordings = unpack(mine.wording), unpack(theirs.wording)
    return compare_by_words(mine.facts, theirs.facts, wordings)


def read_document(url: str, html: str | bytes) -> Document:
    """Read a page as crawls do by default."""
    return make_document(
        fingerprint_page(html, url=url), Config().chosen_rule, Fetched(url, identity=b"-")
    )


def shuffle(pages: Sequence[tuple[str, str]], seed: int) -> list[tuple[str, str]]:
    return random.Random(seed).sample(pages, len(pages))  # noqa: S311
