"""Signs of life while something takes long: on stderr, and only where that is a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def spinner(text: str) -> Iterator[None]:
    """Something that turns, for work of which nobody knows how far it is."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(text):
        yield


@contextmanager
def progress(text: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A bar that the given function moves on by so many; without ``total`` it only counts."""
    if not sys.stderr.isatty():
        yield lambda _number: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task(text, total=total)
        yield lambda number: bar.advance(task, number)
