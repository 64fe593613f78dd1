"""An HTML file that shows what was dropped, and why."""
