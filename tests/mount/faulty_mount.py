"""The command ``memfs`` with faults: run by a test, in a process of its own.

``MEMFS_TEST_FAULT`` names a file, and the file the handler of the mount that raises; none where it is empty. The faults
are put inside of what guards the handlers, so that the guard is the product's own.
"""

import functools
import inspect
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from memfs.cli.main import main
from memfs.mount import refusals
from memfs.mount.operations import StoreOperations
from memfs.vfs.looking import Looking

UNGUARDED = "forget"
"""The one handler that is none: nobody waits for an answer, so it guards itself."""


def handlers() -> list[str]:
    """The names of all handlers of a mount."""
    return [name for name, value in vars(StoreOperations).items() if inspect.iscoroutinefunction(value)]


def _fail_where_told(name: str) -> None:
    if Path(os.environ["MEMFS_TEST_FAULT"]).read_text() == name:
        raise RuntimeError(f"a fault forced in {name}")


def _put_inside(name: str) -> None:
    guarded = vars(StoreOperations)[name]
    inside = guarded.__closure__[guarded.__code__.co_freevars.index("function")]
    function: Callable[..., Awaitable[Any]] = inside.cell_contents

    @functools.wraps(function)
    async def faulty(*args: Any, **kwargs: Any) -> Any:
        _fail_where_told(name)
        return await function(*args, **kwargs)

    inside.cell_contents = faulty


def plant() -> None:
    """Plant a fault in every handler."""
    for name in handlers():
        if name != UNGUARDED:
            _put_inside(name)
    forget = Looking.forget

    def faulty(self: Looking, inode: int, count: int) -> None:
        _fail_where_told(UNGUARDED)
        forget(self, inode, count)

    Looking.forget = faulty  # type: ignore[method-assign]  # that is the fault
    refusals.BURST = 1_000  # each fault is to be logged, however quickly they come


if __name__ == "__main__":
    plant()
    main(prog_name="memfs")
