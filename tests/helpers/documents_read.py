"""The pages of the documentation, read with the parser the site is built with."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.helpers.processes import ROOT

PAGES = ("README.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").glob("*.md")))
# Their blocks are not checked, their links are.
LINKED = (
    *(*PAGES, "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"),
    *("benchmarks/README.md", "example_project/README.md"),
)
_MARK = re.compile(r"<!--\s*(not run|file|session):\s*(.*?)\s*-->", re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block of code.

    Attributes:
        line: of the file, where its code begins, from 1.
        language: the word after the fence; of a MyST directive, in braces.
        mark: what the comment right before it says: `not run` and why not, or `file` and the name
            under which a reader saves it; else ("", "").
        session: where its commands are run: in an `empty` folder, in a copy of this one; "": not.
    """

    page: str
    line: int
    language: str
    code: str
    mark: tuple[str, str]
    session: str = ""

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def saved_as(self) -> Path | None:
        """The name under which a reader saves it."""
        return Path(self.mark[1]) if self.mark[0] == "file" else None


@cache
def tokens_of(page: str) -> list[Token]:
    """Parse a page; paths are relative to the repository's root."""
    return MarkdownIt("commonmark").enable("table").parse((ROOT / page).read_text("utf-8"))


def blocks_of(page: str) -> Iterator[Block]:
    mark, session = ("", ""), ""
    for token in tokens_of(page):
        if token.type == "html_block":
            found = _MARK.search(token.content)
            mark = (found[1], " ".join(found[2].split())) if found else ("", "")
            if mark[0] == "session":
                session = "" if mark[1] == "end" else mark[1]
        elif token.type in {"fence", "code_block"}:
            begin = (token.map or [0])[0]
            language = token.info.split()[0] if token.info else ""
            yield Block(page, begin + 2, language, token.content, mark, session)
            mark = ("", "")
        elif token.type != "inline":
            mark = ("", "")


def anchors_of(page: str) -> set[str]:
    """List the names of a page's headings as GitHub, and the site, make them."""
    counted: dict[str, int] = {}
    anchors = set()
    tokens = tokens_of(page)
    for token, inline in pairwise(tokens):
        if token.type == "heading_open":
            text = "".join(t.content for t in inline.children or () if t.type != "image")
            slug = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
            number = counted[slug] = counted.get(slug, -1) + 1
            anchors.add(f"{slug}-{number}" if number else slug)
    return anchors


def targets_of(page: str) -> list[tuple[int, str]]:
    """List the line and the target of each link and picture of a page."""
    return [
        ((token.map or [0])[0] + 1, str(child.attrs.get("href") or child.attrs.get("src")))
        for token in tokens_of(page)
        for child in token.children or ()
        if child.type in {"link_open", "image"}
    ]
