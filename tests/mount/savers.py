"""How editors and tools save a file: the calls and names of each, as strace or their sources show them.

A saver gets the directory, the name of a file in it that exists, and its new text. What would be drawn at random is
fixed here, so that a test that passes always does.
"""

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

Saver = Callable[[Path, str, bytes], None]

UUID = "7b0bd0b5-27c0-4c9c-9a4c-0d5f4e0b7a55"
EXCLUSIVE = os.O_RDWR | os.O_CREAT | os.O_EXCL


@contextmanager
def opened(path: Path, flags: int, mode: int = 0o666) -> Iterator[int]:
    """An open file."""
    descriptor = os.open(path, flags, mode)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def put(path: Path, text: bytes, flags: int, mode: int = 0o666, *, permissions: int = 0, sync: bool = False) -> None:
    """Open, write, and what is done before the close."""
    with opened(path, flags, mode) as descriptor:
        assert os.write(descriptor, text) == len(text)
        if permissions:
            os.fchmod(descriptor, permissions)
        if sync:
            os.fsync(descriptor)


def write(path: Path, text: bytes) -> None:
    """Open with O_TRUNC, write, close: what most programs do that save in place."""
    put(path, text, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)


def in_place(directory: Path, name: str, text: bytes) -> None:
    """VS Code, nano, micro, and most agents' tools."""
    write(directory / name, text)


def vim(directory: Path, name: str, text: bytes) -> None:
    """With a swap file, and the old text moved to a backup while the new one is written."""
    swap, second, backup = (directory / each for each in (f".{name}.swp", f".{name}.swx", f"{name}~"))
    put(swap, b"b0VIM 9.1\0\xff", EXCLUSIVE, 0o600)
    put(second, b"", EXCLUSIVE, 0o600)
    second.unlink()
    with opened(directory / "4913", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o100644):
        pass
    (directory / "4913").unlink()
    (directory / name).rename(backup)
    put(directory / name, text, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644, sync=True)
    (directory / name).chmod(0o644)
    backup.unlink()
    swap.unlink()


