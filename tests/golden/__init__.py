"""Golden verdicts: what the store said of many documents before it was written anew."""
