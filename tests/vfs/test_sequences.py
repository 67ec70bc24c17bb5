"""Random operations against a plain model of a POSIX directory tree (DESIGN.md 1, 4, 5, 11-13).

The model knows nothing of versions. After each operation the filesystem must show what the model shows; after all of
them the tree, the store, the history and a new mount must agree.
"""

import errno
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memfs.vfs import DirectoryNode, FileHandle, FileNode
from memfs.workspace import Workspace
from tests.vfs.harness import APPEND, SAVE, UPDATE, Files

CREATE = UPDATE | SAVE & ~0o1001  # O_RDWR | O_CREAT


@dataclass(eq=False)
class File:
    """A file: its bytes, and whether it is a temporary."""

    scratch: bool
    data: bytearray = field(default_factory=bytearray)
    mode: int = 0o644


@dataclass(eq=False)
class Directory:
    """A directory."""

    mode: int = 0o755
    children: dict[str, "File | Directory"] = field(default_factory=dict)


class Model:
    """A tree as rename(2), unlink(2) and so on describe it. Operations raise OSError."""

    def __init__(self) -> None:
        self.root = Directory()

    def resolve(self, path: str) -> "File | Directory":
        """What is at a path."""
        node: File | Directory = self.root
        for name in [part for part in path.split("/") if part]:
            if isinstance(node, File):
                raise OSError(errno.ENOTDIR, path)
            if name not in node.children:
                raise OSError(errno.ENOENT, path)
            node = node.children[name]
        return node

    def parent(self, path: str) -> tuple["File | Directory", str]:
        """The parent and the name."""
        above, _, name = path.rpartition("/")
        return self.resolve(above), name

    def directory(self, path: str) -> tuple[Directory, str]:
        """The directory and the name. ENOTDIR."""
        found, name = self.parent(path)
        if isinstance(found, File):
            raise OSError(errno.ENOTDIR, path)
        return found, name

    def open(self, path: str) -> File:
        """Open, or make."""
        directory, name = self.directory(path)
        found = directory.children.setdefault(name, File(name.endswith("~")))
        if isinstance(found, Directory):
            raise OSError(errno.EISDIR, path)
        return found

    def mkdir(self, path: str) -> None:
        """Make a directory."""
        directory, name = self.directory(path)
        if name in directory.children:
            raise OSError(errno.EEXIST, path)
        directory.children[name] = Directory()

    def remove(self, path: str, *, wanted: type) -> None:
        """Unlink or rmdir."""
        directory, name = self.directory(path)
        found = self.resolve(path)
        if not isinstance(found, wanted):
            raise OSError(errno.ENOTDIR if wanted is Directory else errno.EISDIR, path)
        if isinstance(found, Directory) and found.children:
            raise OSError(errno.ENOTEMPTY, path)
        del directory.children[name]

    def rename(self, old: str, new: str, *, noreplace: bool, exchange: bool) -> None:
        """Move or exchange."""
        self.parent(old)
        self.parent(new)
        source_directory, source_name = self.directory(old)
        source = self.resolve(old)
        target_directory, target_name = self.directory(new)
        target = target_directory.children.get(target_name)
        if noreplace and target is not None:
            raise OSError(errno.EEXIST, new)
        if exchange and target is None:
            raise OSError(errno.ENOENT, new)
        if source is target:
            return
        if isinstance(source, Directory) and new.startswith(f"{old}/"):
            raise OSError(errno.EINVAL, new)
        if exchange:
            assert target is not None
            if isinstance(target, Directory) and old.startswith(f"{new}/"):
                raise OSError(errno.EINVAL, new)
            if any(isinstance(node, File) and node.scratch for node in (source, target)):
                raise OSError(errno.EINVAL, new)
            source_directory.children[source_name] = target
            target_directory.children[target_name] = source
            return
        if isinstance(source, File):
            if isinstance(target, Directory):
                raise OSError(errno.EISDIR, new)
            source.scratch = target_name.endswith("~") and (target is None or target.scratch)
        elif isinstance(target, File):
            raise OSError(errno.ENOTDIR, new)
        elif target is not None and target.children:
            raise OSError(errno.ENOTEMPTY, new)
        del source_directory.children[source_name]
        target_directory.children[target_name] = source


