"""Thousands of hostile paths: by the tool, the API, the command line and imports nothing but a store is ever touched.

What must be refused is judged by an oracle (oracle.py) and not by the code. What it leaves open may be an error, or
else a literal name: a memory at exactly that path.
"""

import io
import itertools
import json
import os
import random
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from urllib.parse import quote

import pytest
from click.testing import CliRunner

from memfs.cli import exits
from memfs.cli.main import main
from memfs.model.records import Actor, Store
from memfs.tool import MemoryCommands
from memfs.workspace import Workspace
from memfs.workspace.archives import archive
from memfs.workspace.sources import directory
from tests.api.harness import Answer, serving
from tests.api.wire import Wire
from tests.tool.handling import SESSION, Tool
from tests.tool.oracle import leads_away, possible
from tests.workspace.transfers import imported, member, memories, packed

ROOT = "/memories"

# ---- the paths -------------------------------------------------------------------------------------------------------

DOTS = [
    "..",
    "%2e%2e",
    "%2E%2e",
    ".%2e",
    "%2e.",
    "%252e%252e",
    "%25%32%65%25%32%65",
    "%25252e%25252e",
    "%u002e%u002e",
    "%c0%ae%c0%ae",
    "%e0%80%ae%e0%80%ae",
    "%f0%80%80%ae%f0%80%80%ae",
    "%25c0%25ae%25c0%25ae",
    ".. ",
    " ..",
    "..%20",
    "..%09",
    "．．",
    "․․",
    "‥",
    "%ef%bc%8e%ef%bc%8e",
    "%e2%80%a5",
    "﹒﹒",
    "..%00",
    "..\0",
    "..;",
    "...",
    "....",
    ".\u200b.",
    "\u202e..",
    "..\u2028",
    "..\ufeff",
    "..\r\n",
    "..\x7f",
    ".",
    "%2e",
    "．",
    "&#46;&#46;",
    "\\u002e\\u002e",
    "\\x2e\\x2e",
    "~",
    "$HOME",
    "`id`",
    "${IFS}",
]

SEPARATORS = [
    "/",
    "\\",
    "%2f",
    "%2F",
    "%5c",
    "%252f",
    "%255c",
    "%25%32%66",
    "%c0%af",
    "%e0%80%af",
    "%c1%9c",
    "%u002f",
    "//",
    "/./",
    "\\\\",
    "/%2f",
    "／",
    "＼",
    "∕",
    "⁄",
    "%ef%bc%8f",
    "\u2028",
    "\0",
]

TARGETS = ["etc/passwd", "secret.txt", "canary", "x", "", "memories/a", "memfs.db"]

