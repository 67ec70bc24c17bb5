"""vim, nano and emacs, in batch and at a terminal: a save is one version of the memory that was opened."""

import os
import re
import signal
from functools import partial
from pathlib import Path

import pytest

from tests.mount.harness import wait_until
from tests.programs.editors import EMACS, EVALUATE, EX, VIM
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


@pytest.mark.parametrize(
    "option, left",
    [
        ("backupcopy=auto", "f\n"),
        ("backupcopy=yes", "f\n"),
        ("backupcopy=no", "f\n"),
        ("nowritebackup", "f\n"),
        ("backup", "f\nf~\n"),
        ("backup backupcopy=yes", "f\nf~\n"),
    ],
)
def test_vim_saves(sides: Sides, option: str, left: str) -> None:
    """However it is told to keep the original while it writes."""
    said = sides.run(
        "echo one > f; chmod 640 f;"
        f"{EX} -c 'set {option}' -c 'norm oA' -c w -c 'norm oB' -c w -c w -c 'norm oC' -c wq f;"
        "ls -A"
    )
    assert said == left
    kept(sides, "one\n", "one\nA\n", "one\nA\nB\n", "one\nA\nB\nC\n")


def test_vim_backups_with_other_names_are_memories(sides: Sides) -> None:
    """Known: unless it copies, each save moves the memory to its backup's name, where it ends with the next save."""
    sides.run(f"echo one > f; {EX} -c 'set backup backupext=.bak' -c 'norm oA' -c w -c 'norm oB' -c wq f; ls -A")
    assert sides.history() == [
        ("a", "created", "/f", "one\n"),
        ("a", "modified", "/f.bak", "one\n"),
        ("b", "created", "/f", "one\nA\n"),
        ("a", "deleted", "/f.bak", None),
        ("b", "modified", "/f.bak", "one\nA\n"),
        ("c", "created", "/f", "one\nA\nB\n"),
    ]


def test_vim_copies_the_first_original(sides: Sides) -> None:
    sides.run(f"echo one > f; {EX} -c 'set patchmode=.orig' -c 'norm oA' -c w -c 'norm oB' -c wq f; ls -A")
    assert sides.history() == [
        ("a", "created", "/f", "one\n"),
        ("a", "modified", "/f", "one\nA\n"),
        ("b", "created", "/f.orig", "one\n"),
        ("a", "modified", "/f", "one\nA\nB\n"),
    ]


def test_vim_writes_under_other_names(sides: Sides) -> None:
    sides.run(
        f"""
        echo one > f
        {EX} -c 'norm oA' -c 'saveas g' -c 'norm oB' -c 'w h' -c 'w >> h' -c 'bwipe! f' -c wq f
        {EX} -c 'e new' -c 'norm iX' -c x
        {EX} -c 'norm oC' -c '3,4w! f' -c 'qa!' g
        """
    )
    assert sides.history() == [
        ("a", "created", "/f", "one\n"),
        ("b", "created", "/g", "one\nA\n"),
        ("c", "created", "/h", "one\nA\nB\n"),
        ("c", "modified", "/h", "one\nA\nB\none\nA\nB\n"),
        ("b", "modified", "/g", "one\nA\nB\n"),
        ("d", "created", "/new", "X\n"),
        ("a", "modified", "/f", "B\nC\n"),
    ]


