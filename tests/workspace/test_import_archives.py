"""Tar archives of strangers as sources of an import. They are made by Python's tarfile, by GNU tar, and by hand."""

import bz2
import gzip
import io
import lzma
import os
import subprocess
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memfs.model.errors import InvalidRequest
from memfs.model.records import MAX_CONTENT_BYTES, Actor, Store
from memfs.workspace import Workspace, archives
from memfs.workspace.archives import MAX_HEADER_BYTES, archive, looks_like_archive
from memfs.workspace.sources import File, Item, Problem
from tests.processes import finish, python
from tests.workspace.transfers import CONTENTS, imported, lay_out, member, memories, packed

COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "none": lambda data: data,
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "several gz": lambda data: gzip.compress(data[:700]) + gzip.compress(data[700:]),
    "several bz2": lambda data: bz2.compress(data[:700]) + bz2.compress(data[700:]),
    "several xz": lambda data: lzma.compress(data[:700]) + bytes(8) + lzma.compress(data[700:]) + bytes(400_000),
}

END = bytes(1024)


def read(data: bytes) -> list[Item]:
    return list(archive(io.BytesIO(data))())


def contents(items: list[Item]) -> dict[str, bytes]:
    return {item.path: item.content for item in items if isinstance(item, File)}


def reasons(items: list[Item]) -> dict[str, str]:
    return {item.path: item.reason for item in items if isinstance(item, Problem)}


def refusal(data: bytes) -> str:
    """Why an archive is refused as a whole."""
    with pytest.raises(InvalidRequest) as raised:
        read(data)
    return str(raised.value)


def signed(block: bytearray) -> bytes:
    """A header block with the checksum that it should have."""
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def header(
    name: bytes = b"a", *, size: bytes = b"00000000000\0", kind: bytes = b"0", magic: bytes = b"ustar\x0000"
) -> bytes:
    """A header block made by hand."""
    block = bytearray(512)
    block[: len(name)] = name
    block[100:108] = b"0000644\0"
    block[124 : 124 + len(size)] = size
    block[136:148] = b"00000000000\0"
    block[156:157] = kind
    block[257 : 257 + len(magic)] = magic
    return signed(block)


def octal(number: int) -> bytes:
    return b"%011o\0" % number


def base256(number: int) -> bytes:
    return (number | 1 << 95).to_bytes(12, "big")


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 512)


def pax(*records: bytes, kind: bytes = b"x") -> bytes:
    """An extended header with these records as they are."""
    data = b"".join(records)
    return header(b"PaxHeaders/a", size=octal(len(data)), kind=kind) + padded(data)


# What archives are like


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_every_format_of_python_is_read(form: int) -> None:
    kept = {path: content for path, content in CONTENTS.items() if form != tarfile.USTAR_FORMAT or len(path) < 100}
    members = [member(path[1:], content) for path, content in kept.items()]
    assert contents(read(packed(*members, form=form))) == kept


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_a_long_name_that_its_header_cuts_at_a_slash_is_no_directory(form: int) -> None:
    name = "d" * 99 + "/x.md"
    assert contents(read(packed(member(name, b"text"), member("after", b"a"), form=form))) == {
        f"/{name}": b"text",
        "/after": b"a",
    }


@pytest.mark.parametrize("form", ["v7", "oldgnu", "gnu", "ustar", "posix"])
def test_every_format_of_gnu_tar_is_read(tmp_path: Path, form: str) -> None:
    limit = {"v7": 90, "ustar": 200}.get(form, 2_000)
    kept = {path: content for path, content in CONTENTS.items() if len(path.encode()) < limit and path != "/-rf"}
    top = lay_out(tmp_path / "source", kept)
    (top / "directory").mkdir()
    done = subprocess.run(["tar", "-c", f"--format={form}", "-C", top, "."], capture_output=True, check=True)
    items = read(done.stdout)
    assert contents(items) == kept
    assert reasons(items) == {}


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_every_compression_is_read(
    workspace: Workspace, store: Store, actor: Actor, tmp_path: Path, compression: str
) -> None:
    file = tmp_path / "archive"
    data = packed(*(member(f"./{path[1:]}", content) for path, content in CONTENTS.items()))
    file.write_bytes(COMPRESSIONS[compression](data))
    with file.open("rb") as opened:
        assert looks_like_archive(opened.read(1024))
        imported(workspace, store, archive(opened), actor)
    assert memories(workspace, store) == CONTENTS


@pytest.mark.parametrize("compression", ["none", "gz", "bz2", "xz"])
def test_an_archive_without_items_is_none_of_the_damaged(compression: str) -> None:
    data = COMPRESSIONS[compression](packed())
    assert looks_like_archive(data[:1024])
    assert read(data) == []
    assert "empty" in refusal(COMPRESSIONS[compression](b""))


def test_names_are_taken_below_the_root_of_the_archive() -> None:
    names = ["./a", "././b", "c/./d", "e//f", "./g/"]
    items = read(packed(*(member(name, type=tarfile.DIRTYPE if name.endswith("/") else b"0") for name in names)))
    assert list(contents(items)) == ["/a", "/b", "/c/d", "/e/f"]


def test_the_root_and_directories_are_no_items() -> None:
    assert read(packed(member(".", type=tarfile.DIRTYPE), member("./", type=tarfile.DIRTYPE))) == []
    assert read(header(b"old/", kind=b"\0", magic=b"") + END) == [], "the oldest archives mark a directory by its name"


def test_what_is_no_regular_file_below_the_root_is_a_problem() -> None:
    kinds = {
        "link": (tarfile.SYMTYPE, "a symbolic link"),
        "hard": (tarfile.LNKTYPE, "a hard link"),
        "tty": (tarfile.CHRTYPE, "a device"),
        "disk": (tarfile.BLKTYPE, "a device"),
        "pipe": (tarfile.FIFOTYPE, "a named pipe"),
    }
    outside = {
        "/etc/passwd": "an absolute name",
        "//x": "an absolute name",
        "../a": "'..'",
        "a/../../b": "'..'",
        "a/..": "'..'",
    }
    items = read(
        packed(
            member("first", b"first"),
            *(member(name, type=kind, linkname="first") for name, (kind, _) in kinds.items()),
            *(member(name, b"x") for name in outside),
            member("repo/.git/config", b"x"),
            member("repo/.git/HEAD", b"x"),
            member("module/.git", b"gitdir: x"),
            member("last", b"last"),
        )
    )
    assert contents(items) == {"/first": b"first", "/last": b"last"}
    found = reasons(items)
    for name, (_, reason) in kinds.items():
        assert found[f"/{name}"] == reason
    for name, reason in outside.items():
        assert reason in found[name]
    assert {path for path in found if "git" in path} == {"/repo/.git", "/module/.git"}
    assert len(found) == len(kinds) + len(outside) + 2


def test_names_that_no_memory_may_have_are_problems() -> None:
    names = ["line\nbreak", "e\u0301", "\u200fright", "s/" * 20 + "deep", "x" * 1025, os.fsdecode(b"caf\xe9")]
    for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        items = read(packed(*(member(name, b"x") for name in names), member("ok", b"ok"), form=form))
        assert list(reasons(items)) == [f"/{name}" for name in names]
        assert contents(items) == {"/ok": b"ok"}
    assert reasons(read(packed(member(names[-1]))))[f"/{names[-1]}"] == "its name is not UTF-8"


def test_a_nul_ends_a_name_in_a_header_and_is_refused_in_a_record() -> None:
    assert list(contents(read(header(b"a\0b") + END))) == ["/a"]
    items = read(pax(b"13 path=a\0bc\n") + header() + END)
    assert "control" in reasons(items)["/a\0bc"]


def test_a_file_without_a_name_is_a_problem() -> None:
    assert reasons(read(header(b"") + header(b"./") + header(b".", kind=b"2") + END)) == {"/": "it has no name"}


def test_a_name_that_comes_twice_is_that_of_the_later_item(
    workspace: Workspace, store: Store, actor: Actor, tmp_path: Path
) -> None:
    """As when the archive is unpacked."""
    file = tmp_path / "archive.tar"
    file.write_bytes(
        packed(
            member("a", b"1"),
            member("b", b"1"),
            member("./a", b"2"),
            member("c", type=tarfile.SYMTYPE),
            member("b", type=tarfile.SYMTYPE),
            member("c", b"3"),
            member("/a", b"absolute"),
        )
    )
    with file.open("rb") as opened:
        plan = imported(workspace, store, archive(opened), actor)
    assert memories(workspace, store) == {"/a": b"2", "/c": b"3"}
    assert [problem.path for problem in plan.problems] == ["/a", "/b"]


def test_content_at_the_limit_and_over_it() -> None:
    items = read(
        packed(member("fits", b"x" * MAX_CONTENT_BYTES), member("large", b"x" * (MAX_CONTENT_BYTES + 1)), member("z"))
    )
    assert list(contents(items)) == ["/fits", "/z"]
    assert reasons(items) == {"/large": "it has 102401 bytes, and a memory at most 102400: split it"}


def test_items_of_unusual_kinds() -> None:
    data = header(b"label", kind=b"V") + header(b"dumpdir", kind=b"D", size=octal(3)) + padded(b"Yx\0")
    data += header(b"rest", kind=b"M", size=octal(2)) + padded(b"ab") + header(b"odd", kind=b"Q", size=octal(600))
    data += padded(b"x" * 600) + header(b"contiguous", kind=b"7", size=octal(1)) + padded(b"c")
    data += pax(b"18 comment=global\n", kind=b"g") + header(b"K", kind=b"K", size=octal(5)) + padded(b"link\0")
    items = read(data + header(b"last") + END)
    assert contents(items) == {"/contiguous": b"c", "/last": b""}
    assert reasons(items) == {
        "/rest": "a part of a file in an archive of several volumes",
        "/odd": "an item of an unknown kind (b'Q')",
    }


@pytest.mark.parametrize("form", ["gnu", "posix --sparse-version=0.0", "posix --sparse-version=0.1", "posix"])
def test_sparse_files_are_problems_and_what_follows_is_read(tmp_path: Path, form: str) -> None:
    top = lay_out(tmp_path / "source", {"/z": b"z"})
    with (top / "a").open("wb") as file:
        for number in range(100):  # more holes than the first block of GNU's map has room for
            file.seek(number * 200_000)
            file.write(b"data" * 1024)
    command = f"tar -cS --format={form} -C {top} a z"
    data = subprocess.run(command.split(), capture_output=True, check=True).stdout
    items = read(data)
    assert contents(items) == {"/z": b"z"}
    assert reasons(items) == {"/a": "a sparse file: pack it without --sparse"}


# Numbers and records


def test_numbers_are_read_as_programs_write_them() -> None:
    for size in (b"00000000003\0", b"         3 \0", b"3\0", b"000000000003", b"          3 ", base256(3)):
        assert contents(read(header(size=size) + padded(b"abc") + END)) == {"/a": b"abc"}, size
    assert contents(read(header(size=bytes(12)) + END)) == {"/a": b""}


@pytest.mark.parametrize(
    "size", [b"0000000000x\0", b"-0000000003\0", b"+0000000003\0", b"0x000000003\0", b"00000_00003\0", b"\xff" * 12]
)
def test_a_size_that_is_none_is_damage(size: bytes) -> None:
    assert "damaged" in refusal(header(size=size) + padded(b"abc") + END)


def test_old_checksums_of_signed_bytes_are_right_too() -> None:
    block = bytearray(header("é".encode()))
    unsigned = sum(block[:148]) + 8 * 32 + sum(block[156:])
    block[148:156] = b"%06o\0 " % (unsigned - 2 * 256)
    assert list(contents(read(bytes(block) + END))) == ["/é"]


def test_records_win_over_gnus_long_name_and_that_over_the_header() -> None:
    long = header(b"././@LongLink", size=octal(5), kind=b"L") + padded(b"long\0")
    assert list(contents(read(long + header(b"short") + header(b"next") + END))) == ["/long", "/next"]
    items = read(long + pax(b"12 path=pax\n") + header(b"short") + END)
    assert list(contents(items)) == ["/pax"]
    assert contents(read(pax(b"9 size=3\n") + header() + padded(b"abc") + END)) == {"/a": b"abc"}


@pytest.mark.parametrize(
    "records",
    [
        b"path=a\n",
        b"x path=a\n",
        b"0 path=a\n",
        b"1 path=a\n",
        b"-9 path=a\n",
        b"8 path=a\n",
        b"11 path=a\n",
        b"99999999999999999999 path=a\n",
        b"9999 path=a\n",
        b"7 path\n",
        b"9 path=ab",
        b"10 path=a\n" + b"\0" * 4,
        b"10 size=-1\n",
        b"10 size=1_\n",
        b"33 size=" + b"9" * 24 + b"\n",
    ],
)
def test_records_that_are_none_are_damage(records: bytes) -> None:
    assert "damaged" in refusal(pax(records) + header(b"b") + END)


# Damage


def test_an_archive_that_is_cut_off_anywhere_is_refused() -> None:
    data = packed(member("a", b"x" * 700), member("é" * 80, b"text"), member("c"))
    whole = len(data.rstrip(b"\0"))
    end = -(-whole // 512) * 512
    assert len(read(data[: end + 512])) == 3
    for length in range(0, end + 1, 64):
        assert "damaged" in refusal(data[:length]), length


@pytest.mark.parametrize("compression", ["gz", "bz2", "xz"])
def test_a_compressed_archive_that_is_cut_off_anywhere_is_refused(compression: str) -> None:
    data = COMPRESSIONS[compression](packed(member("a", os.urandom(300).hex().encode()), member("b", b"b")))
    assert len(read(data)) == 2
    for length in range(2, len(data)):
        assert "damaged" in refusal(data[:length]) or length < 6, length


@pytest.mark.parametrize("compression", ["gz", "bz2", "xz"])
def test_a_compressed_archive_with_a_wrong_byte_is_refused(compression: str) -> None:
    data = bytearray(COMPRESSIONS[compression](packed(member("a", os.urandom(3000).hex().encode()))))
    data[len(data) // 2] ^= 0xFF
    assert "damaged" in refusal(bytes(data))


def test_what_follows_the_compressed_data_must_be_compressed_too() -> None:
    for name in ("gz", "xz"):
        assert "damaged" in refusal(COMPRESSIONS[name](packed(member("a"))) + b"not compressed")


def test_a_header_with_a_wrong_byte_is_refused() -> None:
    data = packed(member("a", b"a"), member("b", b"b"))
    for position in (0, 124, 156, 1024, 1024 + 130):
        assert "damaged" in refusal(data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :])


def test_an_archive_that_ends_with_an_extended_header_is_refused() -> None:
    assert "damaged" in refusal(pax(b"9 path=x\n") + END)
    assert "damaged" in refusal(header(size=octal(2), kind=b"L") + padded(b"a\0") + END)


def test_what_follows_the_end_mark_is_ignored() -> None:
    assert list(contents(read(header(b"a") + END + header(b"b") + b"rubbish"))) == ["/a"]


def test_other_files_do_not_look_like_archives() -> None:
    for data in (
        b"",
        b"{}\n",
        b"# Notes\n" * 100,
        b"\x89PNG\r\n" + bytes(2000),
        b"PK\x03\x04" + bytes(1000),
        bytes(100),
    ):
        assert not looks_like_archive(data[:1024]), data[:10]
        assert "damaged" in refusal(data)


# Bombs


@pytest.mark.parametrize("size", [base256(10 * 2**30), base256(2**60), octal(8**11 - 1)])
def test_a_header_that_claims_much_is_no_work(size: bytes) -> None:
    """It would take years to skip an exabyte that is not there."""
    assert "damaged" in refusal(header(size=octal(2**30)) + b"little" + END)
    assert refusal(header(size=size) + b"little" + END)
    assert refusal(gzip.compress(header(size=size) + b"little" + END))


def test_a_file_of_10_gigabytes_is_too_large_and_what_follows_is_read(tmp_path: Path) -> None:
    file = tmp_path / "large.tar"
    with file.open("wb") as opened:
        opened.write(header(b"large", size=base256(10 * 2**30)))
        opened.seek(10 * 2**30, os.SEEK_CUR)
        opened.write(header(b"small", size=octal(2)) + padded(b"ok") + END)
    with file.open("rb") as opened:
        items = list(archive(opened)())
    assert reasons(items) == {"/large": "it has 10737418240 bytes, and a memory at most 102400: split it"}
    assert contents(items) == {"/small": b"ok"}


@pytest.mark.parametrize("kind", [b"x", b"X", b"L"])
def test_an_extended_header_that_claims_much_is_not_read(kind: bytes) -> None:
    size = octal(MAX_HEADER_BYTES + 1)
    assert f"claims {MAX_HEADER_BYTES + 1} bytes" in refusal(
        header(size=size, kind=kind) + bytes(MAX_HEADER_BYTES + 1024)
    )


def test_global_headers_and_long_links_of_any_size_are_skipped() -> None:
    size = 3 * MAX_HEADER_BYTES
    data = b"".join(header(size=octal(size), kind=kind) + bytes(size) for kind in (b"g", b"K"))
    assert list(contents(read(data + header(b"a") + END))) == ["/a"]


def test_a_chain_of_extended_headers_is_no_recursion() -> None:
    long = header(size=octal(4), kind=b"L") + padded(b"name")
    assert list(contents(read((long + pax(b"9 path=b\n")) * 3_000 + header() + END))) == ["/b"]


@pytest.mark.parametrize("compression", ["gz", "bz2", "xz"])
def test_a_bomb_is_inflated_up_to_the_limit_and_no_further(monkeypatch: pytest.MonkeyPatch, compression: str) -> None:
    monkeypatch.setattr(archives, "MAX_ARCHIVE_BYTES", 2**20)
    bomb = COMPRESSIONS[compression](header(b"bomb", size=octal(2**24)) + bytes(2**24) + END)
    assert "inflated" in refusal(bomb)
    after_the_end = COMPRESSIONS[compression](END + bytes(2**24))
    assert "inflated" in refusal(after_the_end)
    many = COMPRESSIONS[compression](header(b"x", size=octal(1000)).ljust(1536, b"\0") * 700 + END)
    assert "inflated" in refusal(many)


def test_a_bomb_needs_no_memory(tmp_path: Path) -> None:
    """160 MiB of zeros in each compression, in a process that may have 80 MiB beyond what it starts with."""
    chunk = bytes(2**20)
    makers: dict[str, Any] = {
        "gz": zlib.compressobj(wbits=31),
        "bz2": bz2.BZ2Compressor(),
        "xz": lzma.LZMACompressor(preset=0),
    }
    for name, maker in makers.items():
        with (tmp_path / f"bomb.{name}").open("wb") as file:
            file.write(maker.compress(header(b"bomb", size=base256(160 * 2**20))))
            for _ in range(160):
                file.write(maker.compress(chunk))
            file.write(maker.compress(header(b"after") + END) + maker.flush())
    code = """
import resource, sys
from memfs.workspace.archives import archive
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 80 * 2**20,) * 2)
for path in sys.argv[1:]:
    with open(path, "rb") as file:
        print([item.path for item in archive(file)()])
"""
    with python(code, *sorted(tmp_path.iterdir())) as process:
        assert finish(process) == "['/bomb', '/after']\n" * 3


def test_an_xz_file_that_asks_for_all_memory_is_refused() -> None:
    honest = lzma.compress(END, filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 2**26}])
    assert read(honest) == []
    greedy = bytearray(honest)
    # The block's header: its size, flags, the filter's id, the size of its properties, the dictionary; then a CRC.
    start, end = 12, 12 + (greedy[12] + 1) * 4
    greedy[start + 4] = 39  # 3 GiB
    greedy[end - 4 : end] = zlib.crc32(greedy[start : end - 4]).to_bytes(4, "little")
    assert "Memory usage limit" in refusal(bytes(greedy))


@settings(max_examples=200)
@given(st.data())
def test_whatever_an_archive_is_it_is_read_or_refused(data: st.DataObject) -> None:
    """Damage by bytes anywhere: items or a refusal, and nothing else."""
    whole = bytearray(packed(member("a", b"x" * 600), member("é" * 80, b"text"), member("l", type=tarfile.SYMTYPE)))
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, 6 * 512))
        whole[position] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):  # get past the checksums
        for start in range(0, 6 * 512, 512):
            if whole[start + 257 : start + 262] == b"ustar":
                whole[start : start + 512] = signed(whole[start : start + 512])
    try:
        items = read(bytes(whole))
    except InvalidRequest:
        return
    for item in items:
        assert item.path
        assert isinstance(item, Problem) or len(item.content) <= MAX_CONTENT_BYTES
