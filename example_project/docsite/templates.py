"""The site's own furniture: everything on a page that is not the manual's text."""

import html
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from docsite.manuals import ManualPage

ADVERTISEMENTS = [
    "Managed databases from 9 euros a month. Backups, upgrades and monitoring are included.",
    "Learn to run web servers in one weekend: small groups, real machines, no slides at all.",
    "The autumn sale has begun! Mechanical keyboards and quiet fans at half the usual price.",
    "We are hiring: site reliability engineers, remote or in one of our four offices.",
    "Your logs, searchable in seconds. Try it free for thirty days, no credit card needed.",
]

_HEADER = """<header class="site-header"><p class="brand"><a href="/">Manual Shelf</a></p>
<nav><a href="/">Home</a> <a href="/list?page=1">All manuals</a>
<a href="/account/bookmarks">My bookmarks</a></nav></header>"""


def manual(page: ManualPage, text: str, advertisement: str, session: str, *, mirrored: bool) -> str:
    """The manual's own page with the site's header, advertisement and footer around it.

    With `session`, it links to its other views; without, it is at its session address, and names
    the canonical one.
    """
    links = []
    if session:
        links.append(f'<a href="{page.path}?print=1">Print view</a>')
        links.append(f'<a href="{page.path}?sid={session}">Continue reading where you left</a>')
    else:
        canonical = f'<link rel="canonical" href="{page.path}">'
        text = text.replace("</head>", f"{canonical}</head>", 1)
    if session and mirrored:
        links.append(f'<a href="/mirror{page.path}">This page on our mirror</a>')
    text = re.sub(
        r"(<body[^>]*>)", lambda m: m[1] + _HEADER + _advert(advertisement), text, count=1
    )
    return text.replace("</body>", f"{_footer(links)}</body>", 1)


def print_view(page: ManualPage, text: str) -> str:
    """The page as a printer gets it: another template, the text only."""
    return f"""<!DOCTYPE html><html lang="{page.language}"><head><title>{page.title}</title>
<style>body {{ font-family: serif; max-width: 40em }}</style></head><body class="print">
<p class="print-source">Printed from Manual Shelf, {page.path}</p>
<div class="print-text">{text}</div>
<p class="print-end">Printed {_now()}. Copyright and licence: see the manual.</p></body></html>"""


def mirror(page: ManualPage, text: str) -> str:
    """The page on the mirror: other header, other menu, other footer."""
    return f"""<!DOCTYPE html><html lang="{page.language}"><head>
<title>{page.title} | Docs Mirror</title></head><body>
<div id="top-bar"><ul class="menu"><li><a href="/">Docs Mirror Europe</a></li>
<li><a href="/list?page=1">Browse</a></li><li>Status: all systems operational</li></ul>
<p class="breadcrumb">Mirror &rsaquo; {page.document.replace("/", " &rsaquo; ")}</p></div>
<main class="mirrored"><article>{text}</article></main>
<div id="bottom-bar"><p>This mirror is kept in sync by volunteers; last run {_now()}.
Bandwidth given by friendly universities. Copyright and licence: see the manual.</p></div>
</body></html>"""


def home(sessions: Mapping[str, str], advertisement: str) -> str:
    """The start page; `sessions` has titles of pages by session addresses, which readers sent."""
    items = "".join(f'<li><a href="{url}">{title}</a></li>' for url, title in sessions.items())
    return _page(
        "Manual Shelf",
        f"""<h1>Manual Shelf</h1>
<p>The manuals we open most often, on one shelf: the reference pages of the PostgreSQL database
system in three releases, and the documentation of the Apache HTTP Server in two releases and
three languages.</p>
<p>Every page can be printed, bookmarked and read on a mirror closer to you. Old releases stay
here as long as somebody runs them, so you always find the page that belongs to your server.</p>
<p>Start with <a href="/list?page=1">the list of all manuals</a>.</p>
<h2>Recommended by readers</h2><ul>{items}</ul>""",
        advertisement,
    )


def listing(entries: Iterable[list[ManualPage]], number: int, count: int, advert: str) -> str:
    """One page of the list of all documents; each entry links to all its releases."""
    articles = []
    for pages in entries:
        first = pages[0]
        releases = ", ".join(f'<a href="{page.path}">{page.release}</a>' for page in pages)
        articles.append(
            f'<article><h2><a href="{first.path}">{first.title}</a></h2>'
            f"<p>{first.summary}</p><p>Releases: {releases}</p></article>"
        )
    pager = " ".join(f'<a href="/list?page={n}">{n}</a>' for n in range(1, count + 1))
    body = f"<h1>All manuals, page {number} of {count}</h1>{''.join(articles)}"
    return _page(f"All manuals, page {number}", f'{body}<nav class="pager">{pager}</nav>', advert)


def login(path: str, advertisement: str) -> str:
    """What everybody gets who is not signed in, whatever they asked for."""
    links = "".join(
        f'<li><a href="/account/{name}">{name.title()}</a></li>'
        for name in ("bookmarks", "history", "notes", "profile", "settings")
    )
    return _page(
        "Sign in",
        f"""<h1>Please sign in</h1>
<p>You need an account to see this part of Manual Shelf. Sign in with your e-mail address and
your password. If you have no account yet, ask the person who looks after the shelf in your
office for one; it costs nothing and takes a minute.</p>
<form method="post" action="/login"><input type="hidden" name="next" value="{html.escape(path)}">
<label>E-mail address <input name="email"></label>
<label>Password <input name="password" type="password"></label><button>Sign in</button></form>
<p>After five wrong passwords the account is locked for a quarter of an hour. We never send
passwords by mail, and nobody of us will ever ask you for yours.</p>
<p>With an account you keep bookmarks, write notes beside a page, see what you read last and
choose the release of each manual that your own servers run.</p>""",
        advertisement,
        menu=f"<ul>{links}</ul>",
    )


def not_found(path: str, advertisement: str) -> str:
    """A page that says "not found" while its status says 200."""
    return _page(
        "Page not found",
        f"""<h1>We could not find that page</h1>
<p>There is no page at {html.escape(path)} on this shelf.</p>
<p>Perhaps the address was typed with a small mistake, or the page belongs to a chapter that we
have not copied. We keep the reference pages that our readers open most often; the complete
manual with all its chapters, appendices and release notes is on the site of the project itself.</p>
<p>Here is what usually helps: go back to the page you came from and choose another link; look the
command or the directive up in <a href="/list?page=1">the list of all manuals</a>; or try the page
of another release, since chapters were renamed and moved more than once over the years.</p>
<p>If you followed a link on one of our own pages, the link is broken and we should like to know.
Tell the person who looks after the shelf in your office, and please add the address of the page
with the broken link. We read all messages, and most links are repaired within a week.</p>""",
        advertisement,
    )


def _page(title: str, body: str, advertisement: str, menu: str = "") -> str:
    return f"""<!DOCTYPE html><html lang="en"><head><title>{title}</title></head><body>
{_HEADER}{_advert(advertisement)}{menu}<main>{body}</main>{_footer([])}</body></html>"""


def _advert(text: str) -> str:
    return f'<aside class="advertisement"><p>Advertisement: {text}</p></aside>'


def _footer(links: list[str]) -> str:
    items = "".join(f"<li>{link}</li>" for link in links)
    return (
        f'<footer class="site-footer"><ul>{items}</ul>'
        f"<p>Manual Shelf. This page was made for you on {_now()}.</p></footer>"
    )


def _now() -> str:
    return datetime.now(UTC).strftime("%d %B %Y, %H:%M:%S.%f UTC")
