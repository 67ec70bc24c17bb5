"""Which names are editor temporaries: scratch inside a store's mount (DESIGN.md 13).

A name counts when it is made: what is a memory already stays one, whatever it is called. Directories never count.
"""

import re
from collections.abc import Iterable
from fnmatch import translate

PATTERNS = (
    "*~",  # backups of vim, nano, emacs, joe, patch
    "#*#",  # emacs auto-save
    ".#*",  # emacs locks (symbolic links, which are refused; emacs carries on)
    ".*.sw?",  # vim swap files
    ".*.swpx",
    ".*.un~",  # vim undo
    "4913",  # vim tries whether it may write a directory
    ".nfs*",
    ".goutputstream-*",  # GLib: gedit, GNOME tools
    ".*.kate-swp",
    ".~lock.*#",  # LibreOffice
    "*.tmp",
    ".tmp*",
    "*.tmp.*",  # Claude Code's and others' NAME.tmp.PID.TIME
    "*.vsctmp",  # VS Code
    "*___jb_tmp___",  # JetBrains
    "*___jb_old___",
    "*.bak~",
    "*.crdownload",
    "*.part",
)

EXCLUSIVE_PATTERNS = (
    r"sed[A-Za-z0-9]{6}",  # GNU sed -i
    r"tmp[a-z0-9_]{8}",  # Python's tempfile
    r"tmp\.[A-Za-z0-9]{6,10}",  # mktemp(1)
    r"\..+\.[A-Za-z0-9]{6}",  # rsync
    r".+\.[iopr][A-Za-z0-9]{6}",  # GNU patch
    r"perl[A-Za-z0-9]{8}|XX[A-Za-z0-9]{6}",  # perl -i
    r".+\.\d{8,}",  # write-file-atomic (npm)
    r".+\.[0-9a-f]{12,}",  # NAME.HEX of several atomic-write helpers
)
"""Shapes that a person may use too: they only count when the file is made with O_EXCL, as mkstemp(3) does it."""


class Temporaries:
    """Decides by name and way of creation whether a new file is scratch."""

    def __init__(self, patterns: Iterable[str] = PATTERNS, exclusive: Iterable[str] = EXCLUSIVE_PATTERNS) -> None:
        """``patterns`` are shell patterns of whole names, ``exclusive`` regular expressions of whole names."""
        self._always = re.compile("|".join(translate(pattern) for pattern in patterns) or "(?!)", re.DOTALL)
        self._exclusive = re.compile("|".join(f"(?:{pattern})" for pattern in exclusive) or "(?!)", re.DOTALL)

    def match(self, name: str, *, exclusive: bool) -> bool:
        """Whether a file of this name, made with (``exclusive``) or without O_EXCL, is scratch."""
        return self._always.fullmatch(name) is not None or (exclusive and self._exclusive.fullmatch(name) is not None)
