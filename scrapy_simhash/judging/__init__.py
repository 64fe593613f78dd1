"""Whether one document is a near-duplicate of another. Pure: knows no database."""
