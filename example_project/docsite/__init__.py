"""A small site that serves two real manuals and repeats itself as real sites do."""

from docsite.server import HOST, serve
from docsite.site import Answer, Site

__all__ = ["HOST", "Answer", "Site", "serve"]
