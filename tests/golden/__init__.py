"""Golden verdicts: what is said of pages of this repository, before and after a rewriting."""
