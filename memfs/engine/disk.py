"""What the disk says, where SQLite only says that it failed: full, over a quota, or not to be written any more."""

import errno
import os
from pathlib import Path

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})

OUT_OF_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})
"""Of this process, or of the system: SQLite cannot open what it needs then, nor can who asks the disk."""

PROBE_BYTES = 4096
"""A page: what a file system with a quota, or without space, refuses first."""


def says(directory: Path) -> int:
    """The errno with which a page cannot be written into a file in this directory now; 0 where it can, or nobody knows.

    The file has no name and goes at once, and so nothing stays of it, whatever happens. Never raises.
    """
    try:
        descriptor = os.open(directory, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    except OSError as error:
        # EISDIR and EOPNOTSUPP: a file system without such files. ENOENT: there is no directory any more.
        known = {*FULL, *OUT_OF_DESCRIPTORS, errno.EROFS}
        return error.errno if error.errno in known else 0
    try:
        os.write(descriptor, bytes(PROBE_BYTES))
    except OSError as error:
        return error.errno or 0
    finally:
        os.close(descriptor)
    return 0
