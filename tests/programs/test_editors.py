"""vim, nano and emacs, in batch and at a terminal: a save is one version of the memory that was opened."""

import os
import re
import signal
from functools import partial
from pathlib import Path

import pytest

from tests.mount.harness import wait_until
from tests.programs.sides import Sides
from tests.programs.terminal import terminal

pytestmark = [pytest.mark.mount, pytest.mark.programs]

COMPLAINT = re.compile(r"\bE\d+:|\bW\d+:|(?i:warning|error|fail|cannot|denied|not permitted)")


def holds(path: Path, text: str) -> bool:
    """Whether a file is there and has this text."""
    return path.exists() and path.read_text() == text


def lists(directory: Path, names: set[str]) -> bool:
    """Whether a directory has these files and no other."""
    return set(os.listdir(directory)) == names


def kept(sides: Sides, *texts: str) -> None:
    """One memory /f, with these texts as its versions."""
    operations = ["created"] + ["modified"] * (len(texts) - 1)
    assert sides.history() == [("a", operation, "/f", text) for operation, text in zip(operations, texts, strict=True)]


@pytest.mark.parametrize("option", ["backupcopy=auto", "backupcopy=yes", "backupcopy=no", "nowritebackup", "backup"])
def test_vim_saves(sides: Sides, option: str) -> None:
    """However it is told to keep the original while it writes."""
    sides.run(
        "echo one > f; chmod 640 f;"
        f"vim -es -u DEFAULTS -i NONE -c 'set {option}' -c 'norm oA' -c w -c 'norm oB' -c w -c w -c 'norm oC' -c wq f;"
        "rm -f f~; ls -A"
    )
    kept(sides, "one\n", "one\nA\n", "one\nA\nB\n", "one\nA\nB\nC\n")


def test_vim_writes_under_other_names(sides: Sides) -> None:
    sides.run(
        """
        echo one > f
        vim -es -u DEFAULTS -i NONE -c 'norm oA' -c 'saveas g' -c 'norm oB' -c 'w h' -c 'w >> h' -c 'bwipe! f' -c wq f
        vim -es -u DEFAULTS -i NONE -c 'e new' -c 'norm iX' -c x
        vim -es -u DEFAULTS -i NONE -c 'set patchmode=.orig' -c '1,1w! f' -c 'qa!' g
        """
    )
    assert sides.history() == [
        ("a", "created", "/f", "one\n"),
        ("b", "created", "/g", "one\nA\n"),
        ("c", "created", "/h", "one\nA\nB\n"),
        ("c", "modified", "/h", "one\nA\nB\none\nA\nB\n"),
        ("b", "modified", "/g", "one\nA\nB\n"),
        ("d", "created", "/new", "X\n"),
        *sides.history()[6:],
    ]


def test_vim_at_a_terminal(sides: Sides) -> None:
    """`:w` three times; the swap file is there meanwhile and no memory, and undo goes over a restart."""
    shown = []
    for side in sides.both:
        (side.directory / "f").write_text("one\n")
        with terminal(side, ["vim", "-u", "DEFAULTS", "-i", "NONE", "-c", "set undofile", "f"]) as vim:
            vim.wait(r'"f" 1L, 4B')
            for number, word in enumerate(("two", "three", "four"), 2):
                vim.type(f"Go{word}\x1b:w\r")
                vim.wait(rf'"f" {number}L, \d+B written')
            # vim writes its undo file after it has said that it wrote the text.
            wait_until(partial(lists, side.directory, {".f.swp", ".f.un~", "f"}), "the swap and the undo file")
            vim.type(":q\r")
            assert vim.end() == 0
            shown.append(vim.text)
        with terminal(side, ["vim", "-u", "DEFAULTS", "-i", "NONE", "-c", "set undofile", "f"]) as vim:
            vim.wait(r'"f" 4L')
            vim.type("u:wq\r")
            vim.wait(r'"f" 3L, \d+B written')
            assert vim.end() == 0
            shown.append(vim.text)
        (side.directory / ".f.un~").unlink()  # it holds times
    assert not [text for text in shown if COMPLAINT.search(text)]
    sides.agree()
    kept(sides, "one\n", "one\ntwo\n", "one\ntwo\nthree\n", "one\ntwo\nthree\nfour\n", "one\ntwo\nthree\n")


def test_vim_recovers_from_its_swap_file(sides: Sides) -> None:
    """A killed vim's text is not lost, and another vim warns of the swap file as on a disk."""
    for side in sides.both:
        (side.directory / "f").write_text("one\n")
        with terminal(side, ["vim", "-u", "DEFAULTS", "-i", "NONE", "f"]) as vim:
            vim.wait(r'"f" 1L, 4B')
            vim.type("Gotwo\x1b:preserve\r")
            vim.wait(r"File preserved")
            vim.process.send_signal(signal.SIGKILL)
            vim.end()
        with terminal(side, ["vim", "-u", "DEFAULTS", "-i", "NONE", "f"]) as vim:
            vim.wait(r"E325: ATTENTION")
            vim.wait(r"\(A\)bort: ")
            vim.type("a")
            vim.end()
    kept(sides, "one\n")
    sides.run("vim -es -u DEFAULTS -i NONE -r f -c wq > /dev/null 2>&1; rm -f .f.sw?; cat f")
    kept(sides, "one\n", "one\ntwo\n")


