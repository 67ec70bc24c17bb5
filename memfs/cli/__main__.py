"""``memfs`` as a program, which ``python -m memfs.cli`` is too."""

import signal


def run() -> None:
    """Run the command line, and end the process.

    While its modules load and while Python shuts down, Ctrl-C ends us as it ends any program: Python's own handler
    would show a traceback of whatever was being imported.
    """
    handler = signal.getsignal(signal.SIGINT)
    ours = handler is signal.default_int_handler  # where it is ignored, as below nohup, it stays so
    if ours:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from memfs.cli.main import main

    if ours:
        signal.signal(signal.SIGINT, handler)
    try:
        main(prog_name="memfs")
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    run()
