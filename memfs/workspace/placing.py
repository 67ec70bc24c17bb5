"""A directory that appears whole, or not at all."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memfs.model.errors import InvalidRequest


@contextmanager
def placed_directory(target: Path) -> Iterator[Path]:
    """A directory to fill, which becomes ``target`` when the block ends well; an exception leaves nothing behind.

    ``target`` must be missing, or an empty directory: that one stays what it is (somebody's current directory, a mount)
    and gets what is in the other. Raises InvalidRequest, and OSError that names ``target``.
    """
    try:
        empty = _is_empty_directory(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        filled = target / _temporary_name() if empty else target.with_name(_temporary_name())
        filled.mkdir()
    except OSError as error:
        raise _unwritable(target, error) from error
    try:
        yield filled
        if empty:
            if os.listdir(target) != [filled.name]:
                raise InvalidRequest(f"somebody else has put something into {target} meanwhile: choose another")
            for name in os.listdir(filled):
                os.rename(filled / name, target / name)
        else:
            os.rename(filled, target)  # over an empty directory at most
    except OSError as error:
        raise _unwritable(target, error) from error
    finally:
        shutil.rmtree(filled, ignore_errors=True)


def _is_empty_directory(target: Path) -> bool:
    """Whether there is one; raises InvalidRequest where there is something else."""
    try:
        names = os.listdir(target)
    except FileNotFoundError:
        if target.is_symlink():
            raise InvalidRequest(f"{target} is a link that leads nowhere: choose another name") from None
        return False
    except NotADirectoryError:
        raise InvalidRequest(f"{target} is no directory: choose another name") from None
    if names:
        raise InvalidRequest(f"{target} is not empty: choose a new or an empty directory")
    return True


def _temporary_name() -> str:
    return f".memfs-{secrets.token_hex(8)}.part"


def _unwritable(target: Path, error: OSError) -> OSError:
    return OSError(error.errno, f"{error.strerror or error}; nothing was exported", os.fspath(target))
