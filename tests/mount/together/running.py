"""Many sessions at work on one store: starts their processes, and looks back when they have ended."""

import json
import os
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.mount.together import plan as p
from tests.mount.together.checks import Done, check_all, read_logs
from tests.mount.together.mounts import SharedSite
from tests.processes import finish, hear, python, tell

LIMIT = 240.0
"""Seconds that a process may need to end the operation that it is at."""

WORKING = "from tests.mount.together.working import main; main()"


@dataclass
class Outcome:
    """What came of it."""

    done: Done
    wrong: list[str]


def prepare(site: SharedSite, processes: int) -> None:
    """What everybody finds."""
    for path in p.DIRECTORIES:
        (site.store_directory / path[1:]).mkdir()
    (site.store_directory / p.LINES[1:]).write_text(p.first_lines(processes))
    (site.store_directory / p.CONTESTED[1:]).write_text(p.first_contested())


def work_together(
    sites: list[SharedSite],
    directory: Path,
    *,
    per_session: int,
    seconds: float,
    per_second: float = 0.0,
    seed: int = 0,
) -> Outcome:
    """Let ``per_session`` processes of each session work for some seconds, each at ``per_second`` operations at most.

    ``directory`` gets the logs, one for each process, and an export of the store.
    """
    count = len(sites) * per_session
    prepare(sites[0], count)
    works = [
        p.Work(
            directory=str(sites[number % len(sites)].store_directory),
            locks=str(sites[number % len(sites)].root),
            log=str(directory / f"process-{number:02}.jsonl"),
            number=number,
            seconds=seconds,
            per_second=per_second,
            seed=seed,
        )
        for number in range(count)
    ]
    with ExitStack() as stack:
        processes = [stack.enter_context(python(WORKING, str(os.getpid()), json.dumps(asdict(work)))) for work in works]
        for process in processes:
            hear(process)  # that it is ready
        for process in processes:
            tell(process)
        for process in processes:
            process.wait(seconds + LIMIT)
            finish(process)
    done = read_logs([Path(work.log) for work in works])
    return Outcome(done, list(check_all(sites, done, directory)))
