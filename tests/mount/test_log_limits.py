"""What clients provoke does not fill the log, however long they go on."""

import logging

from memfs.mount.supervisor import RateLimit


def record(second: float, level: int = logging.INFO, size: int = 1_000) -> logging.LogRecord:
    made = logging.LogRecord("memfs", level, __file__, 1, "x" * size, (), None)
    made.created = second
    return made


def test_a_loop_of_days_cannot_fill_the_log() -> None:
    limit = RateLimit()
    seconds = range(24 * 3_600)
    written = sum(
        len(made.getMessage()) for second in seconds for made in [record(float(second))] * 2 if limit.filter(made)
    )
    a_minute = 24 * 60 * 1_000
    assert RateLimit.FREELY < written < RateLimit.FREELY + 2 * a_minute


def test_what_is_left_out_is_told_and_errors_always_pass() -> None:
    limit = RateLimit()
    limit.FREELY = 10_000
    assert sum(limit.filter(record(0.5)) for _ in range(30)) == 11
    assert not limit.filter(record(2.0))
    assert all(limit.filter(record(2.0, logging.ERROR)) for _ in range(50))
    told = record(61.0)
    assert limit.filter(told)
    assert told.getMessage().endswith("left_out_before=20")
