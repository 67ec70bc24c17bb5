"""Which names are editor temporaries: scratch inside a store's mount (DESIGN.md 13).

A name counts when it is made: what is a memory already stays one, whatever it is called. Directories never count.

A name alone seldom tells. ``sedimentA`` is what GNU sed may call its temporary and what a person may call a memory, and
what is taken for a temporary is gone at unmount. So names that people use too are only temporaries where the file is
made in the way of the program whose name it is: with O_EXCL; with a mode that keeps others out, as mkstemp(3) makes it
and hardly anybody else, or with letters that nobody would choose; and beside the file that is being saved.
"""

import re
import stat
import time
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import translate
from typing import Literal

from memfs.model.errors import InvalidRequest
from memfs.model.paths import MAX_NAME_BYTES

MAX_PATTERNS = 64
"""How many patterns a mount may add, and except."""

PATTERNS = (
    "*~",  # backups of vim, nano, emacs, joe, patch; vim's undo files
    "#*#",  # emacs auto-save
    ".#*",  # emacs locks: symbolic links, which are refused, and then files
    ".*.sw[a-px]",  # vim and nano
    ".*.swpx",
    ".goutputstream-*",  # GIO: gedit, GNOME tools
    ".*.kate-swp",
    ".~lock.*#",  # LibreOffice
    "*.tmp",
    ".tmp",
    ".tmp-*",  # the SDK's memory tool: .tmp-PID-UUID
    "*.vsctmp",  # VS Code
    "*.crswap",  # VS Code in a browser
    "*___jb_tmp___",  # JetBrains
    "*___jb_old___",
    "*___jb_bak___",
    "*.crdownload",
)
"""Shell patterns of whole names that always count, whoever makes them and how."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A form of names of one program, as a regular expression of the whole name."""

    whose: str
    pattern: str
    exclusive: bool | None = None
    """Whether the program makes it with O_EXCL; None: either way, and by rename too."""
    private: bool = False
    """Whether the mode must keep others out, unless what the group ``drawn`` of the pattern holds is no word."""


SHAPES = (
    Shape("Claude Code", r".+\.tmp\.(?:\d+(?:\.[0-9a-f]+)?|[0-9a-f]{8,})"),  # NAME.tmp.PID.TIME, .tmp.PID.HEX, .tmp.HEX
    Shape("atomically (npm)", r".+\.tmp-\d{6,}[0-9a-f]*"),
    Shape("NFS", r"\.nfs[0-9a-f]{12,}"),
    Shape("vim", "4913", exclusive=True),  # tries whether it may write a directory
    Shape("GNU sed", "sed(?P<drawn>[A-Za-z0-9]{6})", exclusive=True, private=True),
    Shape("Python's tempfile", "tmp[a-z0-9_]{8}", exclusive=True, private=True),
    Shape("emacs with file-precious-flag", "tmp(?P<drawn>[A-Za-z0-9]{6})", exclusive=True, private=True),
    Shape("mktemp", r"tmp\.(?P<drawn>[A-Za-z0-9]{6,10})", exclusive=True, private=True),
    Shape("perl -i", "XX(?P<drawn>[A-Za-z0-9]{6})", exclusive=True, private=True),
    Shape("Rust's tempfile", r"\.tmp(?P<drawn>[A-Za-z0-9]{6})", exclusive=True, private=True),
    Shape("rsync, kakoune", r"\..+\.(?P<drawn>[A-Za-z0-9]{6})", exclusive=True, private=True),
)
"""Forms that are told by the name and the way that the file is made."""

Judge = Callable[[str], bool]


def _random(part: str) -> bool:
    """Whether letters and digits look as if a program had drawn them; a person's ``backup``, ``Old2`` or ``2024q4``
    does not."""
    return re.fullmatch(r"[0-9]*(?:[A-Z]?[a-z]*|[A-Z]*)[0-9]*[a-z]*[0-9]*", part) is None


