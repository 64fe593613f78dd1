"""Pages made from a seed, and edited by as much as is asked for."""

import random
from collections.abc import Sequence
from html import escape

_SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]


def make_words(seed: int, count: int = 300) -> list[str]:
    """Make words of a language that does not exist; other seeds share almost no word pairs."""
    draw = random.Random(seed)  # noqa: S311 - reproducible, no secret
    return ["".join(draw.choices(_SYLLABLES, k=draw.randint(1, 4))) for _ in range(count)]


def edit_words(words: Sequence[str], changes: int, seed: int = 0) -> list[str]:
    """Replace so many words, at places and by words that follow from the seed."""
    draw = random.Random(seed)  # noqa: S311
    edited = list(words)
    for place in draw.sample(range(len(words)), changes):
        edited[place] = f"changed{seed}x{place}"
    return edited


def lay_out(words: Sequence[str], size: int = 60) -> str:
    """Put words into paragraphs of a size."""
    starts = range(0, len(words), size)
    return "".join(f"<p>{' '.join(words[at : at + size])}.</p>" for at in starts)


def make_page(
    words: Sequence[str], *, title: str = "A page", links: Sequence[str] = (), menu: str = "Menu"
) -> str:
    """Lay words out as an article, below a menu without words: other words are another page's."""
    anchors = "".join(f'<li><a href="{escape(link)}"></a></li>' for link in links)
    return (
        f'<!DOCTYPE html><html lang="en"><head><title>{escape(title)}</title></head><body>'
        f'<nav title="{escape(menu)}"><ul>{anchors}</ul></nav>'
        f"<main><article><h1>Heading</h1>{lay_out(words)}</article></main></body></html>"
    )


def page(seed: int, *, title: str = "A page", links: Sequence[str] = (), menu: str = "Menu") -> str:
    """Make the page of a seed; title, links and menu do not change its main text."""
    return make_page(make_words(seed), title=title, links=links, menu=menu)


def make_groups(groups: int, copies: int) -> dict[str, str]:
    """Make groups of copies with one title and other menus; those of a group come far apart."""
    return {
        f"/g{group}/c{copy}": page(group, title=f"Title of {group}", menu=f"Menu {copy}")
        for copy in range(copies)
        for group in range(groups)
    }
