"""`python -m docsite`: look at the site in a browser."""

import argparse
import contextlib
import threading

from docsite.server import serve

argparse.ArgumentParser("python -m docsite", description=__doc__).parse_args()

with serve() as url, contextlib.suppress(KeyboardInterrupt):
    print(f"{url}  (Ctrl-C stops it)", flush=True)
    threading.Event().wait()
