"""A trouble that lasts is told now and then, not each time it is met."""

from memfs.model.repeats import AGAIN_SECONDS, Repeats


class Clock:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_trouble_is_told_at_once_and_then_each_minute() -> None:
    clock = Clock()
    repeats = Repeats(clock)
    told = []
    for moment in range(200):
        clock.now = float(moment)
        if repeats.worth_telling("no thread could be started"):
            told.append(moment)
    assert told == [0, AGAIN_SECONDS, 2 * AGAIN_SECONDS, 3 * AGAIN_SECONDS]


def test_another_trouble_is_told_at_once() -> None:
    repeats = Repeats(Clock())
    assert [repeats.worth_telling(what) for what in ("a", "a", "b", "b", "a")] == [True, False, True, False, True]


def test_a_trouble_that_was_over_is_told_again() -> None:
    repeats = Repeats(Clock())
    assert repeats.worth_telling("a")
    repeats.over()
    assert repeats.worth_telling("a")
    assert not repeats.worth_telling("a")