WHOLE = [
    "",
    "/",
    "//",
    ".",
    "..",
    "../memories",
    "memories",
    "memories/a",
    "./memories/a",
    " /memories/a",
    "/memories /a",
    "\ufeff/memories/a",
    "/Memories/a",
    "/MEMORIES/a",
    "/memoriesX",
    "/memoriesX/a",
    "/memoriesfoo",
    "/memories.",
    "/memories..",
    "/memories../a",
    "/memories..\\a",
    "/memories%2f..",
    "/memories%2fa",
    "/memories%00/a",
    "/memories\0",
    "/memories\0/a",
    "/memories\\a",
    "/memories\\..\\a",
    "/memories;/a",
    "/memories?/a",
    "/memories#/a",
    "/memories:stream",
    "//memories/a",
    "///memories/a",
    "/./memories/a",
    "/x/../memories/a",
    "/memories/",
    "/memories//",
    "/memories///a",
    "/memories//etc/passwd",
    "/memories/./",
    "/memories/a/",
    "/memories/a//",
    "/memories/a/./b",
    "/ｍemories/a",
    "/mem\u043eries/a",
    "/etc/passwd",
    "/proc/self/environ",
    "/dev/null",
    "/tmp/x",
    "/mnt/memory/x",
    "~/a",
    "~root/a",
    "C:\\memories\\a",
    "C:/memories/a",
    "c:a",
    "/c:/memories/a",
    "\\\\server\\share\\a",
    "//server/share/a",
    "\\\\?\\C:\\a",
    "\\\\.\\pipe\\a",
    "\\memories\\a",
    "file:///memories/a",
    "file:///etc/passwd",
    "file://localhost/memories/a",
    "file:/memories/a",
    "http://localhost/memories/a",
    "data:text/plain,x",
    "/memories/file:///etc/passwd",
    "/memories/C:\\Windows\\a",
    "/memories/C:",
    "/memories/\\\\server\\share",
    "/memories/a:b:$DATA",
    "/memories/NUL",
    "/memories/con.txt",
    "/memories/a.",
    "/memories/a ",
    "/memories/ ",
    "/memories/-rf",
    "/memories/--help",
    "/memories/*",
    "/memories/[a-z]",
    "/memories/%",
    "/memories/_",
    "/memories/%_%",
    "/memories/'; DROP TABLE memories; --",
    "/memories/a\tb",
    "/memories/a\nb",
    "/memories/a\rb",
    "/memories/a\x1b[2Jb",
    "/memories/a\x85b",
    "/memories/a\u202eb",
    "/memories/a\u2066b",
    "/memories/a\u2029b",
    "/memories/a\u00adb",
    "/memories/a\U000e0001b",
    "/memories/e\u0301",
    "/memories/\u212b",
    "/memories/\u1112\u1161\u11ab",
    "/memories/\ud800",
    "/memories/\udc80x",
    "\udcff/memories/a",
    "/memories/\ue000\U0010fffe",
    "/memories/%ff%fe",
    "/memories/%zz",
    "/memories/100%25",
    "/memories/%",
    "/memories/" + "x" * 255,
    "/memories/" + "x" * 1023,
    "/memories/" + "x" * 1024,
    "/memories/" + "é" * 512,
    "/memories/" + "x" * 100_000,
    "/memories/" + "../" * 5_000 + "etc/passwd",
    "/memories/" + "%25" * 300 + "2e%2e/x",
    "/memories/%" + "25" * 450 + "2e./x",
    "/memories/" + "%2e%2e%2f" * 100 + "x",
    "/memories" + "/d" * 20,
    "/memories" + "/d" * 21,
    "/memories" + "/d" * 10_000,
    "/memories/a -> /etc/passwd",
    "/memories/.git/config",
    "/memories/.git",
    "/memories/lost+found",
    "/memories/notes..md",
    "/memories/..a",
    "/memories/a..",
    "/memories/a/..b/c..",
    "/memories/.hidden",
]

HARMLESS = [
    "notes..md",
    "..a",
    "a..",
    "...",
    ".hidden/.x",
    "100%",
    "50%25 off",
    "a%20b",
    "c++/C#.md",
    "a b/ c",
    "日本/é_%.md",
    "~/x",
    "-rf",
    "'quoted' \"twice\"",
    "a:b",
    "a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q/r/s/t",
    "x" * 1023,
    "\U0001f600",
]
"""Ordinary names that look odd: whoever refuses these refuses too much."""


def hostile() -> list[str]:
    """Every whole path, and dots, separators and targets in many combinations; the same ones each time."""
    paths = list(WHOLE)
    for dots, separator in itertools.product(DOTS, SEPARATORS):
        for target in ("x", "etc/passwd"):
            paths.append(f"{ROOT}/{dots}{separator}{target}")
        paths.append(f"{ROOT}/d{separator}{dots}")
    chance = random.Random(0)
    for _ in range(1_000):
        parts = [
            chance.choice([*DOTS, "a", "b.md", "d"]) + chance.choice(SEPARATORS) for _ in range(chance.randrange(1, 5))
        ]
        start = chance.choice([f"{ROOT}/", f"{ROOT}/", f"{ROOT}/d/", ROOT, "/", ""])
        paths.append(start + "".join(parts) + chance.choice(TARGETS))
    return list(dict.fromkeys(paths))


PATHS = hostile()

# ---- the verdict -----------------------------------------------------------------------------------------------------


def must_be_refused(path: str) -> bool:
    """By the tool."""
    if not path.startswith(f"{ROOT}/") or leads_away(path):
        return True
    return not possible(path.removeprefix(ROOT))


def test_the_oracle_knows_its_trade() -> None:
    refused = [path for path in PATHS if must_be_refused(path)]
    assert len(PATHS) > 3_500
    assert 2_000 < len(refused) < len(PATHS) - 500
    for path in (
        "/memories/../x",
        "/memories/a/..\\x",
        "/memories/%252e%252e/x",
        "/memoriesfoo",
        "/memories/a\0b",
        "/x",
    ):
        assert must_be_refused(path), path
    for name in HARMLESS:
        assert not must_be_refused(f"{ROOT}/{name}"), name


