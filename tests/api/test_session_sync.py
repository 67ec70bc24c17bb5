"""The SDK's own session memory sync works against the server, also beside mounts of the same stores.

That sync copies a session's stores into plain directories and reconciles both sides every 15 s; see
``docs/design/sync.md`` for what it does and a mount does not.
"""

import errno
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
from anthropic.lib.tools._memories import DELETE_CORROBORATION_SECONDS, SessionMemoryError, SessionMemoryStores

from memfs.engine import VersionFilter
from memfs.model import ids
from memfs.model.records import Actor, MemoryVersion
from memfs.workspace import Workspace
from tests.api.harness import Server
from tests.api.sdk_clients import opened
from tests.api.sdk_syncing import Clock, relocated, syncing
from tests.mount.harness import Site, site

pytestmark = pytest.mark.anyio

STORE = "/v1/memory_stores/{id}"
LIST = f"GET {STORE}/memories"
READ = f"GET {STORE}/memories/{{id}}"
CREATE = f"POST {STORE}/memories"
UPDATE = f"POST {STORE}/memories/{{id}}"
DELETE = f"DELETE {STORE}/memories/{{id}}"

SOMEBODY = Actor("user_actor", "alice")


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """Where the sync runs."""
    return "asyncio"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """So that nobody waits for an interval."""
    return Clock(monkeypatch)


@pytest.fixture(scope="module")
def server_db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a site has its database."""
    directory = tmp_path_factory.mktemp("sync") / "db"
    directory.mkdir()
    return directory / "memfs.db"


@pytest.fixture
def at(server_db: Path) -> Iterator[Site]:
    """A place to mount, with the server's database."""
    with site(server_db.parent.parent) as made:
        yield made


@dataclass(frozen=True)
class Store:
    """A store in the database, behind the server's back."""

    db: Path
    id: str

    @property
    def heads(self) -> dict[str, str]:
        """What it holds now."""
        with Workspace.open(self.db, read_only=True) as workspace:
            return {m.path: (m.content or b"").decode() for m in workspace.memories.list(self.id, content=True)}

    def history(self, path: str) -> list[MemoryVersion]:
        """The versions of a memory, oldest first."""
        with Workspace.open(self.db, read_only=True) as workspace:
            where = VersionFilter(memory_id=workspace.versions.memory_id(self.id, path))
            return workspace.versions.list(self.id, where, content=True, oldest_first=True)

    @property
    def count(self) -> int:
        """How many versions there are."""
        with Workspace.open(self.db, read_only=True) as workspace:
            return len(workspace.versions.list(self.id))

    def texts(self, path: str) -> list[str]:
        """The texts that a memory had."""
        return [version.content.decode() for version in self.history(path) if version.content is not None]

    def change(self, path: str, text: str | None) -> None:
        """Somebody else changes a memory, makes it where there is none, or deletes it."""
        with Workspace.open(self.db) as workspace:
            if text is None:
                workspace.memories.delete(self.id, path, SOMEBODY)
            elif path in self.heads:
                workspace.memories.update(self.id, path, SOMEBODY, content=text.encode())
            else:
                workspace.memories.create(self.id, path, text.encode(), SOMEBODY)


def new_store(db: Path, name: str, **texts: str) -> Store:
    """A store with memories at the paths that the keywords spell (``ada`` is /ada.md)."""
    with Workspace.open(db, create=True) as workspace:
        made = Store(db, workspace.stores.create(name).id)
    for path, text in texts.items():
        made.change(f"/{path}.md", text)
    return made


@pytest.fixture
def notes(server: Server, server_db: Path) -> Store:
    """A store ``Notes`` of three memories."""
    return new_store(server_db, "Notes", ada="Ada\n", bob="Bob\n", cleo="Cleo\n")


@pytest.fixture
def by_key(server: Server, server_db: Path) -> tuple[str, str]:
    """Who the sync is."""
    with Workspace.open(server_db, read_only=True) as workspace:
        return "api_actor", workspace.keys.resolve("test").id


def actor(version: MemoryVersion) -> tuple[str, str]:
    """Who made a version."""
    return version.created_by.type, version.created_by.id


def files(directory: Path) -> dict[str, str]:
    """What a directory holds, but for the sync's marker."""
    return {
        str(path.relative_to(directory)): path.read_text()
        for path in directory.rglob("*")
        if path.is_file() and path.name != ".anthropic-memory-store"
    }


