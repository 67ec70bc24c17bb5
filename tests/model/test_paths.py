"""The rules of CONTRACT.md 1 for paths and of CONTRACT.md 3 for slugs, each at its exact boundary."""

import os

import pytest

from memfs.model.errors import InvalidPath, InvalidRequest, MemfsError, NameNotUtf8, PathTooLong
from memfs.model.paths import (
    ancestors,
    check_path,
    check_prefix,
    check_segment,
    decode_name,
    slug,
    split,
    subtree_range,
    unique_slugs,
)

STORE_ID = "memstore_01M8NMQFRP7HNTABQQHZR3KZM6"


@pytest.mark.parametrize(
    "path",
    [
        "/a",
        "/a/b.md",
        "/" + "/".join("abcdefghijklmnopqrst"),  # 20 segments
        "/" + "x" * 1_023,  # 1,024 bytes, and a segment over 255
        "/" + "é" * 511 + "x",  # 1,024 bytes
        "/.hidden",
        "/...",
        "/..a",
        "/ ",
        "/a b",
        "/%_%",
        "/back\\slash",
        "/%2e%2e",
        "/\u00e9",  # composed: NFC
        "/\u65e5\u672c\u8a9e",
        "/\U0001f600",
        "/\u00a0",  # a space, though no ordinary one
        "/'\";--",
        "/con",
    ],
)
def test_a_valid_path(path: str) -> None:
    check_path(path)


@pytest.mark.parametrize(
    "path, error",
    [
        ("", InvalidPath),
        ("a", InvalidPath),
        ("/", InvalidPath),
        ("//", InvalidPath),
        ("//a", InvalidPath),
        ("/a//b", InvalidPath),
        ("/a/", InvalidPath),
        ("/.", InvalidPath),
        ("/..", InvalidPath),
        ("/a/../b", InvalidPath),
        ("/a/./b", InvalidPath),
        ("/\0", InvalidPath),
        ("/a\n", InvalidPath),
        ("/a\tb", InvalidPath),
        ("/\x1b[31m", InvalidPath),
        ("/\x7f", InvalidPath),
        ("/\x85", InvalidPath),  # C1
        ("/\u200b", InvalidPath),  # zero-width space: format
        ("/\u00ad", InvalidPath),  # soft hyphen: format
        ("/\u202e", InvalidPath),  # right-to-left override
        ("/\ufeff", InvalidPath),
        ("/\u2028", InvalidPath),
        ("/\u2029", InvalidPath),
        ("/\ud800", InvalidPath),
        (os.fsdecode(b"/caf\xe9"), InvalidPath),  # a byte that is not UTF-8
        ("/e\u0301", InvalidPath),  # decomposed: not NFC
        ("/\u2126", InvalidPath),  # the ohm sign: NFC has the Greek letter
        ("/" + "/".join("abcdefghijklmnopqrstu"), PathTooLong),  # 21 segments
        ("/" + "x" * 1_024, PathTooLong),  # 1,025 bytes
        ("/" + "é" * 512, PathTooLong),  # 1,025 bytes, far fewer characters
    ],
)
def test_an_invalid_path(path: str, error: type[MemfsError]) -> None:
    with pytest.raises(error) as raised:
        check_path(path)
    assert type(raised.value) is error
    assert str(raised.value).isprintable(), "a message is one line"


def test_a_segment_holds_no_slash() -> None:
    with pytest.raises(InvalidPath):
        check_segment("a/b")


@pytest.mark.parametrize("prefix", ["/", "/a/", "/a/b/", "/a_%/"])
def test_a_valid_prefix(prefix: str) -> None:
    check_prefix(prefix)


@pytest.mark.parametrize("prefix", ["", "a/", "/a", "//", "/a//", "/../"])
def test_an_invalid_prefix(prefix: str) -> None:
    with pytest.raises(InvalidRequest):
        check_prefix(prefix)


def test_a_name_from_the_kernel_has_at_most_255_bytes_of_utf8() -> None:
    assert decode_name("é".encode() * 127 + b"x") == "é" * 127 + "x"
    with pytest.raises(PathTooLong):
        decode_name("é".encode() * 128)
    with pytest.raises(NameNotUtf8):
        decode_name(b"caf\xe9")


def test_a_name_from_the_kernel_may_be_one_that_cannot_be_made() -> None:
    assert decode_name(b"a\n") == "a\n"


def test_ancestors_and_split() -> None:
    assert ancestors("/a/b/c") == ["/a", "/a/b"]
    assert ancestors("/a") == []
    assert split("/a/b/c") == ["a", "b", "c"]


@pytest.mark.parametrize("path", ["/d/a", "/d/0", "/d/\U0001f600", "/d/\x20", "/d/~"])
def test_what_lies_below_a_directory_is_in_its_range(path: str) -> None:
    below, beyond = (bound.encode() for bound in subtree_range("/d"))
    assert below <= path.encode() < beyond


@pytest.mark.parametrize("path", ["/d", "/d.md", "/d-a/x", "/d0", "/da/x", "/c/x", "/D/x"])
def test_what_lies_elsewhere_is_not(path: str) -> None:
    below, beyond = (bound.encode() for bound in subtree_range("/d"))
    assert not below <= path.encode() < beyond


@pytest.mark.parametrize(
    "name, expected",
    [
        ("User preferences", "user-preferences"),
        ("  --A & B!! ", "a-b"),
        ("team_standards.v2", "team-standards-v2"),
        ("Straße", "stra-e"),
        ("日本語", "store-hzr3kzm6"),
        ("!!!", "store-hzr3kzm6"),
        ("A" * 255, "a" * 240),
        ("x" * 239 + "-" * 10 + "y", "x" * 239),
    ],
)
def test_the_slug_of_a_name(name: str, expected: str) -> None:
    assert slug(name, STORE_ID) == expected


def test_equal_slugs_are_numbered_in_the_order_of_attachment() -> None:
    named = [("Notes", STORE_ID), ("notes", STORE_ID), ("NOTES!", STORE_ID), ("Other", STORE_ID)]
    assert unique_slugs(named) == ["notes", "notes-2", "notes-3", "other"]


def test_a_numbered_slug_does_not_meet_a_store_of_that_name() -> None:
    assert unique_slugs([("a", STORE_ID), ("a 2", STORE_ID), ("a", STORE_ID)]) == ["a", "a-2", "a-3"]
    assert unique_slugs([("a", STORE_ID), ("a", STORE_ID), ("a 2", STORE_ID)]) == ["a", "a-2", "a-2-2"]


def test_numbered_slugs_of_the_longest_names_are_file_names() -> None:
    slugs = unique_slugs([("x" * 255, STORE_ID)] * 8)
    assert len(set(slugs)) == 8
    assert max(map(len, slugs)) <= 255
