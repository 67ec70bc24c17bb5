"""The words of memfs as values: identifiers, paths, records and errors. Pure: no I/O, no adapter's vocabulary."""
