"""``memfs memory``: what scripts and people get from it. ``edit`` and ``expire`` have files of their own."""

import json
import os
import subprocess
import threading
from hashlib import sha256
from pathlib import Path

import pytest

from memfs.cli import exits
from memfs.model import ids
from memfs.model.mutations import Create, Update
from memfs.model.records import MAX_CONTENT_BYTES, MAX_MEMORIES, Actor, Guards, Store
from memfs.workspace import Workspace
from tests.cli.conftest import Run
from tests.cli.terminal import MEMFS, at_terminal
from tests.processes import environment

MEMORY_FIELDS = [
    "id",
    "type",
    "memory_store_id",
    "memory_version_id",
    "path",
    "content",
    "content_size_bytes",
    "content_sha256",
    "created_at",
    "updated_at",
]
SESSION = Actor("session_actor", "sesn_01M8NMQFRP7HNTABQQHZR3KZM6")
NO_HASH = "0" * 64


@pytest.fixture
def memory_id(workspace: Workspace, store: Store, actor: Actor) -> str:
    """A memory that was made as /old by a person and changed and moved to /a/b.md by an agent."""
    made = ids.new_id(ids.MEMORY)
    workspace.memories.apply(store.id, [Create(made, "/old", b"one\n")], actor)
    workspace.memories.apply(store.id, [Update(made, content="é\r\n\0".encode(), path="/a/b.md")], SESSION)
    return made


def content(workspace: Workspace, store: Store, path: str) -> bytes:
    found = workspace.memories.get(store.id, path).content
    assert found is not None
    return found


def paths(workspace: Workspace, store: Store) -> list[str]:
    return [memory.path for memory in workspace.memories.list(store.id)]


def one_line(text: str) -> str:
    """A refusal: one line, and nothing of Python in it."""
    assert text.startswith("memfs: ")
    assert text.count("\n") == 1
    assert "fault" not in text
    return text


# list and show


def test_list(run: Run, workspace: Workspace, store: Store, actor: Actor, memory_id: str) -> None:
    workspace.memories.apply(store.id, [Create(ids.new_id(ids.MEMORY), "/a_b", b"x" * 100)], actor)
    table = [line.split() for line in run("memory", "list", "user-preferences").stdout.splitlines()]
    assert table[0] == ["PATH", "BYTES", "UPDATED", "ID"]
    assert [row[:2] for row in table[1:]] == [["/a/b.md", "5"], ["/a_b", "100"]]
    assert table[1][3] == memory_id
    loaded = json.loads(run("memory", "list", store.id, "--format", "json").stdout)
    assert [list(item) for item in loaded] == [MEMORY_FIELDS] * 2
    assert (loaded[0]["type"], loaded[0]["content"]) == ("memory", None)
    lines = run("memory", "list", store.id, "--format", "jsonl").stdout.splitlines()
    assert [json.loads(line) for line in lines] == loaded
    for format_ in ("table", "json"):
        quiet = run("memory", "list", store.id, "-q", "--format", format_).stdout
        assert quiet.splitlines() == [item["id"] for item in loaded]


def test_list_below_a_prefix(run: Run, store: Store, memory_id: str) -> None:
    assert "/a/b.md" in run("memory", "list", store.id, "--prefix", "/a/").stdout
    assert "/a/b.md" not in run("memory", "list", store.id, "--prefix", "/b/").stdout
    assert "prefix" in run("memory", "list", store.id, "--prefix", "/a", code=exits.INVALID).stderr


def test_list_of_one_level(run: Run, workspace: Workspace, store: Store, actor: Actor, memory_id: str) -> None:
    for path in ("/a/c/d", "/a/c/e", "/z"):
        workspace.memories.create(store.id, path, b"", actor)
    table = [line.split() for line in run("memory", "list", store.id, "--depth", "1").stdout.splitlines()]
    assert [row[0] for row in table[1:]] == ["/a/", "/z"]
    assert table[1] == ["/a/"]
    loaded = json.loads(run("memory", "list", store.id, "--depth", "1", "--prefix", "/a/", "--format", "json").stdout)
    assert loaded[0]["id"] == memory_id
    assert loaded[1] == {"path": "/a/c/", "type": "memory_prefix"}
    assert len(loaded) == 2
    quiet = run("memory", "list", store.id, "--depth", "1", "--prefix", "/a/", "-q").stdout
    assert quiet == f"{memory_id}\n", "a directory has no id"
    assert len(run("memory", "list", store.id, "--depth", "0", "-q").stdout.splitlines()) == 4
    for depth in ("2", "-1", "x"):
        run("memory", "list", store.id, "--depth", depth, code=exits.INVALID)


