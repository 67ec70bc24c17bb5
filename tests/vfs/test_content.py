"""What is kept of texts that were read."""

import tracemalloc

from memfs.vfs.content import CACHED_CONTENT_BYTES, ENTRY_BYTES, ContentCache


def test_the_least_recently_used_texts_make_room() -> None:
    cache = ContentCache(limit=2 * ENTRY_BYTES + 100)
    for name in ("a", "b", "c"):
        cache.put(name, name.encode() * 40)
    assert [cache.get(name) is not None for name in ("a", "b", "c")] == [False, True, True]
    assert cache.get("b") == b"b" * 40  # used just now, so it stays
    cache.put("d", b"d" * 40)
    assert [cache.get(name) is not None for name in ("b", "c", "d")] == [True, False, True]


def test_a_text_counts_once_and_one_over_the_limit_is_not_kept() -> None:
    cache = ContentCache(limit=2 * ENTRY_BYTES + 100)
    for _ in range(5):
        cache.put("a", b"a" * 60)
    cache.put("b", b"b" * 40)
    assert cache.get("a") is not None
    cache.put("c", b"c" * (2 * ENTRY_BYTES + 101))
    assert cache.get("c") is None


def test_a_worker_keeps_little_of_what_the_kernel_keeps_too() -> None:
    cache = ContentCache()
    for number in range(2_000):
        cache.put(str(number), bytes(10_000))
    kept = sum(cache.get(str(number)) is not None for number in range(2_000))
    assert 0 < kept * 10_000 <= CACHED_CONTENT_BYTES < 2_000_000


def test_many_small_texts_take_no_more_room_than_a_few_large_ones() -> None:
    cache = ContentCache()
    tracemalloc.start()
    try:
        for number in range(20_000):
            cache.put(f"memver_{number}", f"text {number}".encode())
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert cache.get("memver_19999") is not None
    assert used < 1.5 * CACHED_CONTENT_BYTES
