"""What /proc tells of processes; no mount is needed."""

import threading
import time

from memfs.mount.processes import same_process


def now() -> float:
    """The moment as ``same_process`` counts it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def test_threads_of_one_process() -> None:
    """Whichever of them is asked about."""
    main, begun, done = threading.get_native_id(), threading.Event(), threading.Event()

    def run() -> None:
        begun.set()
        done.wait(10)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert begun.wait(10)
        number = thread.native_id
        assert number is not None
        assert same_process(main, main, now())
        assert same_process(main, number, now())
        assert same_process(number, main, now())
        assert not same_process(main, 1, now())
        assert not same_process(0, 0, now())
    finally:
        done.set()
        thread.join()


def test_who_began_later_is_another_process_with_the_same_number() -> None:
    """Seconds since the system was started: at 0, nobody of today was there."""
    main = threading.get_native_id()
    assert not same_process(main, main, 0.0)
