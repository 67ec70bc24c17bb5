"""pyfuse3, and what it has no words for: hints that let the kernel ask less.

=================  ==================================================================================================
hint               what the kernel then does
=================  ==================================================================================================
``BY_INODE``       it does not ask for opens any more; ``read`` is given the inode instead of a handle
``NO_FLUSH``       it does not ask when a descriptor of this open file is closed
``KEEP_LISTING``   it keeps what it reads of this directory
``USE_LISTING``    it answers from what it has kept of this directory before
=================  ==================================================================================================

All but the first are given with the number of a handle, as bits that libfuse never sees. A small C library does it,
``fuse_hints.c``, which is compiled when memfs is installed. It stands in front of two functions of libfuse, and so it
must be loaded before pyfuse3; whoever needs pyfuse3 takes it from here. Where it could not be compiled, or pyfuse3 was
loaded before by somebody else, ``given()`` is False, and the kernel asks each time.
"""

import ctypes
from pathlib import Path

LIBRARY = Path(__file__).with_name("fuse_hints.so")

BY_INODE = 1 << 63
NO_FLUSH = 1 << 62
KEEP_LISTING = 1 << 61
USE_LISTING = 1 << 60


def _load() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(str(LIBRARY), mode=ctypes.RTLD_GLOBAL)
    except OSError:  # not compiled, or for another machine
        return None


_library = _load()

import pyfuse3  # noqa: E402 (its calls are bound when it is loaded, so the library has to be there before)

__all__ = ["BY_INODE", "KEEP_LISTING", "LIBRARY", "NO_FLUSH", "USE_LISTING", "given", "pyfuse3"]


def given() -> bool:
    """Whether hints arrive: known once pyfuse3 is initialized, and the same for as long as the process lives."""
    return _library is not None and bool(ctypes.c_int.in_dll(_library, "memfs_hints_used").value)