async def test_what_an_agent_changes_comes_to_the_store(
    server: Server, notes: Store, by_key: tuple[str, str], tmp_path: Path, clock: Clock
) -> None:
    async with syncing(server, tmp_path, clock, {"memory_store_id": notes.id}) as running:
        (directory,) = running.stores.roots
        assert directory.name == "notes"
        assert files(directory) == {"ada.md": "Ada\n", "bob.md": "Bob\n", "cleo.md": "Cleo\n"}
        (directory / "ada.md").write_text("Ada Lovelace\n")
        (directory / "deep/er").mkdir(parents=True)
        (directory / "deep/er/new.md").write_text("Grüße\n")
        (directory / "empty").touch()
        (directory / "bob.md").unlink()

        assert await running.sync(14) == []  # not due
        asked = await running.sync(1)
        assert sorted(asked) == sorted([LIST, UPDATE, CREATE, CREATE])
        assert notes.heads == {
            "/ada.md": "Ada Lovelace\n",
            "/bob.md": "Bob\n",  # a deletion is believed after 30 s only
            "/cleo.md": "Cleo\n",
            "/deep/er/new.md": "Grüße\n",
            "/empty": "",
        }
        assert [(v.operation, actor(v)) for v in notes.history("/ada.md")][1:] == [("modified", by_key)]
        assert [(v.operation, actor(v)) for v in notes.history("/empty")] == [("created", by_key)]
        assert await running.sync(DELETE_CORROBORATION_SECONDS - 1) == [LIST]
        assert await running.sync() == [LIST, DELETE]
        assert "/bob.md" not in notes.heads
        assert [v.operation for v in notes.history("/bob.md")] == ["created", "deleted"]
        assert actor(notes.history("/bob.md")[-1]) == by_key
        assert await running.sync() == [LIST]

        (directory / "cleo.md").unlink()
        await running.stores.finish()  # the last one believes it at once
        assert running.wire.take() == [LIST, DELETE]
        assert "/cleo.md" not in notes.heads
        with pytest.raises(RuntimeError, match="already called"):
            await running.stores.finish()


async def test_what_others_change_comes_to_the_agent(
    server: Server, notes: Store, tmp_path: Path, clock: Clock
) -> None:
    async with syncing(server, tmp_path, clock, {"memory_store_id": notes.id}) as running:
        (directory,) = running.stores.roots
        notes.change("/ada.md", "Ada, Countess of Lovelace\n")
        notes.change("/deep/er/new.md", "new\n")
        notes.change("/bob.md", None)
        assert sorted(await running.sync()) == sorted([LIST, READ, READ])
        now = {"ada.md": "Ada, Countess of Lovelace\n", "cleo.md": "Cleo\n", "deep/er/new.md": "new\n"}
        assert files(directory) == now
        assert await running.sync() == [LIST]
        # Deleted by others and changed by the agent: the agent's text is the only one, and is made again.
        (directory / "cleo.md").write_text("Cleopatra\n")
        notes.change("/cleo.md", None)
        assert await running.sync() == [LIST, CREATE]
        assert notes.heads["/cleo.md"] == "Cleopatra\n"


