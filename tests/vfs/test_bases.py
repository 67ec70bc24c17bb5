"""Who was served which text, in a bounded room."""

from memfs.vfs.bases import KEPT_SERVINGS, Base, Bases


def test_of_very_many_readers_those_of_the_memories_read_last_are_known() -> None:
    bases = Bases(lambda pid, other, _moment: pid == other)
    texts = {f"m{number}": (Base(f"old{number}"), Base(f"new{number}")) for number in range(KEPT_SERVINGS // 32)}
    for memory, (old, new) in texts.items():
        for pid in (*range(1, 65, 2), *range(2, 65, 2)):  # half of them were served another text
            bases.served(memory, old if pid % 2 else new, pid)
    known = [
        memory
        for memory, (old, new) in texts.items()
        if bases.started_from(memory, 1, b"", lambda _base: None) is old
        and bases.started_from(memory, 2, b"", lambda _base: None) is new
    ]
    assert known == list(texts)[-len(known) :]
    assert KEPT_SERVINGS // 64 - 1 <= len(known) <= KEPT_SERVINGS // 64
    first = next(iter(texts))
    assert bases.started_from(first, 1, b"", lambda _base: None) is None