# ---- the canary ------------------------------------------------------------------------------------------------------


def tree(top: Path) -> dict[str, object]:
    """All below a directory: contents, where links lead, and times of change; but not the databases."""
    found: dict[str, object] = {}
    for path in [top, *top.rglob("*")]:
        if not path.name.startswith("memfs.db"):
            status = path.lstat()
            what = (
                os.readlink(path)
                if path.is_symlink()
                else path.read_bytes()
                if path.is_file()
                else sorted(each.name for each in path.iterdir() if not each.name.startswith("memfs.db"))
            )
            times = 0 if path == top else status.st_mtime_ns  # SQLite's own files come and go in the top
            found[str(path.relative_to(top))] = (what, status.st_mode, times)
    return found


@pytest.fixture(autouse=True)
def canary(db: Path) -> Iterator[None]:
    """A tree around the database with all that the paths are after; the tests run in the midst of it."""
    top = db.parent
    inside = top / "memories"
    for name in ("memories/a", "memories/d/x", "memoriesX/a", "etc/passwd", "secret.txt", "canary", "x", "d/e/f"):
        file = top / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"untouched {name}")
    (inside / "ln").symlink_to("../secret.txt")
    before = tree(top)
    with chdir(inside):
        yield
    assert tree(top) == before


# ---- the tool --------------------------------------------------------------------------------------------------------


def calls_on(path: str) -> Iterator[dict[str, object]]:
    """All other commands on a path, and a rename from it and to it."""
    yield {"command": "view", "path": path}
    yield {"command": "str_replace", "path": path, "old_str": "text", "new_str": "changed"}
    yield {"command": "insert", "path": path, "insert_line": 0, "insert_text": "changed"}
    yield {"command": "delete", "path": path}
    yield {"command": "rename", "old_path": path, "new_path": f"{ROOT}/new.md"}
    yield {"command": "rename", "old_path": f"{ROOT}/there.md", "new_path": path}


def test_by_the_tool(workspace: Workspace, store: Store, caplog: pytest.LogCaptureFixture) -> None:
    tool = Tool(workspace, store)
    tool.put("/there.md", "text\n")
    literal = 0
    for path in PATHS:
        result = tool.commands.handle({"command": "create", "path": path, "file_text": "text\n"})
        if result.is_error:
            for call in calls_on(path):
                answer = tool.commands.handle(call)
                if must_be_refused(path) and not (call["command"] == "view" and path in (ROOT, f"{ROOT}/")):
                    assert answer.is_error, call
                assert "untouched" not in answer.content
            continue
        assert not must_be_refused(path), path
        literal += 1
        inside = path.removeprefix(ROOT)
        assert tool.files == {inside: "text\n", "/there.md": "text\n"}, path
        assert tool.ok("view", path).endswith("     1\ttext")
        tool.ok("delete", f"{ROOT}/{inside.split('/')[1]}")
    assert (tool.files, tool.kept) == ({"/there.md": "text\n"}, [])
    assert {version.path for version in tool.versions()} <= {path.removeprefix(ROOT) for path in PATHS} | {"/there.md"}
    assert literal > 500
    assert caplog.records == [], "an exception that nobody expected is logged"


def test_by_the_tool_on_several_stores(workspace: Workspace, store: Store) -> None:
    tool, other = Tool(workspace, store), Tool(workspace, workspace.stores.create("other"))
    other.put("/secret.md", "untouched")
    before = other.versions()
    commands = MemoryCommands(
        {
            "d": workspace.attached(store.id, SESSION, "read_write"),
            "other": workspace.attached(other.store.id, SESSION, "read_write"),
        }
    )
    for path in PATHS:
        if path.startswith(f"{ROOT}/other/"):
            continue
        for each in (path, path.replace(f"{ROOT}/", f"{ROOT}/d/", 1)):
            result = commands.handle({"command": "create", "path": each, "file_text": "text\n"})
            if not result.is_error:
                assert not leads_away(each), each
                assert commands.handle({"command": "delete", "path": each}).content == f"Successfully deleted {each}"
    assert other.versions() == before
    assert len(tool.versions()) > 1_000


