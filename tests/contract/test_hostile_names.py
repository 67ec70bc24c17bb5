"""Every entrance has the same mind about a path, whatever it is made of; what is refused leaves nothing behind.

The rule is ``memfs.model.paths``. What an entrance refuses beyond it is said where it is asked.
"""

import io
import os
import tarfile
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from shutil import rmtree

import pytest
import trio
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from memfs.model.errors import InvalidPath, MemfsError
from memfs.model.mutations import DropDirectory
from memfs.model.paths import MAX_NAME_BYTES, check_path
from memfs.model.records import Actor
from memfs.tool import MemoryCommands
from memfs.vfs import Filesystem
from memfs.workspace import Workspace, archives, sources
from memfs.workspace.importing import apply_import, plan_import
from tests.api.effort import EFFORT, SEED
from tests.contract.surfaces import SURFACES, Driver, Refusal

pytestmark = pytest.mark.timeout(120 * EFFORT)

ACTOR = Actor("user_actor", "ada")

ODD = (
    *(
        "",
        ".",
        "..",
        "...",
        " ",
        "~",
        "-rf",
        "--",
        "%2e%2e",
        "%00",
        "\\",
        "..\\",
        "a\\b",
        "CON",
        "nul.txt",
        "a:b",
        "*",
        "_",
    ),
    *(
        "\0",
        "a\0b",
        "\n",
        "a\nb",
        "\r",
        "\t",
        "\x1b[31m",
        "\x7f",
        "\x85",
        "\u2028",
        "\u2029",
        "\ufeff",
        "\u200b",
        "\u200d",
    ),
    *("\u202e", "\u2066", "\xad", "\ud800", "\udfff", "\udcff", "\ufffd", "\ufffe", "\U0010ffff", "\ue000", "\u0378"),
    *("é", "e\u0301", "\u212b", "\u1e9b\u0323", "\uac00", "\u1100\u1161", "ﬁ", "ß", "İ", "ı", "日本", "\U0001f600"),
    *("👩\u200d💻", "README", "readme", "a" * 255, "a" * 256, "ü" * 127, "ü" * 128, "😀" * 63, "😀" * 64, "b" * 1_023),
    *(".git", ".GIT", "git", "lost+found", "con.md", "a.md ", " a.md", "a.md.", "​"),
)


@st.composite
def paths(draw: st.DrawFn) -> str:
    """A path, mostly with something odd about it: of names, of depth, of length, of slashes."""
    name = st.one_of(
        st.sampled_from(ODD),
        st.text(st.characters(), min_size=1, max_size=8),
        st.text("ab.~%_-é", min_size=1, max_size=4),
    )
    kind = draw(st.sampled_from(("names", "names", "deep", "long", "slashes")))
    if kind == "deep":
        return "/" + "/".join("d" * draw(st.integers(18, 23)))
    if kind == "long":
        size = draw(st.integers(1_021, 1_027))
        filled = "/" + "/".join([draw(st.sampled_from(("n", "ü"))) * 100] * 12)
        while len(filled.encode()) > size:
            filled = filled[:-1]
        return filled + "x" * (size - len(filled.encode()))
    path = "/" + "/".join(draw(st.lists(name, min_size=1, max_size=4)))
    if kind == "slashes":
        return draw(
            st.sampled_from((path + "/", "/" + path, path[1:], path.replace("/", "//"), path + "/.", path + "/.."))
        )
    return path


def is_good(path: str) -> bool:
    """What the rule says."""
    try:
        path.encode()
        check_path(path)
    except (InvalidPath, UnicodeEncodeError):
        return False
    return True


@dataclass
class Entrance:
    """A way to make a memory in a store of its own; ``make`` raises where it refuses.

    ``refuses`` are good paths that it has a reason of its own not to take, ``changes`` ones of which it makes another.
    """

    store: str
    make: Callable[[str], None]
    refuses: Callable[[str], bool] = lambda _path: False
    changes: Callable[[str], bool] = lambda _path: False


def names_of(path: str) -> list[bytes]:
    return [os.fsencode(name) for name in path.split("/")[1:]]


def traverses(path: str) -> bool:
    """What the memory tool takes for an attempt to get out, in any spelling."""
    return "\\" in path or "%" in path


