"""`python -m docsite`: look at the site in a browser."""

import contextlib
import threading

from docsite.server import serve

with serve() as url, contextlib.suppress(KeyboardInterrupt):
    print(f"{url}  (Ctrl-C stops it)", flush=True)
    threading.Event().wait()