class Pair:
    """The filesystem and the model, and the files that are open in both."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self.model = Model()
        self.open: dict[int, tuple[FileHandle, File]] = {}


@dataclass(frozen=True)
class Step:
    """An operation on both sides."""

    def model(self, pair: Pair) -> None:
        """On the model."""
        raise NotImplementedError

    async def real(self, pair: Pair) -> None:
        """On the filesystem."""
        raise NotImplementedError

    async def run(self, pair: Pair) -> None:
        """On both: the same success or the same errno."""
        expected: int | None = None
        found: int | None = None
        try:
            self.model(pair)
        except OSError as error:
            expected = error.errno
        try:
            await self.real(pair)
        except OSError as error:
            found = error.errno
        assert found == expected, (self, found, expected)


@dataclass(frozen=True)
class Write(Step):
    """Open, write, close."""

    path: str
    text: str
    append: bool

    def model(self, pair: Pair) -> None:
        data = pair.model.open(self.path).data
        if not self.append:
            data.clear()
        data += self.text.encode()

    async def real(self, pair: Pair) -> None:
        await pair.files.write(self.path, self.text, APPEND if self.append else SAVE)


@dataclass(frozen=True)
class Open(Step):
    """Open a file and keep it so, in place of another."""

    slot: int
    path: str

    def model(self, pair: Pair) -> None:
        pair.model.open(self.path)

    async def real(self, pair: Pair) -> None:
        handle = await pair.files.open(self.path, CREATE)
        if self.slot in pair.open:
            await pair.files.close(pair.open[self.slot][0])
        found = pair.model.resolve(self.path)
        assert isinstance(found, File)
        pair.open[self.slot] = handle, found


@dataclass(frozen=True)
class Put(Step):
    """Write into an open file."""

    slot: int
    offset: int
    text: str

    def model(self, pair: Pair) -> None:
        if self.slot in pair.open:
            data = pair.open[self.slot][1].data
            data.extend(bytes(max(0, self.offset - len(data))))
            data[self.offset : self.offset + len(self.text)] = self.text.encode()

    async def real(self, pair: Pair) -> None:
        if self.slot in pair.open:
            pair.files.put(pair.open[self.slot][0], self.offset, self.text)


@dataclass(frozen=True)
class Close(Step):
    """Close an open file, or only a copy of its descriptor."""

    slot: int
    copy: bool

    def model(self, pair: Pair) -> None:
        pass

    async def real(self, pair: Pair) -> None:
        if self.slot in pair.open:
            if self.copy:
                await pair.files.fs.flush(pair.open[self.slot][0].number)
            else:
                await pair.files.close(pair.open.pop(self.slot)[0])


@dataclass(frozen=True)
class Truncate(Step):
    """truncate(2)."""

    path: str
    size: int

    def model(self, pair: Pair) -> None:
        found = pair.model.resolve(self.path)
        if isinstance(found, Directory):
            raise OSError(errno.EISDIR, self.path)
        found.data.extend(bytes(max(0, self.size - len(found.data))))
        del found.data[self.size :]

    async def real(self, pair: Pair) -> None:
        await pair.files.fs.set_attributes(pair.files.node(self.path).inode, size=self.size)


@dataclass(frozen=True)
class Chmod(Step):
    """chmod(2)."""

    path: str
    mode: int

    def model(self, pair: Pair) -> None:
        pair.model.resolve(self.path).mode = self.mode

    async def real(self, pair: Pair) -> None:
        await pair.files.fs.set_attributes(pair.files.node(self.path).inode, mode=self.mode)


@dataclass(frozen=True)
class Mkdir(Step):
    """mkdir(2)."""

    path: str

    def model(self, pair: Pair) -> None:
        pair.model.mkdir(self.path)

    async def real(self, pair: Pair) -> None:
        await pair.files.mkdir(self.path)


@dataclass(frozen=True)
class Unlink(Step):
    """unlink(2)."""

    path: str

    def model(self, pair: Pair) -> None:
        pair.model.remove(self.path, wanted=File)

    async def real(self, pair: Pair) -> None:
        await pair.files.unlink(self.path)


@dataclass(frozen=True)
class Rmdir(Step):
    """rmdir(2)."""

    path: str

    def model(self, pair: Pair) -> None:
        pair.model.remove(self.path, wanted=Directory)

    async def real(self, pair: Pair) -> None:
        await pair.files.rmdir(self.path)


@dataclass(frozen=True)
class Move(Step):
    """renameat2(2)."""

    FLAGS: ClassVar = ["", "", "", "noreplace", "exchange"]

    old: str
    new: str
    flag: str

    def model(self, pair: Pair) -> None:
        noreplace, exchange = self.flag == "noreplace", self.flag == "exchange"
        pair.model.rename(self.old, self.new, noreplace=noreplace, exchange=exchange)

    async def real(self, pair: Pair) -> None:
        noreplace, exchange = self.flag == "noreplace", self.flag == "exchange"
        await pair.files.rename(self.old, self.new, noreplace=noreplace, exchange=exchange)


@dataclass(frozen=True)
class Wait(Step):
    """Time passes: nothing that anybody sees changes."""

    def model(self, pair: Pair) -> None:
        pass

    async def real(self, pair: Pair) -> None:
        await pair.files.fs.commit_aged(math.inf)
        await pair.files.fs.refresh()


# Few names, and a tree to begin with: else nearly every operation meets ENOENT.
paths = st.sampled_from(["/a", "/b", "/a~", "/d", "/e", "/d/a", "/d/b", "/d/a~", "/d/e", "/d/e/a", "/e/a"])
texts = st.text("xyz", max_size=3)
slots = st.integers(0, 1)
beginning: list[Step] = [
    Write("/a", "a", append=False),
    Mkdir("/d"),
    Write("/d/a", "da", append=False),
    Mkdir("/d/e"),
    Write("/d/e/a", "dea", append=False),
]
steps = st.one_of(
    st.builds(Write, paths, texts, st.booleans()),
    st.builds(Mkdir, paths),
    st.builds(Move, paths, paths, st.sampled_from(Move.FLAGS)),
    st.builds(Move, paths, paths, st.sampled_from(Move.FLAGS)),
    st.builds(Unlink, paths),
    st.builds(Rmdir, paths),
    st.builds(Open, slots, paths),
    st.builds(Put, slots, st.integers(0, 5), texts),
    st.builds(Close, slots, st.booleans()),
    st.builds(Truncate, paths, st.integers(0, 5)),
    st.builds(Chmod, paths, st.sampled_from([0o600, 0o644, 0o755])),
    st.builds(Wait),
)


def modelled(node: File | Directory, path: str = "") -> Iterator[tuple[str, int, bytes | None]]:
    """The model's tree: path, mode, bytes."""
    if isinstance(node, File):
        yield path, node.mode, bytes(node.data)
        return
    if path:
        yield path, node.mode, None
    for name, child in node.children.items():
        yield from modelled(child, f"{path}/{name}")