async def test_where_both_changed_a_memory_the_store_wins(
    server: Server, notes: Store, tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    async with syncing(server, tmp_path, clock, {"memory_store_id": notes.id}) as running:
        (directory,) = running.stores.roots
        notes.change("/ada.md", "theirs\n")
        (directory / "ada.md").write_text("ours\n")
        assert await running.sync() == [LIST, READ]
        assert files(directory)["ada.md"] == "theirs\n"
        assert notes.texts("/ada.md") == ["Ada\n", "theirs\n"]
        assert "changed both locally and remotely" in caplog.text

        # Changed between the sync's look and its upload: the precondition refuses that, and nothing asks twice.
        caplog.clear()
        (directory / "bob.md").write_text("ours\n")
        _before(running.client._client, "POST", lambda: notes.change("/bob.md", "theirs\n"))
        assert await running.sync() == [LIST, UPDATE]
        assert "the upload was refused" in caplog.text
        assert notes.heads["/bob.md"] == "theirs\n"
        assert await running.sync() == [LIST, READ]
        assert files(directory)["bob.md"] == "theirs\n"
        assert notes.texts("/bob.md") == ["Bob\n", "theirs\n"]


def _before(client: httpx2.AsyncClient, method: str, do: Callable[[], object]) -> None:
    """Do something once, when the client is about to send a request with that method."""

    async def hook(request: httpx2.Request) -> None:
        if request.method == method:
            client.event_hooks = {**client.event_hooks, "request": []}
            do()

    client.event_hooks = {**client.event_hooks, "request": [hook]}


async def test_an_upload_whose_answer_got_lost_is_one_version(
    server: Server, notes: Store, tmp_path: Path, clock: Clock
) -> None:
    async with syncing(server, tmp_path, clock, {"memory_store_id": notes.id}) as running:
        (directory,) = running.stores.roots
        client = running.client._client
        hooks = client.event_hooks

        async def lose(answer: httpx2.Response) -> None:
            running.wire.note(answer)
            if answer.request.method == "POST":
                client.event_hooks = hooks
                raise httpx2.ReadError("the line went dead", request=answer.request)

        client.event_hooks = {"response": [lose]}
        (directory / "ada.md").write_text("Ada Lovelace\n")
        # The SDK asks again, with a precondition that does not hold any more; but all is as it wants already.
        assert await running.sync() == [LIST, UPDATE, UPDATE]
        assert notes.texts("/ada.md") == ["Ada\n", "Ada Lovelace\n"]
        assert await running.sync() == [LIST]


async def test_what_no_memory_can_be_stays_where_it_is(
    server: Server, notes: Store, tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    async with syncing(server, tmp_path, clock, {"memory_store_id": notes.id}) as running:
        (directory,) = running.stores.roots
        (directory / "large.md").write_text("x" * 102_401)
        (directory / "binary").write_bytes(b"\xff\xfe")
        (directory / "bad\u200bname").write_text("x")
        (directory / "good.md").write_text("good\n")
        assert await running.sync() == [LIST, *[CREATE] * 3]
        assert set(notes.heads) == {"/ada.md", "/bob.md", "/cleo.md", "/good.md"}
        assert caplog.text.count("the server rejected this memory file") == 3
        assert await running.sync() == [LIST]  # not before they change
        (directory / "large.md").write_text("x" * 102_400)
        assert await running.sync() == [LIST, CREATE]
        assert len(notes.heads["/large.md"]) == 102_400


async def test_a_directory_that_is_wiped_is_downloaded_again(
    server: Server, notes: Store, tmp_path: Path, clock: Clock
) -> None:
    async with syncing(server, tmp_path, clock, {"memory_store_id": notes.id}) as running:
        (directory,) = running.stores.roots
        before = files(directory)
        for path in directory.iterdir():
            path.unlink()
        assert await running.sync() == [LIST]
        assert files(directory) == before
        assert set(notes.heads) == {"/ada.md", "/bob.md", "/cleo.md"}
        assert notes.count == 3


async def test_a_read_only_store_is_pulled_and_never_pushed(
    server: Server, notes: Store, tmp_path: Path, clock: Clock
) -> None:
    rules = new_store(notes.db, "rules")
    resources = ({"memory_store_id": notes.id, "access": "read_only"}, {"memory_store_id": rules.id})
    async with syncing(server, tmp_path, clock, *resources) as running:
        read_only, writable = running.stores.roots
        assert running.stores.read_only_roots == [read_only]
        (read_only / "ada.md").write_text("mine\n")
        (read_only / "new.md").write_text("mine\n")
        (read_only / "cleo.md").unlink()
        (writable / "style.md").write_text("tabs\n")
        notes.change("/bob.md", "Bobby\n")
        assert sorted(await running.sync()) == sorted([LIST, LIST, READ, CREATE])
        assert (read_only / "bob.md").read_text() == "Bobby\n"
        await running.sync(DELETE_CORROBORATION_SECONDS)
        await running.stores.flush_writes()
        await running.stores.finish()
        assert notes.heads == {"/ada.md": "Ada\n", "/bob.md": "Bobby\n", "/cleo.md": "Cleo\n"}
        assert rules.heads == {"/style.md": "tabs\n"}


async def test_a_flush_saves_what_is_new_and_takes_nothing_away(
    server: Server, notes: Store, tmp_path: Path, clock: Clock
) -> None:
    async with syncing(server, tmp_path, clock, {"memory_store_id": notes.id}) as running:
        (directory,) = running.stores.roots
        for number in range(60):  # 32 at a time
            (directory / f"{number:02}.md").write_text(f"{number}\n")
        (directory / "ada.md").unlink()
        running.wire.take()
        await running.stores.flush_writes()
        assert sorted(running.wire.take()) == [LIST, *[CREATE] * 60]
        assert len(notes.heads) == 63


# Beside a mount


@pytest.mark.mount
async def test_a_mount_and_the_sync_show_each_other_what_they_save(
    server: Server, at: Site, notes: Store, by_key: tuple[str, str], tmp_path: Path, clock: Clock
) -> None:
    (mounted,) = at.mount(notes.id)
    session = at.status()[0]["session_id"]
    async with syncing(server, tmp_path, clock, {"memory_store_id": notes.id}) as running:
        (copy,) = running.stores.roots
        assert running.session.id != session
        (copy / "ada.md").write_text("by the sync\n")
        (copy / "deep").mkdir()
        (copy / "deep/new.md").write_text("by the sync\n")
        (mounted / "bob.md").write_text("by the mount\n")
        (mounted / "own.md").write_text("by the mount\n")
        (mounted / "cleo.md").rename(mounted / "cleopatra.md")
        await running.sync()
        expected = {
            "ada.md": "by the sync\n",
            "deep/new.md": "by the sync\n",
            "bob.md": "by the mount\n",
            "own.md": "by the mount\n",
            "cleopatra.md": "Cleo\n",
        }
        assert files(mounted) == expected
        assert files(copy) == expected
        assert [(v.operation, actor(v)) for v in notes.history("/deep/new.md")] == [("created", by_key)]
        assert actor(notes.history("/ada.md")[-1]) == by_key
        for path in ("/bob.md", "/own.md", "/cleopatra.md"):
            assert actor(notes.history(path)[-1]) == ("session_actor", session)

        (mounted / "own.md").unlink()
        (copy / "deep/new.md").unlink()
        await running.sync()
        assert "own.md" not in files(copy)
        await running.sync(DELETE_CORROBORATION_SECONDS)
        with pytest.raises(FileNotFoundError):
            (mounted / "deep/new.md").read_text()
        assert files(mounted) == files(copy)


@pytest.mark.mount
async def test_where_both_save_a_memory_the_mounts_text_wins_and_the_syncs_is_nowhere(
    server: Server, at: Site, notes: Store, tmp_path: Path, clock: Clock
) -> None:
    (mounted,) = at.mount(notes.id)
    async with syncing(server, tmp_path, clock, {"memory_store_id": notes.id}) as running:
        (copy,) = running.stores.roots
        (copy / "ada.md").write_text("Ada\nby the sync\n")
        with (mounted / "ada.md").open("a") as file:
            file.write("by the mount\n")
        await running.sync()
        assert (copy / "ada.md").read_text() == (mounted / "ada.md").read_text() == "Ada\nby the mount\n"
        assert notes.texts("/ada.md") == ["Ada\n", "Ada\nby the mount\n"]
        # The other way round, when the sync was first: what the mount saves is on top, and both are in the history.
        with (mounted / "bob.md").open("a") as file:
            file.write("by the mount\n")
            (copy / "bob.md").write_text("Bob\nby the sync\n")
            await running.sync()
        texts = notes.texts("/bob.md")
        assert texts[:2] == ["Bob\n", "Bob\nby the sync\n"]
        assert "by the mount\n" in texts[-1]
        await running.sync()
        assert (copy / "bob.md").read_text() == (mounted / "bob.md").read_text() == texts[-1]


@pytest.mark.mount
async def test_the_sync_leaves_a_live_mount_alone(server: Server, at: Site, notes: Store) -> None:
    (mounted,) = at.mount(notes.id)
    async with opened("async", server) as sdk:
        session = await sdk.client.beta.sessions.create(
            agent="a",
            environment_id="e",
            resources=[{"type": "memory_store", "memory_store_id": notes.id}],
        )
        stores = SessionMemoryStores(sdk.client, workdir=at.directory)
        with pytest.raises(SessionMemoryError, match="already exists"):
            await stores.download(relocated(session, at.root))
        await stores.dispose()
    assert files(mounted) == {"ada.md": "Ada\n", "bob.md": "Bob\n", "cleo.md": "Cleo\n"}
    assert notes.count == 3


@pytest.mark.mount
async def test_a_session_of_the_api_is_mounted_as_it_says(server: Server, at: Site, notes: Store) -> None:
    twin = new_store(notes.db, "NOTES!", twin="twin\n")
    async with opened("async", server) as sdk:
        sessions = sdk.client.beta.sessions
        session = await sessions.create(
            agent="a",
            environment_id="e",
            resources=[
                {"type": "memory_store", "memory_store_id": notes.id, "access": "read_only"},
                {"type": "memory_store", "memory_store_id": twin.id},
            ],
        )
        done = at.run("mount", "--root", at.root, "--session", session.id)
        at.note_logs()
        resources = [each for each in session.resources if each.type == "memory_store"]
        names = [Path(each.mount_path or "").name for each in resources]
        assert names == ["notes", "notes-2"]
        assert done.stdout.splitlines() == [str(at.root / name) for name in names]
        assert [(each["session_id"], each["access"]) for each in at.status()] == [
            (session.id, each.access) for each in resources
        ]
        with pytest.raises(OSError, match=os.strerror(errno.EROFS)):
            (at.root / "notes/ada.md").write_text("no")
        (at.root / "notes-2/twin.md").write_text("changed\n")
        versions = sdk.client.beta.memory_stores.memory_versions
        (version,) = [each async for each in versions.list(twin.id, session_id=session.id, view="full")]
        assert (version.path, version.content, version.operation) == ("/twin.md", "changed\n", "modified")
        assert await sessions.retrieve(session.id) == session
        at.run("umount", at.root)
        await sessions.archive(session.id)
        failed = at.run("mount", "--root", at.root, "--session", session.id, check=False)
        assert failed.returncode != 0
        assert f"{session.id} is archived" in failed.stderr
        assert at.status() == []
        unknown = ids.new_id(ids.SESSION)
        failed = at.run("mount", "--root", at.root, "--session", unknown, check=False)
        assert failed.returncode != 0
        assert unknown in failed.stderr
