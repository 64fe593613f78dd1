"""A reader of main texts that is the user's own; without pytest, because judges load it."""

import time


def read_badly(html: str) -> str:
    """Raise, hang or find nothing where the menu says so."""
    if "second" in html:
        raise ValueError("as a reader may")
    if "third" in html:
        time.sleep(60)
    return "" if "fourth" in html else "what it found"
