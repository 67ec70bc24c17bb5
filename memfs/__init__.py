"""memfs: memory stores mounted as plain files, every change an immutable version."""

__version__ = "0.1.0"