def test_vim_at_a_terminal(sides: Sides) -> None:
    """`:w` three times; the swap file is there meanwhile and no memory, and undo goes over a restart."""
    shown = []
    for side in sides.both:
        (side.directory / "f").write_text("one\n")
        with terminal(side, [*VIM, "-c", "set undofile", "f"]) as vim:
            vim.wait(r'"f" 1L, 4B')
            for number, word in enumerate(("two", "three", "four"), 2):
                vim.type(f"Go{word}\x1b:w\r")
                vim.wait(rf'"f" {number}L, \d+B written')
            # vim writes its undo file after it has said that it wrote the text.
            wait_until(partial(lists, side.directory, {".f.swp", ".f.un~", "f"}), "the swap and the undo file")
            vim.type(":q\r")
            assert vim.end() == 0
            shown.append(vim.text)
        with terminal(side, [*VIM, "-c", "set undofile", "f"]) as vim:
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
        with terminal(side, [*VIM, "f"]) as vim:
            vim.wait(r'"f" 1L, 4B')
            vim.type("Gotwo\x1b:preserve\r")
            vim.wait(r"File preserved")
            vim.process.send_signal(signal.SIGKILL)
            vim.end()
        with terminal(side, [*VIM, "f"]) as vim:
            vim.wait(r"E325: ATTENTION")
            vim.wait(r"\(A\)bort: ")
            vim.type("a")
            vim.end()
    kept(sides, "one\n")
    sides.run(f"{EX} -r f -c wq; rm -f .f.sw?; cat f")
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
        assert lists(side.directory, {"f", "f~"} if options == ["-B"] else {"f"})
    sides.agree()
    kept(sides, "one\n", "two\none\n", "two\nthree\none\n", "two\nthree\nfour\none\n")


def test_emacs_in_batch(sides: Sides) -> None:
    """`save-buffer` three times, with its lock and its auto-save file there meanwhile."""
    said = sides.run(
        "echo one > f; chmod 640 f;"
        + EVALUATE
        + """'(progn (find-file "f") (auto-save-mode 1) (goto-char (point-max))
            (dolist (word (list "two\n" "three\n" "four\n"))
                (insert word) (do-auto-save)
                (message "%S" (sort (directory-files "." nil "f" t) (function string<)))
                (save-buffer) (message "%S" (file-locked-p buffer-file-name)))
            (kill-buffer))'
        ls -A
        """
    )
    assert said == "f\nf~\n"
    kept(sides, "one\n", "one\ntwo\n", "one\ntwo\nthree\n", "one\ntwo\nthree\nfour\n")


@pytest.mark.parametrize(
    "setting, left",
    [
        ("create-lockfiles nil", "f\nf~\n"),
        ("backup-by-copying t", "f\nf~\n"),
        ("version-control t", "f\nf.~1~\nf.~2~\n"),
    ],
)
def test_emacs_keeps_its_backups_in_any_way(sides: Sides, setting: str, left: str) -> None:
    """It renames or copies the original to a backup before each save."""
    said = sides.run(
        f'echo one > f; {EVALUATE}\'(progn (setq {setting}) (find-file "f")'
        ' (insert "x\n") (save-buffer 16) (insert "y\n") (save-buffer 16))\'; ls -A'
    )
    assert said == left
    kept(sides, "one\n", "x\none\n", "x\ny\none\n")


def test_emacs_with_file_precious_flag(sides: Sides) -> None:
    """It writes tmpXXXXXX and renames that over the file."""
    sides.run(
        f'echo one > f; {EVALUATE}\'(progn (setq file-precious-flag t) (find-file "f")'
        ' (insert "x\n") (save-buffer 16) (insert "y\n") (save-buffer 16))\'; ls -A'
    )
    assert sides.history() == [
        ("a", "created", "/f", "one\n"),
        ("a", "modified", "/f", "x\none\n"),
        ("a", "modified", "/f", "x\ny\none\n"),
    ]


def test_emacs_moves_copies_and_removes(sides: Sides) -> None:
    sides.run(
        "echo one > f;"
        + EVALUATE
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
        with terminal(side, [*EMACS, "f"]) as emacs:
            emacs.wait(r"one")
            text = "one\n"
            for number, word in enumerate(("two", "three")):
                emacs.type(f"{word}\r\x18\x13")
                text = text.replace("one", f"{word}\none")
                wait_until(partial(holds, path, text), f"save {number}", 30)
            emacs.type("\x18\x03")
            assert emacs.end() == 0
            assert not COMPLAINT.search(emacs.text), emacs.text
        assert lists(side.directory, {"f", "f~"})
    sides.agree()
    kept(sides, "one\n", "two\none\n", "two\nthree\none\n")
