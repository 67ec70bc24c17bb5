"""The tables of programs in docs/semantics.md: what each does to the history, and what is refused."""

import errno
import os
import re
from collections.abc import Iterator

import pytest

from tests.processes import ROOT
from tests.programs.editors import EVALUATE, EX
from tests.programs.sides import Sides

pytestmark = [pytest.mark.mount, pytest.mark.programs]

OUTSIDE = "echo two > $T/f;"
ARCHIVE = f"{OUTSIDE} tar -C $T -cf $T/x.tar f;"
DIFFERENCE = "printf -- '--- f\\n+++ f\\n@@ -1 +1 @@\\n-one\\n+two\\n' > $T/p;"

SAVES = {
    "sed -i": "sed -i s/one/two/ f",
    "perl -pi": "perl -pi -e s/one/two/ f",
    "ex": f"{EX} -c s/one/two/ -c x f",
    "patch": f"{DIFFERENCE} patch -s f $T/p",
    "git merge-file": f"{OUTSIDE} cp f $T/base; git merge-file f $T/base $T/f",
    "tee": "echo two | tee f",
    "tee -a": "echo two | tee -a f",
    "dd": "echo two | dd of=f conv=notrunc status=none",
    "truncate": "truncate -s 2 f",
    "sort -o": f"{OUTSIDE} sort f $T/f -o f",
    "sponge": "echo two | sponge f",
    ">": "echo two > f",
    ">>": "echo two >> f",
    "cp": f"{OUTSIDE} cp $T/f f",
    "cp -b": f"{OUTSIDE} cp -b $T/f f",
    "curl -o": f"{OUTSIDE} curl -s -o f file://$T/f",
    "rsync": f"{OUTSIDE} rsync -c $T/f f",
    "rsync --inplace": f"{OUTSIDE} rsync -c --inplace $T/f f",
    "tar -x --overwrite": f"{ARCHIVE} tar -xf $T/x.tar --overwrite",
    "mktemp": "made=$(mktemp -p .); echo two > $made; mv $made f",
    "NAME.tmp": "echo two > f.tmp; mv f.tmp f",
    "file-precious-flag": f"{EVALUATE}'(progn (setq file-precious-flag t make-backup-files nil)"
    ' (find-file "f") (erase-buffer) (insert "two\n") (save-buffer))\'',
    "mktemp NAME.XXXXXX": "made=$(mktemp ./f.XXXXXX); echo two > $made; mv $made f",
    "sed -i.bak": "sed -i.bak s/one/two/ f",
    "perl -pi.orig": "perl -pi.orig -e s/one/two/ f",
    "patch -b": f"{DIFFERENCE} patch -sb f $T/p",
    "cp -b -S .old": f"{OUTSIDE} cp -b -S .old $T/f f",
    "rsync --backup --suffix=.old": f"{OUTSIDE} rsync -c --backup --suffix=.old $T/f f",
    "backupext=.bak": f"{EX} -c 'set backup backupext=.bak' -c s/one/two/ -c x f",
    "mv": f"{OUTSIDE} mv $T/f f",
    "cp --remove-destination": f"{OUTSIDE} cp --remove-destination $T/f f",
    "install": f"{OUTSIDE} install -m 644 $T/f f",
    "tar -x": f"{ARCHIVE} tar -xf $T/x.tar",
    "unzip -o": f"{OUTSIDE} (cd $T; zip -q x.zip f); unzip -qo $T/x.zip",
    "git apply": f"{DIFFERENCE} git apply -p0 $T/p",
}
"""What the page names, and a script that changes the text of ``f`` so."""

HISTORIES = {
    "`modified`": ["a modified f"],
    "`modified`: the memory takes the backup's name. `created`: another begins at the old one": [
        *("a modified elsewhere", "b created f")
    ],
    "`deleted` and `created`: they remove the file and make another": ["a deleted f", "b created f"],
}
"""What the page says, and the versions that it means."""

LIKE_A_WORD = re.compile(r"/f\.[or]?[A-Za-z0-9]{6}")
"""A name that was drawn and became a memory: one in fourteen looks like what a person would choose."""

REFUSED = {
    "tar -czf": "tar -czf x.tgz f",
    "zip": "zip -q x.zip f",
    "gzip": "gzip -c f > $T/x.gz; cp $T/x.gz .",
    "ln": "ln f g",
    "ln -s": "ln -s f g",
    "mkfifo": "mkfifo g",
    "cp -a": "ln -s f $T/link; cp -a $T/link .",
    "git init": "git init -q .",
    "fallocate -l": "fallocate -l 10 f",
    "chattr": "chattr +i f",
}


def table(title: str) -> dict[str, str]:
    """The code in the first cells of a table of the page, to what the second cell says; up to a semicolon there."""
    section = (ROOT / "docs" / "semantics.md").read_text().partition("## What programs do to the history\n")[2]
    lines = section.partition("\n## ")[0].partition(f"| {title} |")[2].partition("\n\n")[0].splitlines()[2:]
    return dict(_cells(lines))


def _cells(lines: list[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        first, second = line.strip("| ").split(" | ")
        names = re.findall(r"`([^`]+)`", first)
        # "`mktemp` and `mv`" is one way to save; `mv` by itself another.
        together = re.findall(r"`[^`]+` and `(mv)`", first)
        for name in names:
            if name not in together:
                yield name, second


HISTORY_OF = table("a save by")
ERROR_OF = table("refused")


def test_the_page_names_what_is_tried() -> None:
    assert list(HISTORY_OF) == list(SAVES)
    assert set(HISTORY_OF.values()) == set(HISTORIES)
    assert list(ERROR_OF) == list(REFUSED)


@pytest.mark.parametrize("name", SAVES)
def test_a_save(sides: Sides, name: str) -> None:
    sides.run(f"echo one > f; {SAVES[name]}")
    first, *steps = sides.history()
    assert first == ("a", "created", "/f", "one\n")
    if name.startswith(("patch", "mktemp NAME")) and any(LIKE_A_WORD.fullmatch(path) for _, _, path, _ in steps):
        assert steps[-1][1:] == ("modified", "/f", (sides.mount.directory / "f").read_text())
        return
    done = [f"{memory} {operation} {'f' if path == '/f' else 'elsewhere'}" for memory, operation, path, _ in steps]
    assert done == HISTORIES[HISTORY_OF[name]]
    assert (sides.mount.directory / "f").read_text() != "one\n"


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal(sides: Sides, name: str) -> None:
    """The program says the error's text and ends with a status, and the memory stays as it was."""
    said = sides.mount.run(f"echo one > f; {REFUSED[name]}")
    code = re.split("[:;]", ERROR_OF[name])[0]
    if code == "EILSEQ":
        sides.site.expected_log.append("dropped .*: the content is not UTF-8 text")
    text = os.strerror(getattr(errno, code))
    assert said.status not in (0, 127)
    assert text in said.output + said.errors
    sides.saved()
    assert [step for step in sides.history() if step[0] == "a"] == [("a", "created", "/f", "one\n")]
    assert (sides.mount.directory / "f").read_text() == "one\n"
