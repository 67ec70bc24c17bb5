"""Times as text, and records as the objects of CONTRACT.md 1."""

from datetime import UTC, datetime, timedelta, timezone

from memfs.model.contract import attachment_object, memory_object, store_object, version_object
from memfs.model.records import Actor, Attachment, Memory, MemoryVersion, Store, format_time, now, time_ns

AT = "2026-11-30T09:12:01.000123Z"


def test_times_are_utc_with_six_digits_so_that_text_order_is_time_order() -> None:
    moment = datetime(2026, 11, 30, 9, 12, 1, tzinfo=UTC)
    assert format_time(moment) == "2026-11-30T09:12:01.000000Z"
    assert format_time(moment.astimezone(timezone(timedelta(hours=-5)))) == "2026-11-30T09:12:01.000000Z"
    times = [moment + timedelta(microseconds=step) for step in (0, 1, 10, 999_999, 1_000_000)]
    assert [format_time(time) for time in times] == sorted(format_time(time) for time in times)


def test_nanoseconds_of_a_time_are_exact() -> None:
    assert time_ns("1970-01-01T00:00:00.000001Z") == 1_000
    assert time_ns("2026-11-30T09:12:01.999999Z") % 1_000_000_000 == 999_999_000
    assert time_ns(now()) // 1_000_000_000 > 1_700_000_000


def test_an_actor_has_the_field_of_its_type() -> None:
    assert Actor("session_actor", "sesn_1").as_json() == {"type": "session_actor", "session_id": "sesn_1"}
    assert Actor("api_actor", "k").as_json() == {"type": "api_actor", "api_key_id": "k"}
    assert Actor("user_actor", "u").as_json() == {"type": "user_actor", "user_id": "u"}
    assert Actor("service_account_actor", "s").as_json() == {
        "type": "service_account_actor",
        "service_account_id": "s",
    }


def test_a_store_object() -> None:
    assert store_object(Store("memstore_1", "Notes", "", {"a": "b"}, AT, AT)) == {
        "id": "memstore_1",
        "type": "memory_store",
        "name": "Notes",
        "description": "",
        "metadata": {"a": "b"},
        "created_at": AT,
        "updated_at": AT,
        "archived_at": None,
    }


def test_a_memory_object_with_and_without_content() -> None:
    basic = Memory("mem_1", "memstore_1", "memver_1", "/a", 3, "f" * 64, AT, AT)
    expected = {
        "id": "mem_1",
        "type": "memory",
        "memory_store_id": "memstore_1",
        "memory_version_id": "memver_1",
        "path": "/a",
        "content": None,
        "content_size_bytes": 3,
        "content_sha256": "f" * 64,
        "created_at": AT,
        "updated_at": AT,
    }
    assert memory_object(basic) == expected
    full = Memory("mem_1", "memstore_1", "memver_1", "/a", 3, "f" * 64, AT, AT, "é\n".encode())
    assert memory_object(full) == expected | {"content": "é\n"}
    empty = Memory("mem_1", "memstore_1", "memver_1", "/a", 0, "f" * 64, AT, AT, b"")
    assert memory_object(empty)["content"] == "", "an empty content is not an absent one"


def test_a_version_object_written_deleted_and_redacted() -> None:
    alice = Actor("user_actor", "alice")
    written = MemoryVersion("memver_1", "memstore_1", "mem_1", 7, "created", "/a", 1, "f" * 64, AT, alice, content=b"x")
    expected = {
        "id": "memver_1",
        "type": "memory_version",
        "memory_store_id": "memstore_1",
        "memory_id": "mem_1",
        "operation": "created",
        "path": "/a",
        "content": "x",
        "content_size_bytes": 1,
        "content_sha256": "f" * 64,
        "created_at": AT,
        "created_by": {"type": "user_actor", "user_id": "alice"},
        "redacted_at": None,
        "redacted_by": None,
    }
    assert version_object(written) == expected
    gone = {"content": None, "content_size_bytes": None, "content_sha256": None}
    deleted = MemoryVersion("memver_1", "memstore_1", "mem_1", 7, "deleted", "/a", None, None, AT, alice)
    assert version_object(deleted) == expected | gone | {"operation": "deleted"}
    redacted = MemoryVersion("memver_1", "memstore_1", "mem_1", 7, "created", None, None, None, AT, alice, AT, alice)
    assert version_object(redacted) == expected | gone | {
        "path": None,
        "redacted_at": AT,
        "redacted_by": {"type": "user_actor", "user_id": "alice"},
    }


def test_an_attachment_object() -> None:
    attachment = Attachment("memstore_1", "read_only", "Notes", "All of them", "/mnt/memory/notes", "Read first.")
    assert attachment_object(attachment) == {
        "type": "memory_store",
        "memory_store_id": "memstore_1",
        "access": "read_only",
        "instructions": "Read first.",
        "name": "Notes",
        "description": "All of them",
        "mount_path": "/mnt/memory/notes",
    }