def _number(part: str) -> bool:
    """Whether digits look as if a program had drawn them; a day, an hour of one, or the present time do not."""
    for length, form in ((8, "%Y%m%d"), (10, "%Y%m%d%H"), (12, "%Y%m%d%H%M"), (14, "%Y%m%d%H%M%S")):
        if len(part) == length and part.startswith(("19", "20")):
            try:
                datetime.strptime(part, form)
            except ValueError:
                continue
            return False
    scale = {10: 1, 13: 1_000, 16: 1_000_000, 19: 1_000_000_000}.get(len(part))
    return scale is None or abs(int(part) / scale - time.time()) > 30 * 86_400


def _any(_part: str) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Companion:
    """A form of names that hold the name of the file beside them that is being saved: BEFORE NAME BETWEEN DRAWN AFTER.

    ``drawn`` says whether a text is of the ASCII characters that are drawn, ``lengths`` how many of them there are, at
    least and at most, and ``judge`` whether they look drawn. ``exclusive`` and ``private`` are those of Shape.
    """

    whose: str
    drawn: Judge
    lengths: tuple[int, int]
    judge: Judge
    before: str = ""
    between: str = ""
    after: str = ""
    exclusive: bool | None = None
    private: bool = False

    def match(self, name: str, beside: Container[str]) -> bool:
        """Whether a name has this form, and the file whose name it holds is among those beside it."""
        if not (name.startswith(self.before) and name.endswith(self.after)):
            return False
        inner = name[len(self.before) : len(name) - len(self.after)]
        shortest, longest = self.lengths
        for length in range(shortest, min(longest, len(inner) - 1) + 1):
            saved, part = inner[:-length], inner[-length:]
            if not (part.isascii() and self.drawn(part)):
                return False  # nor will a longer one be
            if saved.endswith(self.between) and saved[: len(saved) - len(self.between)] in beside and self.judge(part):
                return True
        return False


COMPANIONS = (
    Companion("write-file-atomic (npm)", str.isdecimal, (7, 10), _number, between=".", exclusive=False),
    Companion("GLib, Qt and KDE", str.isalnum, (6, 6), _random, between=".", exclusive=True),
    Companion("GNU patch", str.isalnum, (6, 6), _random, between=".o", exclusive=True),
    Companion("GNU patch, rejects", str.isalnum, (6, 6), _random, between=".r", exclusive=True),
    Companion("renameio (Go)", str.isdecimal, (6, 19), _number, before=".", exclusive=True),
    Companion("os.CreateTemp (Go)", str.isdecimal, (6, 10), _number, exclusive=True, private=True),
    Companion(
        "os.CreateTemp (Go)", str.isdecimal, (6, 10), _number, before=".", between=".", exclusive=True, private=True
    ),
    Companion("busybox sed", str.isalnum, (6, 6), _random, exclusive=True, private=True),
    Companion("helix", str.isalnum, (6, 6), _any, after=".bck"),
)
"""Forms that are told by the file beside them too."""


@dataclass(frozen=True, slots=True)
class TemporaryNames:
    """What a mount takes for temporaries: the defaults or none, the patterns ``added``, and those ``excepted``.

    Patterns are shell patterns of whole names, as those of PATTERNS.
    """

    defaults: bool = True
    added: tuple[str, ...] = ()
    excepted: tuple[str, ...] = ()


DEFAULT_NAMES = TemporaryNames()

_ORDINARY = ("notes.md", "README", "todo", "2024-05-01", "Plan B.txt")
"""What no pattern may all take away: names that have nothing in common but that people use them."""


