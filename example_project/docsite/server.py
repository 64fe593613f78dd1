"""The site behind a socket of this machine."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any

from docsite.site import Site

# A name that can never belong to anybody (RFC 2606). The example crawl asks for it through
# this server as its proxy, so page addresses are the same whatever port is free.
HOST = os.environ.get("DOCSITE_HOST", "manuals.example")


class _Server(ThreadingHTTPServer):
    def __init__(self, port: int, site: Site) -> None:
        self.site = site
        super().__init__(("127.0.0.1", port), _Handler)

    def server_bind(self) -> None:
        # HTTPServer would look up the name of this machine, which can take seconds.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body are two writes; Nagle's algorithm would hold back the second for 40 ms.
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        answer = self.server.site.answer(self.path)
        body = answer.body
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(body)))
        if answer.document:
            self.send_header("X-Document", answer.document)
            self.send_header("X-Variant", answer.variant)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the name in the base class)
        """Scrapy logs requests already."""


@contextmanager
def serve(port: int = 0, seed: int = 0) -> Iterator[str]:
    """Serve the site from a thread for the length of a `with` block.

    Args:
        port: The port to listen on; 0 takes any free one.
        seed: See `Site`.

    Yields:
        The address of the start page.
    """
    server = _Server(port, Site(seed))
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
