"""``python -m memfs.cli`` is the command ``memfs``."""

from memfs.cli.main import main

main(prog_name="memfs")
