"""A web site in a thread: hands out the answers it was given, and remembers who asked."""

import gzip
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypeAlias

HTML = "text/html; charset=utf-8"


@dataclass(frozen=True)
class Answer:
    """What one path answers.

    Attributes:
        body: before compression.
        content_type: any text; None sends no such header.
        gzip: compress the body.
        location: target of a redirect; the status is 302 then.
        missing_bytes: the header promises so many bytes more than are sent.
        gate: the answer waits until this is set.
        make: makes the answer to the nth request of the site, the first one being 1.
    """

    body: bytes = b""
    status: int = 200
    content_type: str | None = HTML
    gzip: bool = False
    location: str | None = None
    missing_bytes: int = 0
    gate: threading.Event | None = None
    make: Callable[[int], "Answer | str"] | None = None


# What is called is `Answer.make`.
Answers: TypeAlias = Mapping[str, "Answer | str | bytes | Callable[[int], Answer | str]"]


@dataclass
class Site:
    """A running site.

    Attributes:
        root: its URL, without a slash at the end.
        answers: by path and query; may be changed while it runs.
        asked: paths in the order in which they were asked for, robots.txt included.
    """

    root: str
    answers: dict[str, Answer]
    asked: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def url(self, path: str) -> str:
        return self.root + path

    def urls(self, *paths: str) -> list[str]:
        """List the URLs of these paths, or of all pages."""
        return [self.url(path) for path in paths or self.answers]


@contextmanager
def serve(answers: Answers) -> Iterator[Site]:
    """Run a site; text and bytes are pages."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.site = Site(
        f"http://127.0.0.1:{server.server_port}",
        {path: _make_answer(answer) for path, answer in answers.items()},
    )
    thread = threading.Thread(target=server.serve_forever, args=(0.005,), name="test site")
    thread.start()
    try:
        yield server.site
    finally:
        for answer in server.site.answers.values():
            if answer.gate:
                answer.gate.set()
        server.shutdown()
        thread.join()
        server.server_close()


def _make_answer(answer: Answer | str | bytes | Callable[[int], Answer | str]) -> Answer:
    if isinstance(answer, Answer):
        return answer
    if callable(answer):
        return Answer(make=answer)
    return Answer(answer.encode() if isinstance(answer, str) else answer)


class _Server(ThreadingHTTPServer):
    # With the default of 5, connections of a busy crawl are lost and only retried much later.
    request_queue_size = 128
    site: Site

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: clients are killed in the middle of an answer on purpose."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        """Answer a form as the same address answers without one."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def do_GET(self) -> None:
        site = self.server.site
        with site.lock:
            site.asked.append(self.path)
            number = len(site.asked)
        answer = site.answers.get(self.path, Answer(b"no such page", 404, "text/plain"))
        if answer.make:
            answer = _make_answer(answer.make(number))
        if answer.gate:
            answer.gate.wait(60)
        body = gzip.compress(answer.body) if answer.gzip else answer.body
        self.send_response(302 if answer.location else answer.status)
        if answer.location:
            self.send_header("Location", answer.location)
        if answer.content_type is not None:
            self.send_header("Content-Type", answer.content_type)
        if answer.gzip:
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body) + answer.missing_bytes))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass
