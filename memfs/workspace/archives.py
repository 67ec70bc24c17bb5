"""Tar archives as sources of an import, read by a reader that trusts nothing in them.

Python's tarfile will not do for archives of strangers: it reads an extended header of any claimed size into memory,
takes a damaged header for the end of the archive, and follows a chain of headers by recursion. Here one pass over the
bytes holds a header and one file of at most 102,400 bytes at a time, and whatever is not as it should be is an error.
"""

import bz2
import gzip
import io
import lzma
import re
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, cast

from memfs.model.errors import InvalidRequest
from memfs.workspace.sources import GIT, File, Items, Problem, Source, name_problem, size_problem

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

MAX_ARCHIVE_BYTES = 16 * 2**30
"""What an archive may come to when inflated. Skipping what is too large for a memory still means inflating it, so a
bomb of some megabytes could keep us at work for days."""

MAX_HEADER_BYTES = 2**20
"""What an extended header (long names, PAX) may have. Those of honest archives have some hundred bytes."""

MAX_DICTIONARY_BYTES = 2**28
"""What inflating an .xz file may hold in memory; ``xz -9`` needs a quarter of it, a hostile file could ask for all."""

_BLOCK = 512
_CHUNK = 2**18
_ZEROS = bytes(_BLOCK)

_GZIP, _BZIP2, _XZ = b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0"


def looks_like_archive(start: bytes) -> bool:
    """Whether a file that starts so (a block of 512 bytes is enough) is a tar archive, perhaps a compressed one."""
    if start.startswith((_GZIP, _BZIP2, _XZ)):
        return True
    block = start[:_BLOCK]
    return len(block) == _BLOCK and (block == _ZEROS or _checksum_fits(block))


def archive(file: BinaryIO) -> Source:
    """The files of a tar archive, compressed by gzip, bzip2, xz or not. Its file must let itself be read again.

    Links, devices, absolute names, ``..`` and sparse files are problems. An archive that is damaged, cut off or
    inflates to over 16 GiB is an InvalidRequest as a whole.
    """

    def items() -> Items:
        tape = _Tape(file)
        try:
            yield from _items(tape)
            tape.skip_rest()
        except _Damaged as error:
            raise InvalidRequest(f"the archive is damaged: {error}; nothing of it is imported") from None
        except (zlib.error, lzma.LZMAError, EOFError, OSError) as error:
            raise InvalidRequest(f"the archive is damaged or cannot be read: {error}") from error

    return items


class _Damaged(Exception):
    """Something in the archive is not as it should be."""


# Bytes


