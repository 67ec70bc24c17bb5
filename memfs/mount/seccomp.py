"""The filter for system calls that a sandboxed command gets: it cannot type into the terminal that it shares.

With TIOCSTI or TIOCLINUX a command would put a line in the input of the caller's shell, which runs it outside. A new
session would hinder that too, but also job control. Newer kernels refuse TIOCSTI where root has said so.
"""

import errno
import platform
import struct
import sys

_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
"""Instructions of classic BPF: load a word, jump if equal or at least, end. A jump skips so many where true, or not."""
_NUMBER, _ARCHITECTURE, _REQUEST = 0, 4, 24 if sys.byteorder == "little" else 28
"""Offsets in ``struct seccomp_data``: the call, its convention, and the low half of the second argument."""
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM

_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C

_IOCTL = {
    "x86_64": {0xC000003E: 16, 0x40000003: 54},
    "aarch64": {0xC00000B7: 29, 0x40000028: 54},
}
"""By machine, the conventions that it takes calls by (its own, and 32 bits), each with its number of ``ioctl``."""

_X32 = 0x40000000
"""From this number on, x86_64 takes calls by a third convention, which nobody uses."""


def terminal_filter() -> bytes | None:
    """The filter as the kernel takes it; None for a machine whose calls are not known here."""
    conventions = _IOCTL.get(platform.machine())
    if conventions is None:
        return None
    program: list[tuple[int, int, int, int]] = []
    for architecture, number in conventions.items():
        # What is not of this convention goes on behind this block.
        program += [
            (_LOAD, 0, 0, _ARCHITECTURE),
            (_EQUAL, 0, 7, architecture),
            (_LOAD, 0, 0, _NUMBER),
            (_AT_LEAST, 4, 0, _X32),
            (_EQUAL, 0, 4, number),
            (_LOAD, 0, 0, _REQUEST),
            (_EQUAL, 1, 0, _TIOCSTI),
            (_EQUAL, 0, 1, _TIOCLINUX),
            (_RETURN, 0, 0, _REFUSE),
        ]
    program.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
