"""The store on disk, in LMDB."""