class _XzFile(io.RawIOBase):
    """What an .xz file inflates to, without the memory that a hostile one may ask for (lzma.LZMAFile has no limit)."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._inflater: lzma.LZMADecompressor | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        view = memoryview(buffer)
        while len(view):
            inflater = self._inflater
            if inflater is None or inflater.eof:
                # Streams may follow one another, with zeros between them.
                rest = (b"" if inflater is None else inflater.unused_data) or self._file.read(_CHUNK)
                while rest and not (rest := rest.lstrip(b"\0")):
                    rest = self._file.read(_CHUNK)
                if not rest:
                    return 0
                self._inflater = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MAX_DICTIONARY_BYTES)
                data = self._inflater.decompress(rest, len(view))
            else:
                more = self._file.read(_CHUNK) if inflater.needs_input else b""
                if inflater.needs_input and not more:
                    raise EOFError("it ends in the middle of the compressed data")
                data = inflater.decompress(more, len(view))
            if data:
                view[: len(data)] = data
                return len(data)
        return 0


def _inflated(file: BinaryIO) -> BinaryIO:
    file.seek(0)
    start = file.read(len(_XZ))
    file.seek(0)
    if start.startswith(_GZIP):
        return cast(BinaryIO, gzip.GzipFile(fileobj=file, mode="rb"))
    if start.startswith(_BZIP2):
        return cast(BinaryIO, bz2.BZ2File(file, "rb"))
    if start.startswith(_XZ):
        return io.BufferedReader(_XzFile(file), _CHUNK)
    return file


class _Tape:
    """The inflated bytes of an archive, read once from their start to their end."""

    def __init__(self, file: BinaryIO) -> None:
        self._stream = _inflated(file)
        self._size = None
        if self._stream is file:  # what is not compressed is skipped without reading it
            self._size = file.seek(0, io.SEEK_END)
            file.seek(0)
        self._position = 0

    def _advance(self, count: int) -> None:
        self._position += count
        if self._position > MAX_ARCHIVE_BYTES:
            raise InvalidRequest(
                f"the archive has over {MAX_ARCHIVE_BYTES >> 30} GiB when inflated: pack only what shall be imported"
            )

    def read(self, count: int) -> bytes:
        """Exactly so many bytes, which the caller has found few enough."""
        self._advance(count)
        data = self._stream.read(count)
        while len(data) < count:
            more = self._stream.read(count - len(data))
            if not more:
                raise _Damaged("it ends in the middle of an item")
            data += more
        return data

    def padded(self, count: int) -> bytes:
        """So many bytes, and past the padding of their last block."""
        return self.read(_blocks(count))[:count]

    def skip(self, count: int) -> None:
        """Past so many bytes and the padding of their last block."""
        left = _blocks(count)
        self._advance(left)  # before the work, so that a header that claims exabytes is no work
        if self._size is not None:
            if self._position > self._size:
                raise _Damaged("it ends in the middle of an item")
            self._stream.seek(self._position)
            return
        while left:
            data = self._stream.read(min(left, _CHUNK))
            if not data:
                raise _Damaged("it ends in the middle of an item")
            left -= len(data)

    def block(self) -> bytes:
        """The next block. Raises _Damaged where there is none: an archive that was cut off lacks its end mark too."""
        block = self._stream.read(_BLOCK)
        if not block and not self._position:
            raise _Damaged("it is empty")
        while len(block) < _BLOCK:
            more = self._stream.read(_BLOCK - len(block))
            if not more:
                raise _Damaged("it ends without its end mark, so something of it may be missing")
            block += more
        self._advance(_BLOCK)
        return block

    def skip_rest(self) -> None:
        """Past what follows the end mark, so that the checksum of a compressed archive is checked."""
        if self._size is None:
            while data := self._stream.read(_CHUNK):
                self._advance(len(data))


def _blocks(count: int) -> int:
    return -(-count // _BLOCK) * _BLOCK


# Headers


@dataclass(frozen=True, slots=True)
class _Header:
    name: bytes
    size: int
    kind: bytes
    extended: bool  # of an old GNU sparse file: more blocks of its map follow


_OCTAL = re.compile(rb" *([0-7]*) *")


def _number(field: bytes) -> int:
    """A number in octal digits, or in base 256 where its first bit is set (as for sizes of 8 GiB and more)."""
    if field[0] & 0x80:
        if field[0] & 0x40:
            raise _Damaged("a header has a negative number")
        return int.from_bytes(bytes([field[0] & 0x3F]) + field[1:], "big")
    found = _OCTAL.fullmatch(_text(field))
    if found is None:
        raise _Damaged("a header has something in the place of a number")
    return int(found[1] or b"0", 8)


def _checksum_fits(block: bytes) -> bool:
    """Whether a block has the checksum of a header; some old programs summed signed bytes."""
    try:
        stored = _number(block[148:156])
    except _Damaged:
        return False
    counted = block[:148] + b" " * 8 + block[156:]
    return stored in (sum(counted), sum(memoryview(counted).cast("b")))


def _text(field: bytes) -> bytes:
    return field.partition(b"\0")[0]


def _header(block: bytes) -> _Header:
    if not _checksum_fits(block):
        raise _Damaged("a header has a wrong checksum")
    name, prefix, kind = _text(block[:100]), b"", block[156:157]
    if block[257:263] == b"ustar\0":  # not GNU's "ustar  ", which keeps other things there
        prefix = _text(block[345:500])
    return _Header(
        name=prefix + b"/" + name if prefix else name,
        size=_number(block[124:136]),
        kind=kind,
        extended=kind == b"S" and block[482] != 0,
    )


def _records(data: bytes) -> dict[bytes, bytes]:
    """The records of a PAX header: ``length key=value`` lines whose length counts all of the line."""
    records = {}
    position = 0
    while position < len(data):
        digits, space, _ = data[position : position + 20].partition(b" ")
        if not space or not digits.isdigit():
            raise _Damaged("an extended header has no lengths")
        end = position + int(digits)
        key, equals, value = data[position + len(digits) + 1 : end].partition(b"=")
        if end > len(data) or not equals or not value.endswith(b"\n"):
            raise _Damaged("an extended header has a wrong length")
        records[key] = value[:-1]
        position = end
    return records


_LINKS = {b"1": "a hard link", b"2": "a symbolic link", b"3": "a device", b"4": "a device", b"6": "a named pipe"}
_WITHOUT_DATA = {*_LINKS, b"5"}


def _items(tape: _Tape) -> Items:
    records: dict[bytes, bytes] = {}
    long_name = None
    while (block := tape.block()) != _ZEROS:
        header = _header(block)
        if header.kind in (b"x", b"X", b"L"):
            if header.size > MAX_HEADER_BYTES:
                raise _Damaged(f"an extended header claims {header.size} bytes")
            data = tape.padded(header.size)
            if header.kind == b"L":
                long_name = _text(data)
            else:
                records |= _records(data)
        elif header.kind in (b"g", b"K"):
            tape.skip(header.size)  # of all files: a comment or a time; of a link: where it leads
        else:
            yield from _item(tape, header, records, long_name)
            records, long_name = {}, None
    if records or long_name is not None:
        raise _Damaged("it ends after an extended header")


def _item(tape: _Tape, header: _Header, records: dict[bytes, bytes], long_name: bytes | None) -> Items:
    """What a header stands for; afterwards the tape is past its data."""
    name = records.get(b"GNU.sparse.name") or records.get(b"path") or long_name or header.name
    size = header.size
    if b"size" in records:
        if not records[b"size"].isdigit() or len(records[b"size"]) > 20:
            raise _Damaged("an extended header has a wrong size")
        size = int(records[b"size"])
    extended = header.extended
    while extended:
        extended = tape.block()[504] != 0
    kind = header.kind
    if kind in (b"\0", b"0", b"7"):
        # The oldest archives have no other mark of a directory. The header itself has a long name cut, perhaps at "/".
        kind = b"5" if name.endswith(b"/") else b"0"
    path, problem = _place(name)
    if kind == b"5":
        if problem is not None:
            yield problem
        return
    if problem is None and not path:
        problem = Problem("/", "it has no name")
    if problem is None:
        if kind in _LINKS:
            problem = Problem(path, _LINKS[kind])
        elif kind == b"S" or any(key.startswith(b"GNU.sparse.") for key in records):
            problem = Problem(path, "a sparse file: pack it without --sparse")
        elif kind != b"0":
            problem = Problem(path, _other(kind))
        else:
            problem = name_problem(path) or size_problem(path, size)
    if problem is None:
        yield File(path, tape.padded(size))
        return
    if kind not in _WITHOUT_DATA:
        tape.skip(size)
    if kind not in (b"V", b"D"):  # the archive's label, and GNU's lists of what was in a directory
        yield problem


def _other(kind: bytes) -> str:
    if kind == b"M":
        return "a part of a file in an archive of several volumes"
    return f"an item of an unknown kind ({kind!r})"


def _place(name: bytes) -> tuple[str, Problem | None]:
    """The path in the store that a name stands for, empty for the root; or why there is none."""
    text = name.decode(errors="surrogateescape")
    segments = [segment for segment in text.split("/") if segment not in ("", ".")]
    if text.startswith("/"):
        return "", Problem(text, "an absolute name: pack it with a relative one", placed=False)
    if ".." in segments:
        return "", Problem(text, "its name leads elsewhere with '..'", placed=False)
    if ".git" in segments:
        path = "/" + "/".join(segments[: segments.index(".git") + 1])
        return path, Problem(path, GIT)
    return "/" + "/".join(segments) if segments else "", None