def vim_with_a_copy(directory: Path, name: str, text: bytes) -> None:
    """With backupcopy=yes, and an undo file."""
    backup, undo = directory / f"{name}~", directory / f".{name}.un~"
    put(backup, (directory / name).read_bytes(), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    put(directory / name, text, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, sync=True)
    put(undo, b"Vim\x9fUnDo\xe5", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    backup.unlink()
    undo.unlink()


@contextmanager
def locked_by_emacs(directory: Path, name: str) -> Iterator[None]:
    """The lock, a file where links cannot be made, and an auto-save file."""
    lock = directory / f".#{name}"
    try:
        os.symlink("ada@host.4711:1700000000", lock)
    except PermissionError:
        made = directory / ".#-emacsQx3fZ1"
        put(made, b"ada@host.4711:1700000000", EXCLUSIVE, 0o600, permissions=0o444)
        made.rename(lock)
    put(directory / f"#{name}#", b"half", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    yield
    (directory / f"#{name}#").unlink()
    lock.unlink()


def emacs(directory: Path, name: str, text: bytes) -> None:
    """The first save of a visit: the old text becomes the backup."""
    with locked_by_emacs(directory, name):
        (directory / name).rename(directory / f"{name}~")
        put(directory / name, text, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, sync=True)
    (directory / f"{name}~").unlink()  # emacs keeps it, which no test needs


def emacs_precious(directory: Path, name: str, text: bytes) -> None:
    """With file-precious-flag."""
    with locked_by_emacs(directory, name):
        made = directory / "tmpNuFHRH"
        with opened(made, EXCLUSIVE, 0o600):
            pass
        put(made, text, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, sync=True)
        made.chmod(0o644)
        made.rename(directory / name)


def renaming(made: str, flags: int, mode: int, **options: bool | int) -> Saver:
    """A saver that writes a temporary, its name by ``{name}``, and renames it over the file."""

    def save(directory: Path, name: str, text: bytes) -> None:
        temporary = directory / made.format(name=name)
        put(
            temporary, text, flags, mode, permissions=int(options.get("permissions", 0)), sync=bool(options.get("sync"))
        )
        temporary.rename(directory / name)

    return save


def jetbrains(directory: Path, name: str, text: bytes) -> None:
    """Safe write: the old text makes way, then the new one takes its place."""
    made, old = directory / f"{name}___jb_tmp___", directory / f"{name}___jb_old___"
    write(made, text)
    (directory / name).rename(old)
    made.rename(directory / name)
    old.unlink()


def helix(directory: Path, name: str, text: bytes) -> None:
    """The old text moved to a backup of its own kind while the new one is written."""
    backup = directory / f"{name}Xa3f9Q.bck"
    (directory / name).rename(backup)
    put(directory / name, text, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, sync=True)
    backup.unlink()


def sponge(directory: Path, name: str, text: bytes) -> None:
    """Its temporary is in TMPDIR: the text is copied from there."""
    with opened(directory / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as descriptor:
        for start in range(0, len(text), 3):
            os.write(descriptor, text[start : start + 3])


def gio(directory: Path, name: str, text: bytes) -> None:
    """g_file_replace() with a backup: gedit."""
    made, backup = directory / ".goutputstream-B0IDG2", directory / f"{name}~"
    put(made, text, EXCLUSIVE, 0o600, permissions=0o644, sync=True)
    try:
        os.link(directory / name, backup)
    except OSError as error:
        if error.errno != errno.EPERM:
            raise
        (directory / name).rename(backup)  # what it does where there are no links
    made.rename(directory / name)
    backup.unlink()


def mktemp(directory: Path, name: str, text: bytes) -> None:
    """A script: t=$(mktemp -p .); … > $t; cat or cp over its mode, mv $t NAME."""
    made = directory / "tmp.yioHnZZ8dM"
    with opened(made, EXCLUSIVE, 0o600):
        pass
    write(made, text)
    shutil.copymode(directory / name, made)
    made.rename(directory / name)


SAVERS: dict[str, Saver] = {
    "in-place": in_place,
    "vim": vim,
    "vim-with-a-copy": vim_with_a_copy,
    "emacs": emacs,
    "emacs-precious": emacs_precious,
    "jetbrains": jetbrains,
    "helix": helix,
    "sponge": sponge,
    "gio": gio,
    "mktemp": mktemp,
    "vscode-atomic": renaming("{name}.vsctmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666),
    "vscode-web": renaming("{name}.crswap", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666),
    "gnu-sed": renaming("sedX9Zcwm", EXCLUSIVE, 0o600, permissions=0o100644),
    "gnu-sed-with-a-word": renaming("sedations", EXCLUSIVE, 0o600, permissions=0o100644),
    "busybox-sed": renaming("{name}X9Zcwm", EXCLUSIVE, 0o600, permissions=0o644),
    "perl": renaming("XXRr1Pz3", EXCLUSIVE, 0o600, permissions=0o100644),
    "rsync": renaming(".{name}.R6Hlek", EXCLUSIVE | os.O_NOFOLLOW, 0o600, permissions=0o644),
    "kakoune": renaming(".{name}.kak.R6Hlek", EXCLUSIVE, 0o600, permissions=0o644),
    "patch": renaming("{name}.oHbIFhx", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644, permissions=0o100644),
    "python-tempfile": renaming("tmpab_1xyz9", EXCLUSIVE | os.O_NOFOLLOW, 0o600, sync=True),
    "write-file-atomic": renaming(
        "{name}.3141592653", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o100644, permissions=0o100644, sync=True
    ),
    "write-file-atomic-short": renaming("{name}.2718281", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o100644, sync=True),
    "atomically": renaming("{name}.tmp-17012345670a1b2c", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666, sync=True),
    "claude-code-time": renaming("{name}.tmp.4711.1764518400123", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666),
    "claude-code-hex": renaming("{name}.tmp.2942327.410b0df6512e", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644),
    "sdk-memory-tool": renaming(f".tmp-4711-{UUID}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644, sync=True),
    "renameio": renaming(".{name}3916589616287113937", EXCLUSIVE, 0o600, permissions=0o644, sync=True),
    "renameio-with-a-mode": renaming(".{name}3916589616287113", EXCLUSIVE, 0o644, sync=True),
    "go-create-temp": renaming("{name}2718281828", EXCLUSIVE, 0o600, permissions=0o644),
    "rust-tempfile": renaming(".tmpAbC12x", EXCLUSIVE, 0o600, sync=True),
    "glib-set-contents": renaming("{name}.B0IDG2", EXCLUSIVE, 0o666, sync=True),
    "qt-savefile": renaming("{name}.qXbUwR", EXCLUSIVE, 0o666, sync=True),
}
"""By program. All of them leave one new version of the file, and nothing beside it."""
