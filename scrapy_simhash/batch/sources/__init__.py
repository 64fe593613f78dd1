"""What can be imported: WARC files, feeds, folders, Parquet, archives, stores."""

# The module that other rooms may import.
__all__ = ["base"]
