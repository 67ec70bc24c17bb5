"""What the processes of many sessions work on, and what each line of it belongs to whom.

Everybody works in one store:

    /journal-0.md    lines that are appended; when it is full, /journal-1.md, and so on
    /lines.md        lines of one owner each: first all beside each other, then each between fixed ones
    /contested.md    lines that everybody changes
    /box/            files that come and go: each its owner's, but for some names that all share
    /moving/         files and directories that are renamed by their owner

The owner of a line or file is a process. Processes are numbered so that neighbours are of different sessions.
"""

from dataclasses import dataclass

LINES = "/lines.md"
CONTESTED = "/contested.md"
CONTESTED_LINES = 3
JOURNAL_BYTES = 40_000
"""Where a journal has so much, the next one is written to; far enough from the limit for those who are late."""
DIRECTORIES = ("/box", "/moving", "/moving/a", "/moving/b")
SHARED_NAMES = tuple(f"/box/any-{number}.md" for number in range(4))


@dataclass(frozen=True)
class Work:
    """What one process has to do, for some seconds from when it is told to begin."""

    directory: str
    """Where the store is mounted."""
    locks: str
    """A directory for the locks that the processes of a session have among themselves."""
    log: str
    number: int
    seconds: float
    per_second: float
    """Operations, at most; 0 for as many as can be done."""
    seed: int


def owned(number: int) -> tuple[str, str]:
    """The keys of the lines that a process owns: one among neighbours, one by itself."""
    return f"p{number:02}.n", f"p{number:02}.s"


def line(key: str, value: str) -> str:
    """A line that has an owner, or is contested."""
    return f"{key} = {value}\n"


def first_lines(processes: int) -> str:
    """``LINES`` as everybody finds it."""
    keys = [owned(number) for number in range(processes)]
    neighbours = "".join(line(near, "start") for near, _ in keys)
    apart = "".join(line(alone, "start") + f"a fixed line after {alone}\n" for _, alone in keys)
    return f"# Lines of one owner each\n{neighbours}---\n{apart}"


def first_contested() -> str:
    """``CONTESTED`` as everybody finds it."""
    return "".join(f"a fixed line before\n{line(f'c{n}', 'start')}and one after\n" for n in range(CONTESTED_LINES))


def values(text: str) -> dict[str, str]:
    """Key to value of the lines that have one. A line that is there twice counts as its last."""
    found = {}
    for each in text.splitlines():
        key, separator, value = each.partition(" = ")
        if separator:
            found[key] = value
    return found


def frame(text: str) -> str:
    """A text without the values: what nobody may change."""
    lines = text.splitlines(keepends=True)
    return "".join(f"{each.partition(' = ')[0]} =\n" if " = " in each else each for each in lines)
