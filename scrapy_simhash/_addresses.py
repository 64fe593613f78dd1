"""Split and join URLs of pages, even broken ones."""

from urllib.parse import SplitResult, urljoin, urlsplit


def split_url(url: str) -> SplitResult | None:
    """Split a URL; None if it is broken, for instance by an invalid IPv6 address."""
    try:
        return urlsplit(url)
    except ValueError:
        return None


def host_of(url: str) -> str:
    """Get the host name of a URL in lower case, without port; "" if there is none."""
    parts = split_url(url)
    return (parts and parts.hostname) or ""


def join_url(base: str, link: str) -> str:
    """Make a link absolute; "" if it or the base is broken."""
    try:
        return urljoin(base, link)
    except ValueError:
        return ""
