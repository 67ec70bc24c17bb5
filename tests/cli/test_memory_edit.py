"""``memfs memory edit``, with editors that are scripts: what is saved, and that nothing typed is lost."""

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Protocol

import pytest

from memfs.cli import exits
from memfs.model.errors import Busy
from memfs.model.records import Actor, Guards, Store
from memfs.workspace import Workspace
from memfs.workspace.memories import Memories
from tests.cli.conftest import Run
from tests.cli.terminal import MEMFS, at_terminal
from tests.cli.test_memory import MEMORY_FIELDS, content, one_line, paths
from tests.processes import ROOT, environment

TWO = "printf 'two\\r\\n' >\"$1\""


class Editor(Protocol):
    """Makes a script the editor; it gets the file as $1, and memfs in it uses the test's database."""

    def __call__(self, script: str, name: str = "editor") -> Path: ...


@pytest.fixture
def memory_id(workspace: Workspace, store: Store, actor: Actor) -> str:
    """The memory /a/b.md with the text ``one`` and no newline."""
    return workspace.memories.create(store.id, "/a/b.md", b"one", actor).id


@pytest.fixture
def drafts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go."""
    directory = tmp_path / "temporary files"
    directory.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    return directory


@pytest.fixture
def editor(db: Path, tmp_path: Path, drafts: Path, monkeypatch: pytest.MonkeyPatch) -> Editor:
    """See Editor."""
    command = f'PYTHONPATH={shlex.quote(str(ROOT))} {shlex.join([*MEMFS, "--db", str(db)])} "$@"'

    def editor(script: str, name: str = "editor") -> Path:
        file = tmp_path / name
        file.write_text(f"#!/bin/sh\nset -e\nmemfs() {{ {command}; }}\n{script}\n")
        file.chmod(0o700)
        monkeypatch.setenv("VISUAL", shlex.quote(str(file)))
        return file

    return editor


def kept(stderr: str) -> Path:
    """The file that a refusal says a text is kept in."""
    _, marker, rest = stderr.partition("your text is kept in ")
    assert marker, stderr
    (path,) = shlex.split(rest.splitlines()[0].partition("; to save it")[0])
    return Path(path)


def advice(stderr: str) -> list[str]:
    """The words of the command that a refusal gives, after ``memfs --db DATABASE``."""
    words = shlex.split(stderr.partition(", run: ")[2])
    assert words[:2] == ["memfs", "--db"]
    return words[3:]


def left(drafts: Path) -> list[str]:
    return os.listdir(drafts)


# What is saved


@pytest.mark.parametrize(
    "script",
    [
        TWO,
        'printf \'two\\r\\n\' >"$1.new"; mv "$1.new" "$1"',
        'mv "$1" "$1~"; printf \'two\\r\\n\' >"$1"',
        'rm "$1"; printf \'two\\r\\n\' >"$1"; touch "$(dirname "$1")/.b.md.swp"',
    ],
    ids=["in place", "renamed", "backup", "removed"],
)
@pytest.mark.parametrize("by_id", [False, True])
def test_an_edited_text_is_saved(
    run: Run,
    workspace: Workspace,
    store: Store,
    memory_id: str,
    drafts: Path,
    editor: Editor,
    script: str,
    by_id: bool,
) -> None:
    editor(script)
    result = run("memory", "edit", "user-preferences", memory_id if by_id else "/a/b.md")
    assert result.stdout == f"updated /a/b.md ({memory_id})\n"
    assert result.stderr == ""
    assert content(workspace, store, "/a/b.md") == b"two\r\n"
    (version, _) = workspace.versions.list(store.id)
    assert version.created_by.type == "user_actor"
    assert left(drafts) == []


def test_what_the_editor_gets(run: Run, store: Store, memory_id: str, tmp_path: Path, editor: Editor) -> None:
    seen = tmp_path / "seen"
    editor(f"""
        directory=$(dirname "$1")
        stat -c %a "$directory" "$1" >{shlex.quote(str(seen))}
        basename "$1" >>{shlex.quote(str(seen))}
        ls -A "$directory" >>{shlex.quote(str(seen))}
        cat "$1" >>{shlex.quote(str(seen))}""")
    run("memory", "edit", store.id, "/a/b.md")
    assert seen.read_bytes() == b"700\n600\nb.md\nb.md\none"


@pytest.mark.parametrize("script", ["", 'cat "$1" >"$1.new"; mv "$1.new" "$1"'])
def test_an_unchanged_text_saves_nothing(
    run: Run, workspace: Workspace, store: Store, memory_id: str, drafts: Path, editor: Editor, script: str
) -> None:
    editor(script)
    result = run("memory", "edit", store.id, "/a/b.md")
    assert result.stdout == f"unchanged /a/b.md ({memory_id})\n"
    assert len(workspace.versions.list(store.id)) == 1
    assert left(drafts) == []


def test_a_text_may_become_empty(run: Run, workspace: Workspace, store: Store, memory_id: str, editor: Editor) -> None:
    editor(': >"$1"')
    run("memory", "edit", store.id, "/a/b.md")
    assert content(workspace, store, "/a/b.md") == b""


def test_a_memory_that_is_not_there_is_made(
    run: Run, workspace: Workspace, store: Store, drafts: Path, editor: Editor
) -> None:
    editor(TWO)
    result = run("memory", "edit", store.id, "/new/one.md")
    made = workspace.memories.get(store.id, "/new/one.md")
    assert result.stdout == f"created /new/one.md ({made.id})\n"
    assert made.content == b"two\r\n"
    assert left(drafts) == []


def test_but_not_an_empty_one(run: Run, workspace: Workspace, store: Store, drafts: Path, editor: Editor) -> None:
    editor("")
    result = run("memory", "edit", store.id, "/new")
    assert result.stdout == ""
    assert "no memory was made" in result.stderr
    assert paths(workspace, store) == []
    assert left(drafts) == []


def test_what_edit_prints(run: Run, store: Store, memory_id: str, editor: Editor) -> None:
    editor('echo more >>"$1"')
    for format_ in ("json", "jsonl"):
        item = json.loads(run("memory", "edit", store.id, "/a/b.md", "--format", format_).stdout)
        assert list(item) == MEMORY_FIELDS
        assert (item["id"], item["content"]) == (memory_id, None)
    assert run("memory", "edit", store.id, "/a/b.md", "-q").stdout == f"{memory_id}\n"
    editor("")
    assert run("memory", "edit", store.id, "/a/b.md", "-q").stdout == f"{memory_id}\n"
    item = json.loads(run("memory", "edit", store.id, "/a/b.md", "--format", "json").stdout)
    assert (item["content_sha256"], item["content"]) == (sha256(b"onemore\nmore\nmore\n").hexdigest(), None)


@pytest.mark.parametrize(
    "name, expected", [("é -x.md", "é -x.md"), ("n" * 500 + ".md", "memory.md"), ("n." + "m" * 500, "memory")]
)
def test_the_file_is_named_like_the_memory(
    run: Run, workspace: Workspace, store: Store, actor: Actor, editor: Editor, name: str, expected: str
) -> None:
    workspace.memories.create(store.id, f"/d/{name}", b"", actor)
    editor('basename "$1" >"$1"')
    run("memory", "edit", store.id, f"/d/{name}")
    assert content(workspace, store, f"/d/{name}").decode() == f"{expected}\n"


# Which editor


def test_the_variables_hold_words_as_a_shell_reads_them(
    run: Run, workspace: Workspace, store: Store, memory_id: str, editor: Editor, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = editor('printf %s "$1|$2" >"$3"')
    words = f"{shlex.quote(str(script))} --wait 'two words'"
    for visual, second in ((words, "false"), ("", words), ("  ", words), (None, words)):
        workspace.memories.update(store.id, memory_id, Actor("user_actor", "alice"), content=b"one")
        monkeypatch.setenv("EDITOR", second)
        if visual is None:
            monkeypatch.delenv("VISUAL")
        else:
            monkeypatch.setenv("VISUAL", visual)
        run("memory", "edit", store.id, "/a/b.md")
        assert content(workspace, store, "/a/b.md") == b"--wait|two words"


def test_without_variables_an_editor_is_looked_for(
    run: Run,
    workspace: Workspace,
    store: Store,
    memory_id: str,
    tmp_path: Path,
    drafts: Path,
    editor: Editor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    editor('echo nano >"$1"', "nano")
    monkeypatch.delenv("VISUAL")
    monkeypatch.delenv("EDITOR", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    run("memory", "edit", store.id, "/a/b.md")
    assert content(workspace, store, "/a/b.md") == b"nano\n"
    editor('echo vi >"$1"', "vi")
    monkeypatch.delenv("VISUAL")
    run("memory", "edit", store.id, "/a/b.md")
    assert content(workspace, store, "/a/b.md") == b"vi\n"
    monkeypatch.setenv("PATH", str(drafts))
    assert "set VISUAL or EDITOR" in one_line(run("memory", "edit", store.id, "/a/b.md", code=exits.REFUSED).stderr)


@pytest.mark.parametrize(
    "command, reason", [("/no/such editor", "No such file"), ("/", "denied"), ("'/no/such", "No closing quotation")]
)
def test_an_editor_that_cannot_be_started(
    run: Run,
    store: Store,
    memory_id: str,
    drafts: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    reason: str,
) -> None:
    monkeypatch.setenv("VISUAL", command)
    for path in ("/a/b.md", "/new"):
        result = run("memory", "edit", store.id, path, code=exits.REFUSED)
        assert reason in one_line(result.stderr)
        assert "VISUAL" in result.stderr
    assert left(drafts) == []


def test_an_editor_that_does_not_wait_is_explained_to_a_person(db: Path, store: Store, memory_id: str) -> None:
    sent = at_terminal(db, "memory", "edit", store.id, "/a/b.md", VISUAL="true")
    assert "code --wait" in sent
    assert "unchanged /a/b.md" in sent


# What is not saved, and not lost


@pytest.mark.parametrize("path", ["/a/b.md", "/new"])
def test_an_editor_that_fails_saves_nothing(
    run: Run, workspace: Workspace, store: Store, memory_id: str, drafts: Path, editor: Editor, path: str
) -> None:
    editor("exit 3")
    assert "ended with exit code 3" in one_line(run("memory", "edit", store.id, path, code=exits.REFUSED).stderr)
    assert left(drafts) == []
    editor(f"{TWO}; exit 3")
    stderr = one_line(run("memory", "edit", store.id, path, code=exits.REFUSED).stderr)
    assert kept(stderr).read_bytes() == b"two\r\n"
    assert len(workspace.versions.list(store.id)) == 1
    run(*advice(stderr))
    assert content(workspace, store, path) == b"two\r\n"


def test_what_an_editor_left_for_recovery_is_kept_when_it_dies(
    run: Run, store: Store, memory_id: str, editor: Editor
) -> None:
    editor('printf typed >"$(dirname "$1")/.b.md.swp"; kill -9 $$')
    stderr = one_line(run("memory", "edit", store.id, "/a/b.md", code=exits.REFUSED).stderr)
    assert "SIGKILL" in stderr
    assert (kept(stderr).parent / ".b.md.swp").read_bytes() == b"typed"


def test_an_editor_that_takes_the_file_away(
    run: Run, workspace: Workspace, store: Store, memory_id: str, drafts: Path, editor: Editor
) -> None:
    editor('rm "$1"')
    assert "left no file" in one_line(run("memory", "edit", store.id, "/a/b.md", code=exits.REFUSED).stderr)
    assert left(drafts) == []
    editor('mv "$1" "$1.other"')
    stderr = one_line(run("memory", "edit", store.id, "/a/b.md", code=exits.REFUSED).stderr)
    assert (kept(stderr).parent / "b.md.other").read_bytes() == b"one"
    assert content(workspace, store, "/a/b.md") == b"one"


def test_a_change_by_somebody_else_is_not_overwritten(
    run: Run, workspace: Workspace, store: Store, memory_id: str, editor: Editor
) -> None:
    editor(f"memfs memory update {store.id} /a/b.md --content theirs >/dev/null; {TWO}")
    result = run("memory", "edit", store.id, "/a/b.md", code=exits.CONFLICT)
    assert result.stdout == ""
    assert "over what is there now" in one_line(result.stderr)
    assert content(workspace, store, "/a/b.md") == b"theirs"
    file = kept(result.stderr)
    assert file.read_bytes() == b"two\r\n"
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    run(*advice(result.stderr))
    assert content(workspace, store, "/a/b.md") == b"two\r\n"


def test_a_move_by_somebody_else_does_not_matter(
    run: Run, workspace: Workspace, store: Store, memory_id: str, editor: Editor
) -> None:
    editor(f"memfs memory update {store.id} /a/b.md --path /moved >/dev/null; {TWO}")
    assert run("memory", "edit", store.id, "/a/b.md").stdout == f"updated /moved ({memory_id})\n"
    assert content(workspace, store, "/moved") == b"two\r\n"


@pytest.mark.parametrize(
    "path, theirs, code, command",
    [
        ("/a/b.md", "delete {} /a/b.md", exits.NOT_FOUND, "create"),
        ("/new", "create {} /new --content theirs", exits.CONFLICT, "update"),
    ],
)
def test_a_memory_that_came_or_went_meanwhile(
    run: Run,
    workspace: Workspace,
    store: Store,
    memory_id: str,
    editor: Editor,
    path: str,
    theirs: str,
    code: int,
    command: str,
) -> None:
    editor(f"memfs memory {theirs.format(store.id)} >/dev/null; {TWO}")
    stderr = one_line(run("memory", "edit", store.id, path, code=code).stderr)
    assert advice(stderr)[:2] == ["memory", command]
    run(*advice(stderr))
    assert content(workspace, store, path) == b"two\r\n"


@pytest.mark.parametrize(
    "script, reason",
    [
        ("head -c 102401 /dev/zero | tr '\\0' x >\"$1\"", "102400 bytes"),
        ("printf '\\377' >\"$1\"", "not UTF-8"),
        ('printf 123456 >"$1"', "guard"),
    ],
    ids=["too large", "not UTF-8", "guard"],
)
@pytest.mark.parametrize("path", ["/a/b.md", "/new it's"])
def test_a_text_that_is_refused_is_kept(
    run: Run,
    workspace: Workspace,
    store: Store,
    memory_id: str,
    editor: Editor,
    path: str,
    script: str,
    reason: str,
) -> None:
    workspace.stores.set_guards(store.id, Guards(max_content_bytes=5))
    editor(script)
    code = exits.REFUSED if reason == "guard" else exits.INVALID
    stderr = one_line(run("memory", "edit", "user-preferences", path, code=code).stderr)
    assert reason in stderr
    assert kept(stderr).stat().st_size in (102_401, 1, 6)
    kept(stderr).write_text("good")
    run(*advice(stderr))
    assert content(workspace, store, path) == b"good"


@pytest.mark.parametrize("error", [Busy("busy"), KeyboardInterrupt(), OSError("broken"), ZeroDivisionError("fault")])
def test_whatever_goes_wrong_the_text_is_kept(
    run: Run,
    store: Store,
    memory_id: str,
    editor: Editor,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
) -> None:
    def fail(*arguments: object, **named: object) -> None:
        raise error

    editor(TWO)
    monkeypatch.setattr(Memories, "update", fail)
    code = {Busy: exits.TRY_AGAIN, KeyboardInterrupt: exits.INTERRUPTED, OSError: exits.REFUSED}
    result = run("memory", "edit", store.id, "/a/b.md", code=code.get(type(error), exits.INTERNAL))
    assert kept(result.stderr).read_bytes() == b"two\r\n"


def test_what_can_never_be_saved_is_refused_before_anything_is_typed(
    run: Run, workspace: Workspace, store: Store, memory_id: str, tmp_path: Path, editor: Editor
) -> None:
    started = tmp_path / "started"
    editor(f"touch {shlex.quote(str(started))}")
    stderr = one_line(run("memory", "edit", store.id, "/a", code=exits.CONFLICT).stderr)
    assert "is a directory" in stderr
    assert f"memfs memory list {store.id} --prefix /a/" in stderr
    for path in ("a", "/x/", "/../x"):
        one_line(run("memory", "edit", store.id, path, code=exits.INVALID).stderr)
    gone = "mem_01M8NMQFRP7HNTABQQHZR3KZM6"
    one_line(run("memory", "edit", store.id, gone, code=exits.NOT_FOUND).stderr)
    one_line(run("memory", "edit", "nothing", "/a/b.md", code=exits.NOT_FOUND).stderr)
    workspace.stores.set_guards(store.id, Guards(allowed_paths=("/c/**",)))
    for path in ("/a/b.md", "/new"):
        assert "guard" in one_line(run("memory", "edit", store.id, path, code=exits.REFUSED).stderr)
    workspace.stores.archive(store.id)
    assert "archived" in one_line(run("memory", "edit", store.id, "/a/b.md", code=exits.REFUSED).stderr)
    assert not started.exists()


# Ctrl-C


def test_ctrl_c_belongs_to_the_editor(
    db: Path, workspace: Workspace, store: Store, memory_id: str, tmp_path: Path, editor: Editor
) -> None:
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    # Not a shell's trap: one that comes while it starts its next command is lost.
    code = f"""
import signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
open({str(ready)!r}, "w").close()
signal.sigwait([signal.SIGINT])
open(sys.argv[1], "w").write("caught")
"""
    script = editor(f'exec {shlex.join([sys.executable, "-c", code])} "$1"')
    # A shell that ran the tests in the background may have made them ignore the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = subprocess.Popen(
            [*MEMFS, "--db", db, "memory", "edit", store.id, "/a/b.md"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(VISUAL=shlex.quote(str(script)), TMPDIR=str(tmp_path)),
            start_new_session=True,
        )
    finally:
        signal.signal(signal.SIGINT, before)
    with process:
        ready.read_bytes()
        os.killpg(process.pid, signal.SIGINT)
        output, errors = process.communicate()
    assert (process.returncode, errors) == (0, b"")
    assert output.startswith(b"updated /a/b.md")
    assert content(workspace, store, "/a/b.md") == b"caught"
    assert [name for name in os.listdir(tmp_path) if name.startswith("memfs-")] == []
