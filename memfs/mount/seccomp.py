"""The filter for system calls that a sandboxed command gets: no typing into its terminal, no namespaces for users.

With TIOCSTI or TIOCLINUX a command would put a line in the input of the caller's shell, which runs it outside. A new
session would hinder that too, but also job control. Newer kernels refuse TIOCSTI where root has said so.

In a user namespace of its own a command has every privilege over what is in it, and the kernel's code that is reached
so has let people out before. bubblewrap forbids them to ordinary users; root gets its sandbox without one.
"""

import errno
import platform
import struct
import sys

_LOAD, _EQUAL, _AT_LEAST, _ANY_OF, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
"""Instructions of classic BPF: load a word; jump if equal, at least, or any bit is set; end. A jump skips so many where
true, or not."""
_LOW = 0 if sys.byteorder == "little" else 4
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND = 0, 4, 16 + _LOW, 24 + _LOW
"""Offsets in ``struct seccomp_data``: the call, its convention, and the low halves of the first two arguments."""
_ALLOW, _REFUSE, _UNKNOWN = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS

_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_CLONE_NEWUSER = 0x10000000

_CALLS = {
    "x86_64": {0xC000003E: (16, 56, 272), 0x40000003: (54, 120, 310)},
    "aarch64": {0xC00000B7: (29, 220, 97), 0x40000028: (54, 120, 337)},
}
"""By machine, the conventions that it takes calls by (its own, and 32 bits), each with its numbers of ``ioctl``,
``clone`` and ``unshare``."""

_CLONE3 = 435
"""By all conventions. Its flags lie in memory, where no filter can look; who is told that there is no such call uses
``clone``, as the C library does."""

_X32 = 0x40000000
"""From this number on, x86_64 takes calls by a third convention, which nobody uses."""


def system_call_filter() -> bytes | None:
    """The filter as the kernel takes it; None for a machine whose calls are not known here."""
    conventions = _CALLS.get(platform.machine())
    if conventions is None:
        return None
    program: list[tuple[int, int, int, int]] = []
    for architecture, (ioctl, clone, unshare) in conventions.items():
        # What is not of this convention goes on behind this block.
        program += [
            (_LOAD, 0, 0, _ARCHITECTURE),
            (_EQUAL, 0, 14, architecture),
            (_LOAD, 0, 0, _NUMBER),
            (_AT_LEAST, 11, 0, _X32),
            (_EQUAL, 9, 0, _CLONE3),
            (_EQUAL, 5, 0, clone),
            (_EQUAL, 4, 0, unshare),
            (_EQUAL, 0, 5, ioctl),
            (_LOAD, 0, 0, _SECOND),
            (_EQUAL, 5, 0, _TIOCSTI),
            (_EQUAL, 4, 2, _TIOCLINUX),
            (_LOAD, 0, 0, _FIRST),
            (_ANY_OF, 2, 0, _CLONE_NEWUSER),
            (_RETURN, 0, 0, _ALLOW),
            (_RETURN, 0, 0, _UNKNOWN),
            (_RETURN, 0, 0, _REFUSE),
        ]
    program.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
