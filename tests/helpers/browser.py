"""A real Chromium, driven by Playwright; skipped where there is none."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from tests.helpers.needing import require_program


@contextmanager
def start_browser() -> Iterator[Browser]:
    """Start the Chromium of this machine; skip the test, or fail, where there is none."""
    found = require_program("chromium", "chromium-browser", "google-chrome")
    with sync_playwright() as playwright:
        # Its sandbox does not work for root, nor in many containers.
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


class Watched:
    """A page and what it complained of.

    Attributes:
        page: Playwright's.
        complaints: console messages, errors, violations of the policy, dialogs.
        requests: that it made, its own file left out.
    """

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: self.complaints.append(dialog.message))
        page.on("request", lambda request: self.requests.append(request.url))

    def open(self, path: Path) -> None:
        """Open a file."""
        self.page.goto(path.as_uri())
        self.requests.remove(path.as_uri())


@contextmanager
def watching(
    browser: Browser, path: Path, *, width: int = 1280, scheme: str = "light"
) -> Iterator[Watched]:
    """Open a file; at the end it has complained of nothing and requested nothing."""
    page = browser.new_page(
        viewport={"width": width, "height": 800},
        color_scheme="dark" if scheme == "dark" else "light",
    )
    watched = Watched(page)
    watched.open(path)
    yield watched
    page.close()
    assert watched.complaints == []
    assert watched.requests == []
