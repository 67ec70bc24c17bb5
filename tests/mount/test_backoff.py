"""A worker that dies again and again is tried for good, but neither a processor nor the log is filled by it."""

from itertools import accumulate

from memfs.mount.backoff import DELAYS_SECONDS, STABLE_SECONDS, TOLD_EVERY, Backoff


def test_waits_grow_to_the_last_one_and_stay() -> None:
    backoff = Backoff()
    waits = [backoff.after(0.1) for _ in range(len(DELAYS_SECONDS) + 100)]
    assert tuple(waits[: len(DELAYS_SECONDS)]) == DELAYS_SECONDS
    assert waits == sorted(waits)
    assert set(waits[len(DELAYS_SECONDS) :]) == {DELAYS_SECONDS[-1]}


def test_one_that_lived_for_long_begins_anew() -> None:
    backoff = Backoff()
    for _ in range(10):
        backoff.after(0.1)
    assert backoff.after(STABLE_SECONDS + 1) == DELAYS_SECONDS[0]
    assert backoff.told


def test_a_day_of_failures_is_told_line_by_line_at_first_and_then_once_a_minute() -> None:
    backoff = Backoff()
    told = []
    elapsed = 0.0
    while elapsed < 24 * 3600:
        elapsed += backoff.after(0.1)
        if backoff.told:
            told.append(elapsed)
    first = len(DELAYS_SECONDS)
    assert told[:first] == list(accumulate(DELAYS_SECONDS)), "each of the first"
    gaps = {round(later - earlier, 3) for earlier, later in zip(told[first - 1 :], told[first:], strict=False)}
    assert gaps == {TOLD_EVERY * DELAYS_SECONDS[-1]} == {60.0}
    assert len(told) <= 24 * 60 + first
