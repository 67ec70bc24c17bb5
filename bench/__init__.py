"""The benchmark of ``make bench``: the same work on memfs and on what it is compared with, side by side in one run."""
