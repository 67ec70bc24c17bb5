"""Processes of tests that shall end on signals, whatever those who started the tests ignore (nohup, a job in ``&``)."""

import signal


def default_signals() -> None:
    """For ``preexec_fn``: let the signals that end a process do so."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
