"""What can be imported: WARC files, feeds, folders, Parquet, archives, stores."""

# The modules that other rooms may import.
__all__ = ["base", "warc"]