def test_what_only_looks_odd_is_a_name(workspace: Workspace, store: Store) -> None:
    tool = Tool(workspace, store)
    for name in HARMLESS:
        path = f"{ROOT}/{name}"
        assert tool.ok("create", path, file_text="x") == f"File created successfully at: {path}"
    assert set(tool.files) == {f"/{name}" for name in HARMLESS}


# ---- the API, the command line and imports: what a memory's path can be ----------------------------------------------

INSIDE = list(dict.fromkeys(path.removeprefix(ROOT) for path in PATHS))


def nameable(text: str) -> bool:
    """Whether the system can have such a name: bytes that are no UTF-8 are surrogates of the lower half."""
    return not any("\ud800" <= character < "\udc80" for character in text)


def test_every_path_by_the_api(workspace: Workspace, store: Store, db: Path) -> None:
    top = f"/v1/memory_stores/{store.id}/memories"
    with serving(db, "--rate", "0", "--no-access-log") as server, Wire(server.url, server.key) as wire:
        headers = [("content-type", "application/json")]
        for path in INSIDE:
            made = wire.ask("POST", top, json.dumps({"path": path, "content": "text"}).encode(), headers)
            assert made.status == (200 if possible(path) else 400), path
            if made.status == 200:
                assert made.json["path"] == path
                assert wire.ask("DELETE", f"{top}/{made.json['id']}").status == 200
    assert memories(workspace, store) == {}
    made_at = {version.path for version in workspace.versions.list(store.id)}
    assert made_at == {path for path in INSIDE if possible(path)}
    assert len(INSIDE) > 3_000


def test_every_path_by_the_command_line(workspace: Workspace, store: Store, db: Path) -> None:
    for path in INSIDE:
        if "\0" in path:  # no argument of a command can hold it
            continue
        words = ["--db", str(db), "memory", "create", "--content", "text", "--", store.id, path]
        result = CliRunner().invoke(main, words, prog_name="memfs")
        assert result.exit_code == (0 if possible(path) else exits.INVALID), (path, result.output)
        if result.exit_code == 0:
            made = workspace.memories.get(store.id, path)
            workspace.memories.delete(store.id, made.id, SESSION)
    assert memories(workspace, store) == {}


def test_by_the_api(workspace: Workspace, store: Store, db: Path) -> None:
    """A sample: each path is four to eight requests. What is too long for a request's first line is none of it."""
    there = {"/there.md": b"text"}

    def below(prefix: str) -> list[str]:
        return sorted(path for path in there if path.startswith(prefix))

    with serving(db, "--rate", "0") as server, Wire(server.url, server.key) as wire:
        top = f"/v1/memory_stores/{store.id}/memories"

        def ask(method: str, target: str, body: object = None) -> Answer:
            data = None if body is None else json.dumps(body).encode()
            answer = wire.ask(method, target, data, [("content-type", "application/json")])
            assert answer.status in (200, 400, 404), (method, target, answer)
            assert b"untouched" not in answer.body
            assert answer.status == 200 or answer.json["type"] == "error"
            return answer

        memory = f"{top}/{ask('POST', top, {'path': '/there.md', 'content': 'text'}).ok()['id']}"
        sample = random.Random(4).sample([path for path in INSIDE if len(path) < 4096], 200)
        assert 40 < len([path for path in sample if possible(path)]) < 160
        for path in sample:
            wanted = 200 if possible(path) else 400
            made = ask("POST", top, {"path": path, "content": "text"})
            assert made.status == wanted, path
            assert memories(workspace, store) == there | ({path: b"text"} if possible(path) else {}), path
            if possible(path):
                ask("DELETE", f"{top}/{made.json['id']}").ok()
            assert ask("POST", memory, {"path": path}).status == wanted, path
            assert memories(workspace, store) == ({path: b"text"} if possible(path) else there), path
            if possible(path):
                ask("POST", memory, {"path": "/there.md"}).ok()
            encoded = quote(path.encode(errors="surrogatepass"), safe="")
            listed = ask("GET", f"{top}?path_prefix={encoded}/")
            if path.isprintable():  # not with halves of characters: percent-encoded they are none
                assert listed.status == (200 if path == "" or possible(path) else 400), path
            if listed.status == 200:
                assert [item["path"] for item in listed.json["data"]] == below(path + "/"), path
            segments = {encoded}
            if path.isascii() and path.isprintable() and not {" ", "?", "#"} & set(path):
                segments |= {path, path.removeprefix("/")}
            for segment in segments:  # a path is no memory's id, and leads to no other resource
                for method in ("GET", "DELETE"):
                    assert ask(method, f"{top}/{segment}").status == 404, (method, segment)
        assert memories(workspace, store) == there
        assert [found.id for found in workspace.stores.list()] == [store.id]


