"""Export of the files of a store, as they are at one moment: into a directory, or as a tar archive."""

import bz2
import errno
import gzip
import lzma
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Literal, cast

from memfs.model.errors import HistoryGone, NotFound
from memfs.model.records import Head, time_ns
from memfs.workspace.placing import placed_directory
from memfs.workspace.workspace import Workspace

Progress = Callable[[int], None]
"""Called with each number of memories that are done."""

Compression = Literal["gz", "bz2", "xz"]

_SUFFIXES: dict[str, Compression] = {
    ".gz": "gz",
    ".tgz": "gz",
    ".bz2": "bz2",
    ".tbz2": "bz2",
    ".xz": "xz",
    ".txz": "xz",
}


_NAMES_THAT_CANNOT_BE = (errno.ENAMETOOLONG, errno.EEXIST, errno.EILSEQ, errno.EINVAL, errno.ENOTDIR)
"""What a file system answers to a name that it cannot have, or does not tell from another (case, normalisation)."""


def compression_of(name: str) -> Compression | None:
    """The compression that the name of an archive tells of."""
    return _SUFFIXES.get(Path(name).suffix.lower())


def is_archive_name(name: str) -> bool:
    """Whether a name is that of a tar archive: ``.tar``, ``.tar.gz``, ``.tgz`` and the like."""
    path = Path(name.lower())
    return path.suffix in (".tar", ".tgz", ".tbz2", ".txz") or (
        path.suffix in _SUFFIXES and Path(path.stem).suffix == ".tar"
    )


def _files(workspace: Workspace, store_id: str) -> Iterator[tuple[Head, bytes]]:
    """The memories of one moment, in path order, each with its bytes.

    What others write meanwhile makes new versions and changes nothing of this. Raises HistoryGone where a version of
    that moment was replaced and then redacted or pruned before it was read.
    """
    heads = workspace.engine.snapshot(store_id).heads
    for head in sorted(heads, key=lambda head: head.path):
        try:
            yield head, workspace.engine.content(head.version_id)
        except NotFound:
            raise HistoryGone(
                f"what {head.path} held when the export began was redacted or pruned meanwhile: run the command again"
            ) from None


def export_directory(workspace: Workspace, store_id: str, target: Path, *, progress: Progress | None = None) -> int:
    """Write each memory to a file below a directory, which must be empty or missing; returns their number.

    The directory is filled under another name and appears whole, or not at all. Raises InvalidRequest, OSError,
    NotFound, HistoryGone.
    """
    number = 0
    with placed_directory(target) as directory:
        for head, content in _files(workspace, store_id):
            file = directory / head.path[1:]
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                with file.open("xb") as opened:
                    opened.write(content)
            except OSError as error:
                hint = ", but a tar archive can hold it" if error.errno in _NAMES_THAT_CANNOT_BE else ""
                raise OSError(
                    error.errno, f"the memory {head.path} cannot be a file there ({error.strerror}){hint}"
                ) from error
            number += 1
            if progress is not None:
                progress(1)
    return number


def export_archive(
    workspace: Workspace,
    store_id: str,
    file: BinaryIO,
    *,
    compression: Compression | None = None,
    progress: Progress | None = None,
) -> int:
    """Write the memories as a tar archive; returns their number.

    The same memories give the same bytes: in path order, with the times of their last versions, their permissions where
    a mount has set some (else 0644), and no owner. Raises NotFound, HistoryGone, OSError.
    """
    number = 0
    with (
        _compressed(file, compression) as stream,
        tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT, encoding="utf-8") as archive,
    ):
        for head, content in _files(workspace, store_id):
            member = tarfile.TarInfo(head.path[1:])
            member.size = len(content)
            member.mtime = time_ns(head.updated_at) // 1_000_000_000
            member.mode = 0o644 if head.attributes.mode is None else head.attributes.mode & 0o777
            archive.addfile(member, BytesIO(content))
            number += 1
            if progress is not None:
                progress(1)
    return number


@contextmanager
def _compressed(file: BinaryIO, compression: Compression | None) -> Iterator[BinaryIO]:
    match compression:
        case "gz":
            # Neither a name nor a time in its header: both would differ from run to run.
            with gzip.GzipFile(filename="", mode="wb", fileobj=file, compresslevel=6, mtime=0) as stream:
                yield cast(BinaryIO, stream)
        case "bz2":
            with bz2.BZ2File(file, "wb") as stream:
                yield cast(BinaryIO, stream)
        case "xz":
            with lzma.LZMAFile(file, "wb") as stream:
                yield cast(BinaryIO, stream)
        case None:
            yield file