def test_show_prints_the_exact_bytes(run: Run, store: Store, memory_id: str) -> None:
    for text in ("/a/b.md", memory_id):
        result = run("memory", "show", store.id, text)
        assert result.stdout_bytes == "é\r\n\0".encode()
        assert result.stderr == ""
    for format_ in ("json", "jsonl"):
        item = json.loads(run("memory", "show", store.id, "/a/b.md", "--format", format_).stdout)
        assert list(item) == MEMORY_FIELDS
        assert item["content"] == "é\r\n\0"
        assert item["id"] == memory_id


@pytest.mark.parametrize(
    "path, code", [("/nothing", exits.NOT_FOUND), ("a/b.md", exits.INVALID), ("/\udcff", exits.INVALID)]
)
@pytest.mark.parametrize("words", [["show"], ["update", "--content", "x"], ["delete"]], ids=lambda words: words[0])
def test_a_memory_that_is_not_there(
    run: Run, store: Store, memory_id: str, words: list[str], path: str, code: int
) -> None:
    result = run("memory", words[0], store.id, path, *words[1:], code=code)
    assert result.stdout == ""
    one_line(result.stderr)


def test_json_lines_stay_lines_whatever_a_memory_holds(
    run: Run, workspace: Workspace, store: Store, actor: Actor
) -> None:
    text = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\r\nh\x7f\x9b31m\u202e".encode()
    workspace.memories.apply(store.id, [Create(ids.new_id(ids.MEMORY), "/a", text)], actor)
    output = run("memory", "show", store.id, "/a", "--format", "jsonl").stdout
    assert len(output.splitlines()) == 1
    assert output.removesuffix("\n").isprintable()
    assert json.loads(output)["content"].encode() == text


# Where a content comes from


@pytest.mark.parametrize("text", ["", "no newline", "one\r\ntwo\r\n", "\ufeffBOM\n", "- a list", "-", "é\u2028", "\n"])
@pytest.mark.parametrize("way", ["content", "file", "file -", "-"])
def test_a_content_is_stored_byte_for_byte(
    run: Run, workspace: Workspace, store: Store, tmp_path: Path, way: str, text: str
) -> None:
    data = text.encode()
    file = tmp_path / "text"
    file.write_bytes(data)
    ways = {"content": ["--content", text], "file": ["--file", str(file)], "file -": ["--file", "-"], "-": ["-"]}
    words = ways[way]
    stdin = data if way in ("file -", "-") else b"not this"
    run("memory", "create", store.id, "/a", *words, stdin=stdin)
    assert content(workspace, store, "/a") == data
    run("memory", "create", store.id, "/b", "--content", "other")
    run("memory", "update", store.id, "/b", *words, stdin=stdin)
    assert content(workspace, store, "/b") == data


