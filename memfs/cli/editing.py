"""A text in the person's own editor. Nothing that they typed is lost, whatever happens afterwards."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

from memfs.cli.contents import read_bounded
from memfs.cli.output import note
from memfs.model.errors import MemfsError

VARIABLES = ("VISUAL", "EDITOR")
EDITORS = ("vi", "nano")
"""What is taken where the variables name nothing."""

MAX_NAME_BYTES = 200
"""A memory's name may be longer than a file's; and editors put something before or after it for their own files."""

AT_ONCE_SECONDS = 0.5


def editor() -> list[str]:
    """The words of the command that edits. Raises MemfsError where there is none."""
    for variable in VARIABLES:
        text = os.environ.get(variable, "")
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise MemfsError(f"{variable} is no command ({error}): {text!r}") from None
        if words:
            return words
    for name in EDITORS:
        if shutil.which(name):
            return [name]
    raise MemfsError("there is no editor: set VISUAL or EDITOR to the command of one")


class Draft:
    """A text in a private file with a name of its own, for an editor.

    A context manager. It removes the file, unless the block fails and there is something in it to lose: then the error
    says where it is, and ``how_to_save`` what to do with it, given the error and the file's path in quotes for a shell.
    """

    def __init__(self, name: str, text: bytes, how_to_save: Callable[[MemfsError, str], str]) -> None:
        self.original = text
        self._how_to_save = how_to_save
        # Bytes: a name in UTF-8 can be made in every locale.
        self._name = _file_name(name).encode()

    def __enter__(self) -> "Draft":
        self._directory = os.fsencode(tempfile.mkdtemp(prefix="memfs-"))
        self._path = os.path.join(self._directory, self._name)
        try:
            descriptor = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
            with open(descriptor, "wb") as file:
                file.write(self.original)
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or not self._worth_keeping():
            self._remove()
            return
        path = shlex.quote(os.fsdecode(self._path))
        if isinstance(error, MemfsError):
            # In place: its class has the exit code, and it may hold more than its message.
            error.args = (f"{error}; your text is kept in {path}; {self._how_to_save(error, path)}",)
        else:
            note(f"memfs: your text is kept in {path}")

    def edit(self, command: list[str]) -> bytes:
        """Run an editor until it ends; returns the text then.

        Raises MemfsError where it cannot be started, ends badly or leaves no file, ContentTooLarge.
        """
        started = time.monotonic()
        with _keys_are_the_editors():
            try:
                code = subprocess.run([*command, self._path], check=False).returncode
            except OSError as error:
                raise MemfsError(
                    f"the editor {command[0]!r} cannot be started ({error.strerror}): set VISUAL or EDITOR to another"
                ) from None
        if code:
            how = f"ended with exit code {code}" if code > 0 else f"was ended by {signal.Signals(-code).name}"
            raise MemfsError(f"the editor {command[0]!r} {how}: nothing was saved")
        try:
            text = self._read()
        except FileNotFoundError:
            raise MemfsError(f"the editor {command[0]!r} left no file: nothing was saved") from None
        if text == self.original and time.monotonic() - started < AT_ONCE_SECONDS and sys.stderr.isatty():
            note(
                f"memfs: the editor {command[0]!r} ended at once; if its window is still open, give it the option to"
                " wait, as in VISUAL='code --wait'"
            )
        return text

    def _read(self) -> bytes:
        # By name: many editors save by renaming a new file to it.
        with open(self._path, "rb") as file:
            return read_bounded(file, "the text")

    def _worth_keeping(self) -> bool:
        """Whether more is there than the text as it was; an editor that died may have left a file for recovery."""
        try:
            names = os.listdir(self._directory)
            return bool(names) and (names != [self._name] or self._read() != self.original)
        except (OSError, MemfsError):
            return True

    def _remove(self) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)


def _file_name(name: str) -> str:
    """A file's name for a memory's: the same, or one that has at least its extension."""
    if len(name.encode()) <= MAX_NAME_BYTES:
        return name
    extension = os.path.splitext(name)[1]
    return "memory" + (extension if len(extension.encode()) <= 20 else "")


@contextmanager
def _keys_are_the_editors() -> Iterator[None]:
    """Ctrl-C and Ctrl-\\ reach us as well as the editor; what they mean is its business, and we wait for its end."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGQUIT)}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            # A handler and not SIG_IGN, which the editor would inherit.
            signal.signal(number, lambda _number, _frame: None)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