def check_pattern(pattern: str, option: str) -> str:
    """A pattern that may be added or excepted. Raises InvalidRequest, which names the ``option`` that it came by."""
    if not pattern:
        raise InvalidRequest(f"{option}: the pattern is empty: give a name or a pattern like '*.draft'")
    if "/" in pattern:
        raise InvalidRequest(f"{option}: {pattern!r} has a '/', and a pattern is of a name, in whatever directory")
    if not pattern.isprintable():
        raise InvalidRequest(f"{option}: {pattern!r} holds a character that no name in a store may have")
    if len(pattern.encode()) > MAX_NAME_BYTES:
        raise InvalidRequest(f"{option}: a pattern has at most {MAX_NAME_BYTES} bytes, as a name has")
    if "[" in re.sub(r"\[!?\]?[^]]*\]", "", pattern):
        raise InvalidRequest(f"{option}: {pattern!r} has a '[' without its ']': '[[]' stands for the character itself")
    return pattern


def check_names(names: TemporaryNames) -> TemporaryNames:
    """Raises InvalidRequest where a pattern is none, or would leave nothing that is kept."""
    for option, patterns in (("--temporary", names.added), ("--not-temporary", names.excepted)):
        if len(patterns) > MAX_PATTERNS:
            raise InvalidRequest(f"{option}: at most {MAX_PATTERNS} patterns, not {len(patterns)}")
        for pattern in patterns:
            check_pattern(pattern, option)
    for pattern in names.added:
        if all(re.fullmatch(translate(pattern), name) for name in _ORDINARY):
            raise InvalidRequest(
                f"--temporary: {pattern!r} matches every name, so that nothing would be kept: name the temporaries"
            )
    return names


def _matcher(patterns: Sequence[str]) -> Callable[[str], object]:
    return re.compile("|".join(patterns) or "(?!)", re.DOTALL).fullmatch


class Temporaries:
    """Decides by name and way of making whether a new file is scratch."""

    def __init__(self, names: TemporaryNames = DEFAULT_NAMES) -> None:
        shapes: Sequence[Shape] = SHAPES if names.defaults else ()
        plain = [translate(pattern) for pattern in ((*PATTERNS, *names.added) if names.defaults else names.added)]
        plain += [shape.pattern for shape in shapes if shape.exclusive is None]
        self._plain = _matcher(plain)
        self._excepted = _matcher([translate(pattern) for pattern in names.excepted])
        self._exclusive = [(re.compile(each.pattern), each.private) for each in shapes if each.exclusive]
        self._companions: Sequence[Companion] = COMPANIONS if names.defaults else ()

    def plain(self, name: str) -> bool:
        """Whether a name is a temporary's however it is made, and whatever is beside it."""
        return self._plain(name) is not None and self._excepted(name) is None

    def made(self, name: str, *, exclusive: bool, mode: int, beside: Container[str] = ()) -> bool:
        """Whether a file that is made is scratch: with O_EXCL (``exclusive``) or without, with permission bits ``mode``
        after the umask, ``beside`` the names that its directory has.
        """
        private = stat.S_IMODE(mode) & 0o077 == 0
        return self._excepted(name) is None and (
            self._plain(name) is not None
            or (exclusive and self._made_exclusively(name, private))
            or self._beside(name, beside, "exclusive" if exclusive else "shared", private)
        )

    def renamed(self, name: str, beside: Container[str] = ()) -> bool:
        """Whether a file that gets a name by rename is scratch from then on, as an editor's backup is."""
        return self._excepted(name) is None and (
            self._plain(name) is not None or self._beside(name, beside, "renamed", private=False)
        )

    def _made_exclusively(self, name: str, private: bool) -> bool:
        for pattern, must_be_private in self._exclusive:
            found = pattern.fullmatch(name)
            if found and (private or not must_be_private or _random(found.groupdict().get("drawn", ""))):
                return True
        return False

    def _beside(
        self, name: str, beside: Container[str], way: Literal["exclusive", "shared", "renamed"], private: bool
    ) -> bool:
        return any(
            (each.exclusive is None or (way != "renamed" and each.exclusive is (way == "exclusive")))
            and (private or not each.private)
            and each.match(name, beside)
            for each in self._companions
        )