@pytest.mark.parametrize("options", [[], ["-B"], ["-G"]], ids=["plain", "backup", "lock"])
def test_nano(sides: Sides, options: list[str]) -> None:
    """Saved twice at a terminal, then once more on leaving."""
    for side in sides.both:
        (side.directory / "f").write_text("one\n")
        with terminal(side, ["nano", "-I", *options, "f"]) as nano:
            nano.wait(r"Read 1 line")
            nano.type("two\r\x13")
            nano.wait(r"Wrote 2 lines")
            nano.type("three\r\x13")
            nano.wait(r"Wrote 3 lines")
            if options == ["-G"]:
                assert ".f.swp" in os.listdir(side.directory)
            nano.type("four\r\x18")
            nano.wait(r"Save modified buffer")
            nano.type("y\r")
            assert nano.end() == 0
            assert not COMPLAINT.search(nano.text), nano.text
        (side.directory / "f~").unlink(missing_ok=True)
    sides.agree()
    kept(sides, "one\n", "two\none\n", "two\nthree\none\n", "two\nthree\nfour\none\n")


EMACS = "emacs -nw -Q --batch --eval "


def test_emacs_in_batch(sides: Sides) -> None:
    """`save-buffer` three times, with its lock and its auto-save file there meanwhile."""
    sides.run(
        "echo one > f; chmod 640 f;"
        + EMACS
        + """'(progn (find-file "f") (auto-save-mode 1) (goto-char (point-max))
            (dolist (word (list "two\n" "three\n" "four\n"))
                (insert word) (do-auto-save)
                (message "%S" (sort (directory-files "." nil "f" t) (function string<)))
                (save-buffer) (message "%S" (file-locked-p buffer-file-name)))
            (kill-buffer))'
        rm -f f~; ls -A
        """
    )
    kept(sides, "one\n", "one\ntwo\n", "one\ntwo\nthree\n", "one\ntwo\nthree\nfour\n")


@pytest.mark.parametrize(
    "setting", ["make-backup-files nil create-lockfiles nil", "backup-by-copying t", "version-control t"]
)
def test_emacs_keeps_its_backups_in_any_way(sides: Sides, setting: str) -> None:
    """It renames or copies the original to a backup, or keeps none."""
    sides.run(
        f'echo one > f; {EMACS}\'(progn (setq {setting}) (find-file "f")'
        ' (insert "x\n") (save-buffer 16) (insert "y\n") (save-buffer 16))\'; rm -f f*~; ls -A'
    )
    kept(sides, "one\n", "x\none\n", "x\ny\none\n")


def test_emacs_with_file_precious_flag_saves_through_a_memory(sides: Sides) -> None:
    """Known: it writes tmpXXXXXX and renames that over the file, and a name like that may be a memory's (tmpreview)."""
    sides.run(
        f'echo one > f; {EMACS}\'(progn (setq file-precious-flag t) (find-file "f")'
        ' (insert "x\n") (save-buffer 16) (insert "y\n") (save-buffer 16))\'; rm -f f*~; ls -A'
    )
    steps = sides.history()
    assert [step for step in steps if step[0] == "a"] == [
        ("a", "created", "/f", "one\n"),
        ("a", "modified", "/f", "x\none\n"),
        ("a", "modified", "/f", "x\ny\none\n"),
    ]
    temporaries = [step for step in steps if step[0] != "a"]
    assert [(step[0], step[1], step[3]) for step in temporaries] == [
        *(("b", "created", ""), ("b", "modified", "x\none\n"), ("b", "deleted", None)),
        *(("c", "created", ""), ("c", "modified", "x\ny\none\n"), ("c", "deleted", None)),
    ]
    assert all(re.fullmatch(r"/tmp[A-Za-z0-9]{6}", str(step[2])) for step in temporaries)


def test_emacs_moves_copies_and_removes(sides: Sides) -> None:
    sides.run(
        "echo one > f;"
        + EMACS
        + """'(progn (setq make-backup-files nil) (find-file "f") (write-file "g") (insert "z\n") (save-buffer)
            (append-to-file "tail\n" nil "g") (rename-file "g" "h") (copy-file "h" "i" nil t) (delete-file "f")
            (make-directory "d/e" t) (rename-file "i" "d/e/"))'"""
    )
    assert sides.history() == [
        ("a", "created", "/f", "one\n"),
        ("b", "created", "/g", "one\n"),
        ("b", "modified", "/g", "z\none\n"),
        ("b", "modified", "/g", "z\none\ntail\n"),
        ("b", "modified", "/h", "z\none\ntail\n"),
        ("c", "created", "/i", "z\none\ntail\n"),
        ("a", "deleted", "/f", None),
        ("c", "modified", "/d/e/i", "z\none\ntail\n"),
    ]


def test_emacs_at_a_terminal(sides: Sides) -> None:
    """Saved twice with C-x C-s."""
    for side in sides.both:
        path = side.directory / "f"
        path.write_text("one\n")
        with terminal(side, ["emacs", "-nw", "-Q", "f"]) as emacs:
            emacs.wait(r"one")
            text = "one\n"
            for number, word in enumerate(("two", "three")):
                emacs.type(f"{word}\r\x18\x13")
                text = text.replace("one", f"{word}\none")
                wait_until(partial(holds, path, text), f"save {number}", 30)
            emacs.type("\x18\x03")
            assert emacs.end() == 0
            assert not COMPLAINT.search(emacs.text), emacs.text
        (side.directory / "f~").unlink(missing_ok=True)
    sides.agree()
    kept(sides, "one\n", "two\none\n", "two\nthree\none\n")