def test_by_the_command_line(workspace: Workspace, store: Store, db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MEMFS_DB", "MEMFS_DEBUG", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)

    def code(*arguments: str) -> int:
        result = CliRunner().invoke(main, ["--db", str(db), "memory", *arguments], prog_name="memfs")
        assert result.exit_code in (0, exits.INVALID, exits.NOT_FOUND), (arguments, result.output)
        assert result.exit_code == 0 or result.stderr.startswith("memfs: "), (arguments, result.output)
        assert "untouched" not in result.output
        return result.exit_code

    sample = random.Random(1).sample([path for path in INSIDE if "\0" not in path and len(path) < 4096], 150)
    assert 30 < len([path for path in sample if possible(path)]) < 120
    for path in sample:
        assert (code("show", "--", store.id, path) == exits.NOT_FOUND) is possible(path), path
        assert (code("create", "--content", "text", "--", store.id, path) == 0) is possible(path), path
        assert memories(workspace, store) == ({path: b"text"} if possible(path) else {}), path
        if possible(path):
            assert code("show", "--", store.id, path) == 0
            assert code("delete", "--", store.id, path) == 0


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("prefix", ["", ".", "e"])
def test_by_an_archive(workspace: Workspace, store: Store, actor: Actor, form: int, prefix: str) -> None:
    names = [prefix + path for path in INSIDE if path and "\0" not in path and nameable(path)]
    # Not those that end with '/': they are names of directories, which have no data.
    names = [name for name in names if not name.endswith("/")]
    members = [member(name, b"text") for name in names]
    plan = imported(workspace, store, archive(io.BytesIO(packed(*members, form=form))), actor)
    assert len(plan.created) > (0 if prefix == "" else 500)
    assert len(plan.problems) > 500
    assert all(possible(path) for path in memories(workspace, store))
    literal = {"/" + "/".join(part for part in name.split("/") if part not in ("", ".")) for name in names}
    assert set(memories(workspace, store)) <= literal


def test_by_links_in_an_archive(workspace: Workspace, store: Store, actor: Actor) -> None:
    """A link, and then something below its name or at it: nothing goes where it leads."""
    members = []
    for number, path in enumerate(random.Random(2).sample([path for path in INSIDE if "\0" not in path], 300)):
        kind = tarfile.SYMTYPE if number % 2 else tarfile.LNKTYPE
        members += [member(f"l{number}", type=kind, linkname=path[:90]), member(f"l{number}/x", b"text")]
    members += [member("ln", type=tarfile.SYMTYPE, linkname="../secret.txt"), member("ln", b"text")]
    plan = imported(workspace, store, archive(io.BytesIO(packed(*members))), actor)
    assert {problem.path for problem in plan.problems} == {f"/l{number}" for number in range(300)}
    assert memories(workspace, store) == {f"/l{number}/x": b"text" for number in range(300)} | {"/ln": b"text"}


def test_by_a_directory(workspace: Workspace, store: Store, actor: Actor, db: Path) -> None:
    source = db.parent / "source"
    source.mkdir()
    names = {name for path in INSIDE for name in path.split("/") if nameable(name) and "\0" not in name}
    names = {name for name in names - {"", ".", ".."} if len(os.fsencode(name)) <= 255}
    chosen = random.Random(3).sample(sorted(names), 1_000)
    for name in chosen:
        (source / name).write_bytes(b"text")
    for name, to in {"link": "../secret.txt", "links": "..", "\u2028ln": "/etc/passwd", "loop": "loop"}.items():
        (source / name).symlink_to(to)
    plan = imported(workspace, store, directory(source), actor)
    assert memories(workspace, store) == {f"/{name}": b"text" for name in chosen if possible(f"/{name}")}
    assert len(plan.created) > 500
    assert len(plan.problems) > 50
    assert {"/link", "/links", "/\u2028ln", "/loop"} <= {problem.path for problem in plan.problems}
    shutil.rmtree(source)
