"""Compiles memfs/mount/fuse_hints.c where memfs is built or installed (hatchling calls this; see pyproject.toml).

It takes what pyfuse3 takes to be installed: a C compiler and libfuse's headers. Where something is missing memfs works
without, only slower, so that is a warning.
"""

import os
import shlex
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = "memfs/mount/fuse_hints.c"
LIBRARY = "memfs/mount/fuse_hints.so"


class HintsHook(BuildHookInterface[Any]):
    """Adds the compiled library to a wheel, and puts it beside its source for an editable one."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile; ``version`` is "standard" or "editable"."""
        root = Path(self.root)
        try:
            self._compile(root)
        except (OSError, subprocess.CalledProcessError) as error:
            said = (getattr(error, "stderr", None) or str(error)).strip()
            if version == "editable":
                (root / LIBRARY).unlink(missing_ok=True)  # of a source that was another
            self.app.display_warning(f"{SOURCE} was not compiled, so mounts will be slower: {said}")
            return
        build_data["artifacts"].append(f"/{LIBRARY}")
        build_data["pure_python"] = False
        # Not of one Python: nothing of Python's is in it.
        build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"

    def clean(self, versions: list[str]) -> None:
        """Remove what was compiled."""
        (Path(self.root) / LIBRARY).unlink(missing_ok=True)

    @staticmethod
    def _compile(root: Path) -> None:
        found = _run(["pkg-config", "--cflags", "--libs", "fuse3"], root)
        compiler = shlex.split(os.environ.get("CC", "cc"))
        made = f"{LIBRARY}.{os.getpid()}"  # moved into place whole: another worker may be loading the one before
        # It calls libfuse by names that it has itself, so a linker would take libfuse for needless.
        flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-Wl,--no-as-needed"]
        try:
            _run([*compiler, *flags, "-o", made, SOURCE, *shlex.split(found)], root)
            (root / made).replace(root / LIBRARY)
        finally:
            (root / made).unlink(missing_ok=True)


def _run(command: list[str], root: Path) -> str:
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout


def get_build_hook() -> type[HintsHook]:
    """Tell hatchling which class of this file is the hook."""
    return HintsHook