@pytest.fixture(scope="module")
def entrances(
    drivers: dict[str, Driver], shared_workspace: Workspace, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Entrance]:
    """All of them by name."""
    found = {}

    def surface(driver: Driver) -> Entrance:
        store = driver.create_store(driver.name)["id"]

        def make(path: str) -> None:
            driver.create_memory(store, path)

        return Entrance(store, make)

    for name in SURFACES:
        found[name] = surface(drivers[name])
    of_tool = shared_workspace.stores.create("of the tool").id
    commands = MemoryCommands(shared_workspace.attached(of_tool, ACTOR, "read_write"))

    def by_tool(path: str) -> None:
        said = commands.handle({"command": "create", "path": f"/memories{path}", "file_text": "text\n"})
        if said.is_error:
            raise Refusal(0, said.content)

    found["tool"] = Entrance(of_tool, by_tool, refuses=traverses)
    top = tmp_path_factory.mktemp("imported")

    def importing(name: str, source: Callable[[str], sources.Source]) -> Entrance:
        store = shared_workspace.stores.create(name).id

        def take(path: str) -> None:
            given = source(path)
            plan = plan_import(shared_workspace, store, given)
            if plan.problems:
                raise Refusal(0, str(plan.problems))
            apply_import(shared_workspace, plan, given, ACTOR)

        return Entrance(store, take, refuses=lambda path: ".git" in path.split("/"))

    def directory(path: str) -> sources.Source:
        if {"", ".", ".."} & set(path.split("/")[1:]) or not path.startswith("/"):
            raise Refusal(0, "nothing on a disk has such a name")
        rmtree(top, ignore_errors=True)
        place = os.fsencode(top) + os.fsencode(path)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "wb") as file:
            file.write(b"text\n")
        return sources.directory(top)

    def archive(path: str) -> sources.Source:
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w", format=tarfile.PAX_FORMAT, errors="surrogateescape") as made:
            info = tarfile.TarInfo(path.removeprefix("/"))
            info.size = 5
            made.addfile(info, io.BytesIO(b"text\n"))
        return archives.archive(data)

    found["import of a directory"] = importing("of directories", directory)
    found["import of a directory"].refuses = lambda path: (
        ".git" in path.split("/") or any(len(name) > MAX_NAME_BYTES for name in names_of(path)) or len(path) > 900
    )
    found["import of an archive"] = importing("of archives", archive)
    # Where names are relative to the root of the archive, and programs write them in several ways.
    found["import of an archive"].changes = lambda path: path.startswith("//") or not is_good(path)
    mounted = shared_workspace.stores.create("mounted").id

    def by_mount(path: str) -> None:
        attached = shared_workspace.attached(mounted, ACTOR, "read_write")
        attached.commit([DropDirectory(kept.path) for kept in attached.snapshot().directories])  # of the path before
        trio.run(_through_a_mount, shared_workspace, mounted, path)

    found["mount"] = Entrance(
        mounted,
        by_mount,
        refuses=lambda path: ".git" in path.split("/") or any(len(name) > MAX_NAME_BYTES for name in names_of(path)),
    )
    return found


async def _through_a_mount(workspace: Workspace, store: str, path: str) -> None:
    """Make each directory and then the file, as a program does that was given the path; a kernel splits it first."""
    if not path.startswith("/") or not all(names_of(path)):
        raise Refusal(0, "a kernel never asks for that")
    fs = Filesystem(workspace.attached(store, ACTOR, "read_write", "merge"))
    *above, name = names_of(path)
    inode = 1
    for each in above:
        with suppress(FileExistsError):
            await fs.mkdir(inode, each, 0o755)
        inode = fs.lookup(inode, each).inode
    handle = await fs.create(inode, name, 0o644, os.O_WRONLY | os.O_CREAT, 1)
    fs.write(handle.number, 0, b"text\n")
    await fs.flush(handle.number)
    await fs.release(handle.number)
    await fs.finish()


def test_every_entrance_has_the_same_mind_about_a_path(
    entrances: dict[str, Entrance], shared_workspace: Workspace
) -> None:
    @settings(
        max_examples=60 * EFFORT,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @seed(SEED)
    @given(paths())
    def attempt(path: str) -> None:
        good = is_good(path)
        for name, entrance in entrances.items():
            try:
                entrance.make(path)
            except (Refusal, MemfsError, OSError, ValueError) as error:
                refused: str | None = str(error)
            else:
                refused = None
            there = [memory.path for memory in shared_workspace.memories.list(entrance.store)]
            if refused is not None:
                assert not there, f"{name} has refused {path!r}, and left {there!r}"
                assert not good or entrance.refuses(path), f"{name} has refused {path!r}: {refused}"
                continue
            for made in there:
                check_path(made)
                memory = shared_workspace.memories.get(entrance.store, made)
                shared_workspace.memories.delete(entrance.store, memory.id, ACTOR)
            if name == "mount" and not there:
                continue  # an editor's temporary, which is no memory
            if not entrance.changes(path):
                assert good, f"{name} has taken {path!r}"
                assert there == [path], f"{name} has made {there!r} of {path!r}"
                assert unicodedata.is_normalized("NFC", there[0])

    attempt()
