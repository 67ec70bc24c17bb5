"""Files that appear whole or not at all."""

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from memfs.cli.asking import refuse


@contextmanager
def whole_file(path: Path, *, force: bool) -> Iterator[BinaryIO]:
    """Write a file that only its owner can read; it is there once the block has ended well, with all of it.

    Ends the command where there is a file already, unless ``force`` replaces it. Raises OSError.
    """
    target = Path(os.path.realpath(path))  # a link stays, and what it leads to is replaced
    _check(path, target, force)
    descriptor, name = tempfile.mkstemp(prefix=".memfs-", suffix=".tmp", dir=target.parent)
    try:
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(descriptor)
        if force:
            os.rename(name, target)
        else:
            _rename_to_nothing(name, path, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(name)
        raise


def _check(path: Path, target: Path, force: bool) -> None:
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        if not target.parent.is_dir():
            refuse(f"{path} cannot be written: there is no directory {target.parent}; make it first")
        return
    if not stat.S_ISREG(mode):
        refuse(f"{path} is not a file: name one, or '-' for standard output")
    if not force:
        _refuse_to_replace(path)


def _refuse_to_replace(path: Path) -> None:
    refuse(f"{path} is there already: choose another name, or replace it with --force")


def _rename_to_nothing(name: str, path: Path, target: Path) -> None:
    """A rename that replaces nothing, not even what appeared meanwhile."""
    try:
        os.link(name, target)
    except FileExistsError:
        _refuse_to_replace(path)
    except OSError:  # a filesystem without hard links
        if os.path.lexists(target):
            _refuse_to_replace(path)
        os.rename(name, target)
    else:
        os.unlink(name)
