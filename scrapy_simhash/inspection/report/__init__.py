"""An HTML file that shows what was dropped, and why."""

# The modules that other rooms may import.
__all__ = ["page", "report"]
