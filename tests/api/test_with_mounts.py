"""The API beside mounts on one database: what one side changes is there at the other's next open or request."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.harness import Server, serving
from tests.mount.harness import Site, site

pytestmark = pytest.mark.mount


@pytest.fixture
def at(tmp_path: Path) -> Iterator[Site]:
    """A place to mount, with an empty store ``notes``."""
    with site(tmp_path) as made:
        made.store("notes")
        yield made


@pytest.fixture
def api(at: Site) -> Iterator[Server]:
    """A server on the same database."""
    with serving(at.db) as running:
        yield running


@pytest.fixture
def store(api: Server) -> str:
    """The path of the store ``notes``."""
    (found,) = api.get("/v1/memory_stores").ok()["data"]
    return f"/v1/memory_stores/{found['id']}"


@pytest.fixture
def mounts(at: Site) -> Iterator[tuple[Path, Path]]:
    """The store mounted twice: to write, and to read; there each open asks too."""
    second = at.directory / "second"
    try:
        (writable,) = at.mount("notes")
        at.run("mount", "-s", "notes:read_only", "--strict", "--root", second)
        yield writable, second / "notes"
    finally:
        at.run("umount", second, check=False)


def test_what_the_api_changes_is_at_the_next_open_in_every_mount(
    mounts: tuple[Path, Path], api: Server, store: str
) -> None:
    made = api.post(f"{store}/memories", {"path": "/dir/a.md", "content": "0"}).ok()
    memory = f"{store}/memories/{made['id']}"
    for number in range(1, 60):
        text = "x" * (number * 37 % 200) + f"{number}\n"
        api.post(memory, {"content": text}).ok()
        for mount in mounts:
            assert (mount / "dir/a.md").read_text() == text
    api.post(memory, {"path": "/elsewhere.md", "content": "moved"}).ok()
    for mount in mounts:
        assert (mount / "elsewhere.md").read_text() == "moved"
    api.delete(memory).ok()
    for mount in mounts:
        with pytest.raises(OSError):  # noqa: PT011 - gone, or stale where the kernel still knew the name
            (mount / "elsewhere.md").read_text()


def test_what_a_mount_writes_is_in_the_next_answer(at: Site, api: Server, store: str) -> None:
    (mount,) = at.mount("notes")
    file = mount / "note.md"
    for number in range(30):
        file.write_text(f"version {number}\n")
        (found,) = api.get(f"{store}/memories", view="full").ok()["data"]
        assert found["content"] == f"version {number}\n"
    history = api.get(f"{store}/memory_versions", limit=100).ok()["data"]
    assert [version["operation"] for version in history] == ["modified"] * 29 + ["created"]
    assert {version["created_by"]["type"] for version in history} == {"session_actor"}
    file.unlink()
    assert api.get(f"{store}/memories").ok()["data"] == []


def test_archiving_makes_mounts_read_only(at: Site, api: Server, store: str) -> None:
    (mount,) = at.mount("notes")
    (mount / "kept.md").write_text("kept\n")
    api.post(f"{store}/archive").ok()
    with pytest.raises(OSError, match="Read-only file system"):
        (mount / "new.md").write_text("new\n")
    assert (mount / "kept.md").read_text() == "kept\n"
    other = {"resources": [{"type": "memory_store", "memory_store_id": store.rpartition("/")[2]}]}
    assert "archived" in api.post("/v1/sessions", other).refused(400, "invalid_request_error")["message"]


def test_a_session_of_the_api_is_mounted_as_it_says(at: Site, api: Server, store: str) -> None:
    rules = api.post("/v1/memory_stores", {"name": "Team rules"}).ok()
    api.post(f"/v1/memory_stores/{rules['id']}/memories", {"path": "/style.md", "content": "Be brief.\n"}).ok()
    resources = [
        {"type": "memory_store", "memory_store_id": store.rpartition("/")[2]},
        {"type": "memory_store", "memory_store_id": rules["id"], "access": "read_only", "instructions": "Obey."},
    ]
    session = api.post("/v1/sessions", {"resources": resources}).ok()
    assert [each["mount_path"] for each in session["resources"]] == ["/mnt/memory/notes", "/mnt/memory/team-rules"]
    mounted = at.run("mount", "--session", session["id"], "--root", at.root).stdout.split()
    assert mounted == [str(at.root / "notes"), str(at.root / "team-rules")]
    (at.root / "notes/a.md").write_text("mine\n")
    with pytest.raises(OSError, match="Read-only file system"):
        (at.root / "team-rules/style.md").write_text("mine\n")
    (version,) = api.get(f"{store}/memory_versions", session_id=session["id"]).ok()["data"]
    assert version["created_by"] == {"type": "session_actor", "session_id": session["id"]}
    assert api.get(f"/v1/sessions/{session['id']}").ok()["resources"] == session["resources"]
    at.run("umount", at.root)
    api.post(f"/v1/sessions/{session['id']}/archive").ok()
    refused = at.run("mount", "--session", session["id"], "--root", at.root, check=False)
    assert refused.returncode == 1
    assert "is archived: begin another one" in refused.stderr
