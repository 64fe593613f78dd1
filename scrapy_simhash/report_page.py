"""HTML files that need nothing else: the pages of `report` and of `explain --html`.

Needs jinja2 (`pip install 'scrapy-simhash[report]'`). What comes from pages and URLs is hostile:
the template escapes it, the script only ever sets text, and a policy in the file allows nothing but
the one script and the one style sheet of this package, by their digests, and no requests at all.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from scrapy_simhash.untrusted import printable, show

# Neither javascript: nor data:, nor one that was cut or had to be escaped; as in report.js.
_LINK = re.compile(r"https?://[^\s\\…]*", re.IGNORECASE)
_POLICY = (
    "default-src 'none'; script-src '{script}'; style-src '{style}'; base-uri 'none'; "
    "form-action 'none'; require-trusted-types-for 'script'"
)


def render(template: str, values: dict[str, Any], data: str) -> bytes:
    """Make a page.

    Args:
        template: name of its file in `templates`.
        values: what it shows.
        data: for the script, from `pack`.

    Returns:
        The file, UTF-8.
    """
    environment = Environment(
        loader=PackageLoader("scrapy_simhash"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "shown": show,
        "printable": printable,
        "count": "{:,}".format,
        "octets": _write_octets,
        "share": _write_share,
        "moment": _write_moment,
    }
    environment.tests["link"] = is_link
    script, style = (_read(environment, name) for name in ("report.js", "report.css"))
    page = environment.get_template(template).render(
        **values,
        policy=_POLICY.format(script=_digest(script), style=_digest(style)),
        script=Markup(script),  # noqa: S704 - our own file
        style=Markup(style),  # noqa: S704 - our own file
        data=data,
    )
    return page.encode()


def pack(data: dict[str, Any]) -> str:
    """Write data for the script: JSON, compressed, in letters that HTML gives no meaning to.

    Args:
        data: `pairs`, see `report_pairs.describe_pair`; in a report also `table`, see
            `report_table`.
    """
    # Escapes would take room, and base64 has nothing that HTML or a script would obey.
    octets = json.dumps(data, ensure_ascii=False).encode()
    # Without a time the same data are the same file.
    return base64.b64encode(gzip.compress(octets, mtime=0)).decode()


def is_link(shown: str) -> bool:
    """Say whether an address, as it is shown, may be a link."""
    return _LINK.fullmatch(shown) is not None


def _read(environment: Environment, name: str) -> str:
    assert environment.loader is not None  # noqa: S101 - given above
    return environment.loader.get_source(environment, name)[0]


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}"


def _write_octets(octets: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if octets >= size:
            return f"{octets / size:.1f} {unit}"
    return f"{octets:.0f} bytes"


def _write_share(part: float, whole: float) -> str:
    return f"{100 * part / max(1, whole):.1f} %"


def _write_moment(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
