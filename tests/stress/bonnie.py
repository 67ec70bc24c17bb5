"""bonnie++'s runs on a mount: the creation, finding and removal of 1,024 files, in order and by chance.

The rest of it is left out: what reads and writes one file takes at least a MiB for it, under a name of its own.
"""

from dataclasses import dataclass

FILES = 1024
"""The fewest that it makes, twice in each run."""

LEFT_OUT = {
    "-s": "writes, rewrites and seeks in a file of a MiB or more whose name is no temporary's: a memory has 100 KiB"
}


@dataclass(frozen=True)
class Run:
    """A run: its name, and ``-n``: how many files of which sizes in how many directories."""

    name: str
    files: str
    options: tuple[str, ...] = ()

    def command(self, directory: str, *, root: bool) -> list[str]:
        """``root``: whether root runs it, which bonnie++ wants to be told."""
        user = ["-u", "root"] if root else []
        return ["bonnie++", "-q", "-m", "memfs", "-d", directory, *user, "-s", "0", "-n", self.files, *self.options]


RUNS = (
    Run("empty", "1:0:0:1"),
    Run("texts", "1:102400:1:8"),
    Run("synced", "1:2048:1:4", ("-b",)),
)