@pytest.mark.parametrize("data", [b"\0", b"x" * MAX_CONTENT_BYTES, "\U0001f600".encode() * (MAX_CONTENT_BYTES // 4)])
def test_what_no_command_line_can_hold(
    run: Run, workspace: Workspace, store: Store, tmp_path: Path, data: bytes
) -> None:
    file = tmp_path / "text"
    file.write_bytes(data)
    run("memory", "create", store.id, "/a", "--file", file)
    run("memory", "create", store.id, "/b", "-", stdin=data)
    assert content(workspace, store, "/a") == content(workspace, store, "/b") == data


@pytest.mark.parametrize("data", [b"x" * (MAX_CONTENT_BYTES + 1), b"\xff", b"text \xe9", "x".encode("utf-16")])
def test_what_no_memory_can_hold(run: Run, workspace: Workspace, store: Store, tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "text"
    file.write_bytes(data)
    sources: list[list[str | Path]] = [["--file", file], ["-"]]
    if b"\0" not in data:
        sources.append(["--content", os.fsdecode(data)])
    run("memory", "create", store.id, "/there", "--content", "as it was")
    for words in sources:
        for command, path in (("create", "/a"), ("update", "/there")):
            result = run("memory", command, store.id, path, *words, stdin=data, code=exits.INVALID)
            assert result.stdout == ""
            assert ("102400" in one_line(result.stderr)) == (len(data) > MAX_CONTENT_BYTES)
    assert paths(workspace, store) == ["/there"]
    assert content(workspace, store, "/there") == b"as it was"


def test_a_pipe_is_a_file(run: Run, workspace: Workspace, store: Store, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"through a pipe\n",))
    writer.start()
    run("memory", "create", store.id, "/a", "--file", pipe)
    writer.join()
    assert content(workspace, store, "/a") == b"through a pipe\n"


def test_an_endless_file_is_not_read_to_its_end(run: Run, db: Path, store: Store) -> None:
    assert (
        "/dev/zero has more"
        in run("memory", "create", store.id, "/a", "--file", "/dev/zero", code=exits.INVALID).stderr
    )
    with open("/dev/zero", "rb") as endless:
        result = subprocess.run(
            [*MEMFS, "--db", db, "memory", "create", store.id, "/a", "-"],
            stdin=endless,
            capture_output=True,
            env=environment(),
            check=False,
        )
    assert result.returncode == exits.INVALID
    assert "standard input has more" in one_line(result.stderr.decode())


def test_bytes_on_a_real_command_line(db: Path, workspace: Workspace, store: Store) -> None:
    command: list[str | bytes] = [*MEMFS, "--db", str(db), "memory", "create", store.id]
    for locale in ("C", "C.UTF-8"):
        env = environment(LC_ALL=locale, PYTHONCOERCECLOCALE="0", PYTHONUTF8="0")
        path = f"/{locale}"
        done = subprocess.run([*command, path, "--content", "é".encode()], env=env, capture_output=True, check=True)
        assert done.stdout.startswith(f"created {path}".encode())
        assert content(workspace, store, path) == "é".encode()
        bad = subprocess.run([*command, "/bad", "--content", b"\xff"], env=env, capture_output=True, check=False)
        assert bad.returncode == exits.INVALID
        assert "not UTF-8" in one_line(bad.stderr.decode())


def test_a_file_that_cannot_be_read(run: Run, workspace: Workspace, store: Store, tmp_path: Path) -> None:
    for file, reason in ((tmp_path, "Is a directory"), (tmp_path / "no", "No such file"), (Path("/proc/self/mem"), "")):
        result = run("memory", "create", store.id, "/a", "--file", file, code=exits.INVALID)
        assert f"{file} cannot be read: {reason}" in one_line(result.stderr)
    assert paths(workspace, store) == []


@pytest.mark.parametrize("command", ["create", "update"])
def test_one_content_and_not_several(run: Run, store: Store, memory_id: str, command: str) -> None:
    for words in (["--content", "", "-"], ["--file", "x", "-"], ["--content", "x", "--file", "-"]):
        stderr = run("memory", command, store.id, "/a/b.md", *words, code=exits.INVALID).stderr
        assert f"Usage: memfs memory {command}" in stderr
        assert "one content" in stderr
    stderr = run("memory", command, store.id, "/a/b.md", "a text", code=exits.INVALID).stderr
    assert "--content TEXT" in stderr
    run("memory", command, store.id, "/a/b.md", "-", "-", code=exits.INVALID)


def test_a_content_may_be_typed(db: Path, workspace: Workspace, store: Store) -> None:
    sent = at_terminal(db, "memory", "create", store.id, "/a", "-", typed="typed\n\x04")
    assert "Ctrl-D" in sent
    assert content(workspace, store, "/a") == b"typed\n"


# create


def test_create(run: Run, workspace: Workspace, store: Store) -> None:
    result = run("memory", "create", "user-preferences", "/a/b.md", "--content", "x")
    made = workspace.memories.get(store.id, "/a/b.md")
    assert result.stdout == f"created /a/b.md ({made.id})\n"
    assert result.stderr == ""
    (version,) = workspace.versions.list(store.id)
    assert version.created_by.type == "user_actor"
    for format_, path in (("json", "/c"), ("jsonl", "/d")):
        item = json.loads(run("memory", "create", store.id, path, "--content", "x", "--format", format_).stdout)
        assert list(item) == MEMORY_FIELDS
        assert (item["path"], item["content"], item["content_size_bytes"]) == (path, None, 1)
        assert item["content_sha256"] == sha256(b"x").hexdigest()
    quiet = run("memory", "create", store.id, "/e", "-q", "--content", "x").stdout
    assert quiet == f"{workspace.memories.get(store.id, '/e').id}\n"


def test_create_without_a_content_says_the_three_ways(run: Run, workspace: Workspace, store: Store) -> None:
    stderr = run("memory", "create", store.id, "/a", code=exits.INVALID).stderr
    assert "Usage: memfs memory create" in stderr
    for way in ("--content", "--file", "- for standard input"):
        assert way in stderr
    assert paths(workspace, store) == []


def test_create_never_overwrites(run: Run, workspace: Workspace, store: Store, memory_id: str) -> None:
    before = content(workspace, store, "/a/b.md")
    result = run("memory", "create", store.id, "/a/b.md", "--content", "x", code=exits.CONFLICT)
    assert result.stdout == ""
    assert "memfs memory update" in one_line(result.stderr)
    assert memory_id in result.stderr
    for path in ("/a", "/a/b.md/c"):
        stderr = run("memory", "create", store.id, path, "--content", "x", code=exits.CONFLICT).stderr
        assert "above or below" in one_line(stderr)
        assert "update" not in stderr
    assert content(workspace, store, "/a/b.md") == before
    assert len(workspace.versions.list(store.id)) == 2


@pytest.mark.parametrize("path", ["a", "/", "/a/", "/a//b", "/../a", "/\udcff", "/a\n", "/" + "x" * 1_024])
def test_a_path_that_no_memory_may_have(run: Run, store: Store, memory_id: str, path: str) -> None:
    one_line(run("memory", "create", store.id, path, "--content", "x", code=exits.INVALID).stderr)
    one_line(run("memory", "update", store.id, memory_id, "--path", path, code=exits.INVALID).stderr)


def test_a_store_that_is_not_there_is_told_before_anything_is_read(run: Run, store: Store, tmp_path: Path) -> None:
    for command in ("create", "update"):
        stderr = run("memory", command, "nothing", "/a", "--file", tmp_path / "no", code=exits.NOT_FOUND).stderr
        assert "nothing" in one_line(stderr)


def test_nothing_is_written_to_an_archived_store(run: Run, workspace: Workspace, store: Store, memory_id: str) -> None:
    workspace.stores.archive(store.id)
    for words in (["create", store.id, "/b"], ["update", store.id, "/a/b.md"]):
        assert "archived" in one_line(run("memory", *words, "--content", "x", code=exits.REFUSED).stderr)
    run("memory", "show", store.id, "/a/b.md")
    run("memory", "delete", store.id, "/a/b.md")
    assert paths(workspace, store) == []


def test_a_full_store(run: Run, workspace: Workspace, store: Store, actor: Actor) -> None:
    filling = [Create(ids.new_id(ids.MEMORY), f"/{number}", b"") for number in range(MAX_MEMORIES)]
    workspace.memories.apply(store.id, filling, actor)
    one_line(run("memory", "create", store.id, "/one-more", "--content", "x", code=exits.REFUSED).stderr)


def test_guards_hold_for_the_command_line_too(run: Run, workspace: Workspace, store: Store, memory_id: str) -> None:
    workspace.stores.set_guards(store.id, Guards(max_content_bytes=5, allowed_paths=("/a/**",)))
    for words in (
        ["create", store.id, "/a/c", "--content", "123456"],
        ["create", store.id, "/c", "--content", "x"],
        ["update", store.id, "/a/b.md", "--content", "123456"],
        ["update", store.id, "/a/b.md", "--path", "/c"],
    ):
        assert "guard" in one_line(run("memory", *words, code=exits.REFUSED).stderr)
    assert paths(workspace, store) == ["/a/b.md"]


def test_what_a_guard_masked_is_said(run: Run, workspace: Workspace, store: Store) -> None:
    workspace.stores.set_guards(store.id, Guards(secrets="mask"))
    key = "AKIA" + "QWERTYUIOPASDFGH"
    result = run("memory", "create", store.id, "/a", "--content", f"key {key}\n")
    assert "masked" in result.stderr
    assert key.encode() not in content(workspace, store, "/a")
    assert run("memory", "create", store.id, "/b", "--content", "no key\n").stderr == ""
    assert "masked" in run("memory", "update", store.id, "/b", "--content", f"{key}\n").stderr


# update


def test_update(run: Run, workspace: Workspace, store: Store, memory_id: str) -> None:
    for path in ("/a/b.md", memory_id):
        result = run("memory", "update", "user-preferences", path, "--content", f"by {path}")
        assert result.stdout == f"updated /a/b.md ({memory_id})\n"
        assert result.stderr == ""
        assert content(workspace, store, "/a/b.md") == f"by {path}".encode()
    for format_ in ("json", "jsonl"):
        item = json.loads(run("memory", "update", store.id, memory_id, "-", "--format", format_, stdin=b"x").stdout)
        assert list(item) == MEMORY_FIELDS
        assert (item["id"], item["content"], item["content_size_bytes"]) == (memory_id, None, 1)
    assert run("memory", "update", store.id, "/a/b.md", "-q", "--content", "y").stdout == f"{memory_id}\n"
    assert len(workspace.versions.list(store.id)) == 6


def test_update_moves(run: Run, workspace: Workspace, store: Store, memory_id: str) -> None:
    before = content(workspace, store, "/a/b.md")
    assert run("memory", "update", store.id, "/a/b.md", "--path", "/c").stdout == f"updated /c ({memory_id})\n"
    assert content(workspace, store, "/c") == before
    run("memory", "update", store.id, "/c", "--path", "/d/e", "--content", "both")
    assert paths(workspace, store) == ["/d/e"]
    assert content(workspace, store, memory_id) == b"both"
    run("memory", "create", store.id, "/taken", "--content", "x")
    one_line(run("memory", "update", store.id, "/d/e", "--path", "/taken", code=exits.CONFLICT).stderr)


def test_an_update_that_changes_nothing_makes_no_version(
    run: Run, workspace: Workspace, store: Store, memory_id: str
) -> None:
    before = workspace.versions.list(store.id)
    same = content(workspace, store, "/a/b.md")
    for words in (["-"], ["--path", "/a/b.md"], ["-", "--path", "/a/b.md"], ["-", "--if-sha256", NO_HASH]):
        result = run("memory", "update", store.id, "/a/b.md", *words, stdin=same)
        assert result.stdout == f"unchanged /a/b.md ({memory_id})\n"
    assert run("memory", "update", store.id, "/a/b.md", "-q", "-", stdin=same).stdout == f"{memory_id}\n"
    assert workspace.versions.list(store.id) == before


def test_update_of_nothing_is_wrong_usage(run: Run, store: Store, memory_id: str) -> None:
    for words in ([], ["--if-sha256", NO_HASH], ["-q"]):
        stderr = run("memory", "update", store.id, "/a/b.md", *words, code=exits.INVALID).stderr
        assert "Usage: memfs memory update" in stderr
        assert "--path NEW" in stderr
        assert "--content TEXT" in stderr


def test_a_change_only_of_what_was_read(run: Run, workspace: Workspace, store: Store, memory_id: str) -> None:
    right = sha256(content(workspace, store, "/a/b.md")).hexdigest()
    run("memory", "update", store.id, "/a/b.md", "--content", "x", "--if-sha256", right.upper())
    for words in (["update", "--content", "y"], ["update", "--path", "/c"], ["delete"]):
        result = run("memory", words[0], store.id, "/a/b.md", *words[1:], "--if-sha256", right, code=exits.CONFLICT)
        assert result.stdout == ""
        assert "read it again" in one_line(result.stderr)
        wrong = run("memory", words[0], store.id, "/a/b.md", *words[1:], "--if-sha256", "abc", code=exits.INVALID)
        assert "64 hexadecimal digits" in one_line(wrong.stderr)
    assert content(workspace, store, "/a/b.md") == b"x"


# delete


@pytest.mark.parametrize("by_id", [False, True])
def test_delete(run: Run, workspace: Workspace, store: Store, memory_id: str, by_id: bool) -> None:
    sha = sha256(content(workspace, store, "/a/b.md")).hexdigest()
    result = run("memory", "delete", store.id, memory_id if by_id else "/a/b.md", "--if-sha256", sha)
    assert result.stdout == f"deleted /a/b.md ({memory_id}); its history stays\n"
    assert paths(workspace, store) == []
    assert [version.operation for version in workspace.versions.list(store.id)] == ["deleted", "modified", "created"]
    one_line(run("memory", "delete", store.id, memory_id, code=exits.NOT_FOUND).stderr)


def test_what_delete_answers(run: Run, workspace: Workspace, store: Store, actor: Actor) -> None:
    for options, expected in (
        (["--format", "json"], '{{\n  "id": "{}",\n  "type": "memory_deleted"\n}}\n'),
        (["--format", "jsonl"], '{{"id": "{}", "type": "memory_deleted"}}\n'),
        (["-q"], "{}\n"),
    ):
        made = workspace.memories.create(store.id, "/a", b"", actor)
        assert run("memory", "delete", store.id, "/a", *options).stdout == expected.format(made.id)


# Completion


def offers(db: Path, line: str, words: int, shell: str = "bash") -> list[str]:
    """What a shell would be offered, given the line so far."""
    names = {"COMP_WORDS": line, "COMP_CWORD": str(words), "MEMFS_DB": str(db)}
    result = subprocess.run(
        MEMFS,
        capture_output=True,
        text=True,
        env=environment(_MEMFS_COMPLETE=f"{shell}_complete", **names),
        check=False,
    )
    assert result.stderr == ""
    lines = result.stdout.splitlines()
    return lines[1::3] if shell == "zsh" else [line.partition(",")[2] for line in lines if line]


def test_paths_are_completed_a_directory_at_a_time(db: Path, workspace: Workspace, store: Store, actor: Actor) -> None:
    for path in ("/editor/vim.md", "/editor/emacs.md", "/style.md", "/deep/er/alone.md", "/my notes.md"):
        workspace.memories.create(store.id, path, b"", actor)
    show = "memfs memory show user-preferences"
    assert offers(db, f"{show} ", 4) == ["/deep/", "/editor/", "/my\\ notes.md", "/style.md"]
    assert offers(db, f"{show} ", 4, "zsh") == ["/deep/", "/editor/", "/my notes.md", "/style.md"]
    assert offers(db, f"{show} /s", 4) == ["/style.md"]
    assert offers(db, f"{show} /editor/v", 4) == ["/editor/vim.md"]
    # A directory alone would get a space behind it.
    assert offers(db, f"{show} /e", 4) == ["/editor/emacs.md", "/editor/vim.md"]
    assert offers(db, f"{show} /d", 4) == ["/deep/er/alone.md"]
    assert offers(db, f"{show} /my\\ n", 4) == ["/my\\ notes.md"]
    assert offers(db, "memfs memory update user-preferences /style.md --path /editor/", 6) == [
        "/editor/emacs.md",
        "/editor/vim.md",
    ]
    some_id = workspace.memories.get(store.id, "/style.md").id
    assert offers(db, f"{show} {some_id[:-1]}", 4) == [some_id]


def test_a_path_that_cannot_be_completed_is_not(tmp_path: Path, db: Path, store: Store) -> None:
    assert offers(db, "memfs memory show nothing /", 4) == []
    assert offers(db, "memfs memory show user-preferences x", 4) == []
    assert offers(db, "memfs memory show user-preferences /", 4) == []
    assert offers(tmp_path / "none.db", "memfs memory show user-preferences /", 4) == []


def test_completion_takes_the_database_that_is_named(
    tmp_path: Path, db: Path, workspace: Workspace, store: Store, actor: Actor
) -> None:
    workspace.memories.create(store.id, "/a", b"", actor)
    none = tmp_path / "none.db"
    assert offers(none, f"memfs --db {db} memory show user-preferences /", 6) == ["/a"]
    assert offers(none, f"memfs memory show --db {db} user-preferences /", 6) == ["/a"]
    assert offers(none, f"memfs memory show --db {db} us", 5) == ["user-preferences"]