def shown(files: Files, node: DirectoryNode, path: str = "") -> Iterator[tuple[str, int, bytes | None]]:
    """The filesystem's tree, in the same form."""
    for name, child in node.children.items():
        if isinstance(child, FileNode):
            yield f"{path}/{name}", child.mode, bytes(files.fs.contents.of(child))
        elif isinstance(child, DirectoryNode):
            yield f"{path}/{name}", child.mode, None
            yield from shown(files, child, f"{path}/{name}")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """One workspace for all examples, each of which has a store of its own."""
    with Workspace.open(tmp_path_factory.mktemp("sequences") / "memfs.db", create=True) as opened:
        yield opened


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(sequence=st.lists(steps, min_size=10, max_size=40))
def test_any_sequence_of_operations_is_that_of_a_posix_tree(shared: Workspace, sequence: list[Step]) -> None:
    async def run() -> None:
        pair = Pair(Files(shared, shared.stores.create("Any")))
        for step in [*beginning, *sequence]:
            await step.run(pair)
            assert sorted(shown(pair.files, pair.files.fs.tree.root)) == sorted(modelled(pair.model.root))
            for handle, file in pair.open.values():
                assert pair.files.get(handle) == file.data
        for handle, _ in pair.open.values():
            await pair.files.close(handle)
        await pair.files.settle()
        pair.files.check()
        assert sorted(shown(pair.files, pair.files.fs.tree.root)) == sorted(modelled(pair.model.root))

    trio.run(run)
